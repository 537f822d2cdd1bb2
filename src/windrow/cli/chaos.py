"""``windrow chaos``: try every fault on the play-pen, and see what holds."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from windrow.chaos import (
    DATABASES,
    FULL_SECONDS,
    QUICK_SECONDS,
    SCENARIOS,
    Options,
    Scenario,
    choose,
    page_of,
    rows_of,
)
from windrow.chaos import run as run_scenarios
from windrow.cli.options import AsJson
from windrow.cli.output import print_json, print_line, print_rows

app = typer.Typer(
    help="Try every fault, and see what holds.", add_completion=False, no_args_is_help=True
)


@app.command("list")
def list_command(as_json: AsJson = False) -> None:
    """List the scenarios: what each does, and what to expect."""
    rows = [
        {
            "scenario": scenario.name,
            "what": scenario.title,
            "does": scenario.does,
            "expect": scenario.expect,
        }
        for scenario in SCENARIOS
    ]
    print_rows(rows, as_json=as_json)


@app.command()
def run(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[S1 … S7 | NAME | all]", help="Which ones; all by default."),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option("--seconds", min=2, max=600, help="Of each scenario.", show_default="20"),
    ] = None,
    rate: Annotated[
        float, typer.Option("--rate", min=1, max=500, help="Requests of each kind per second.")
    ] = 20.0,
    database: Annotated[
        str, typer.Option("--database", metavar="DATABASE", help=f"{', '.join(DATABASES)}.")
    ] = "postgres",
    relays: Annotated[int, typer.Option("--relays", min=1, max=16, help="How many compete.")] = 2,
    seed: Annotated[
        int | None,
        typer.Option("--seed", help="Repeat the chances of another run.", show_default=False),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help=f"Only {QUICK_SECONDS:g} s of each scenario.")
    ] = False,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="Also write the report as a page."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run scenarios on embedded parts and grade them; exit 1 if one does not pass."""
    scenarios = choose(names or [])
    if quick and seconds is not None:
        raise typer.BadParameter("give --quick or --seconds, not both", param_hint="--quick")
    chosen = next((each for each in DATABASES if each == database), None)
    if chosen is None:
        raise typer.BadParameter(
            f"{database!r} is none of {', '.join(DATABASES)}", param_hint="--database"
        )
    if html is not None and not html.parent.is_dir():
        raise typer.BadParameter(f"there is no directory {str(html.parent)!r}", param_hint="--html")
    options = Options(
        seconds=seconds or (QUICK_SECONDS if quick else FULL_SECONDS),
        rate=rate,
        database=chosen,
        relays=relays,
        seed=random.randrange(1 << 31) if seed is None else seed,
    )
    report = _run(scenarios, options)
    if html is not None:
        html.write_text(page_of(report).to_html(), encoding="utf-8")
    _tell(report, as_json)
    if not report["passed"]:
        raise typer.Exit(1)


def _run(scenarios: Sequence[Scenario], options: Options) -> dict[str, Any]:
    # The bar goes to standard error, and only where somebody sees it move.
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        tasks = {
            scenario.name: bar.add_task(f"{scenario.name} {scenario.title}", total=1.0, start=False)
            for scenario in scenarios
        }

        def show(name: str, done: float) -> None:
            if done == 0.0:
                bar.start_task(tasks[name])
            bar.update(tasks[name], completed=done)

        return run_scenarios(scenarios, options, show)


def _tell(report: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(report)
        return
    print_rows(rows_of(report), as_json=False)
    print_line()
    for scenario in report["scenarios"]:
        for reason in scenario["reasons"]:
            print_line(f"{scenario['name']} {scenario['result']}: {reason}")
    holds = "all hold" if report["passed"] else "NOT ALL HOLD"
    print_line(f"verdict: {holds} (seed {report['seed']})")
