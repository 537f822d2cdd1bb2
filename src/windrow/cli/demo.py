"""``windrow demo``: the whole road on embedded parts, with kills on the way and a verdict."""

from __future__ import annotations

import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from windrow.cli.demo_progress import Quiet, Shown
from windrow.cli.options import AsJson
from windrow.cli.output import print_json, print_line, print_rows
from windrow.demo.outcome import as_object, page_of
from windrow.demo.parts import installed_parts
from windrow.demo.road import Road, check_installed, open_road
from windrow.demo.stages import Stages
from windrow.demo.story import FULL, SMALL, Demonstration, Story

app = typer.Typer(help="See what Windrow does, on embedded parts.", add_completion=False)

_NOT_INSTALLED = "not installed: make setup"


@app.command()
def demo(
    as_json: AsJson = False,
    small: Annotated[
        bool, typer.Option("--small", help="Fewer heroes, and no pauses between the kills.")
    ] = False,
    kafka: Annotated[
        bool, typer.Option("--kafka", help="Over a real Kafka instead of journals.")
    ] = False,
    keep: Annotated[
        bool,
        typer.Option("--keep", help="Leave it running until Ctrl-C; then the verdict is new."),
    ] = False,
    report: Annotated[
        Path, typer.Option("--report", metavar="FILE", help="Where the report goes.")
    ] = Path("windrow-demo.html"),
) -> None:
    """Kill a relay, a broker and Spark under load, count what arrived; exit 1 if it is not clean.

    Heroes are created by the play-pen's producer and go over the outbox, a relay, a journal and a
    graph on Spark into a table and an audit. "windrow verify" gives the verdict.
    """
    check_installed(on_kafka=kafka)
    _check_writable(report)
    plan = SMALL if small else FULL
    listener = Quiet() if as_json else Shown()
    stages = Stages("the parts start")
    with ExitStack() as stack:
        with listener:
            road = stack.enter_context(open_road(listener.say, plan.missions, on_kafka=kafka))
            story = Story(road, plan, listener, stages)
            shown = story.tell()
        told = as_object(shown, installed_parts())
        page = page_of(told, shown.samples, road.log_name).to_html()
        report.write_text(page, encoding="utf-8")
        _tell({**told, "report": str(report)}, road, as_json=as_json, keep=keep)
        if keep:
            shown = _kept(story, as_json=as_json)
    if not shown.holds:
        raise typer.Exit(1)


def _check_writable(report: Path) -> None:
    """Refuse a place for the report before the road is opened, not when there is nothing left."""
    is_new = not report.exists()
    try:
        report.parent.mkdir(parents=True, exist_ok=True)
        with report.open("a"):
            pass
    except OSError as error:
        reason = f"{report} cannot be written: {error.strerror}"
        raise typer.BadParameter(reason, param_hint="--report") from error
    if is_new:
        report.unlink()


def _kept(story: Story, *, as_json: bool) -> Demonstration:
    """Wait for Ctrl-C, and judge what is there by then."""
    with suppress(KeyboardInterrupt):
        while True:
            time.sleep(3600)  # Ctrl-C ends it
    shown = story.judge()
    if not as_json:
        _print_verdict(as_object(shown, ()))
    return shown


def _tell(told: dict[str, Any], road: Road, *, as_json: bool, keep: bool) -> None:
    if keep:
        told |= {"addresses": road.addresses(), "comparisons": road.comparisons()}
    if as_json:
        print_json(told)
        return
    print_line()
    versions = [
        {"part": part["name"], "version": part["version"] or _NOT_INSTALLED}
        for part in told["parts"]
    ]
    print_rows(versions, as_json=False)
    print_line()
    print_rows(
        [
            {"stretch": each["name"], "p50": f"{each['p50']:.3f} s", "p99": f"{each['p99']:.3f} s"}
            for each in told["stretches"]
        ],
        as_json=False,
    )
    print_line()
    print_rows(
        [{"stage": each["name"], "time": f"{each['seconds']:.1f} s"} for each in told["stages"]],
        as_json=False,
    )
    print_line()
    print_line(f"report: {told['report']}")
    _print_verdict(told)
    if keep:
        print_line()
        print_rows(
            [{"part": part, "address": address} for part, address in told["addresses"].items()],
            as_json=False,
        )
        print_line("running until Ctrl-C")


def _print_verdict(told: dict[str, Any]) -> None:
    for end in told["ends"]:
        _print_end(f"{end['end']}: ", end, end["clean"])
    if told["wrong_totals"]:
        print_line(f"totals: {told['wrong_totals']} teams have another total than heroes")
    _print_end("verdict: ", told["verdict"], told["verdict"]["holds"])


def _print_end(name: str, counts: dict[str, Any], clean: bool) -> None:
    strangers = f", unexpected {counts['unexpected']}" if counts["unexpected"] else ""
    print_line(
        f"{name}written {counts['written']}, delivered {counts['delivered']},"
        f" lost {counts['lost']}, doubled {counts['doubled']},"
        f" misordered {counts['misordered']}{strangers}: {'clean' if clean else 'BROKEN'}"
    )
