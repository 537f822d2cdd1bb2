"""``windrow demo``: the road on embedded parts, ending in a verdict."""

from __future__ import annotations

from dataclasses import asdict

import typer

from windrow.cli.options import AsJson
from windrow.cli.output import print_json, print_line, print_rows
from windrow.demo import Demonstration, Part, demonstrate, installed_parts

app = typer.Typer(help="See what Windrow does, on embedded parts.", add_completion=False)

_NOT_INSTALLED = "not installed: make setup"


@app.command()
def demo(as_json: AsJson = False) -> None:
    """Write, roll back, and see that events exist exactly where data does; exit 1 if not."""
    shown = demonstrate(_ignore if as_json else print_line)
    parts = [Part("PostgreSQL, embedded", shown.postgres_version), *installed_parts()]
    if as_json:
        print_json(_as_object(shown, parts))
    else:
        _print_outcome(shown, parts)
    if not shown.verdict.holds:
        raise typer.Exit(1)


def _ignore(step: str) -> None:
    """JSON tells the outcome alone."""


def _as_object(shown: Demonstration, parts: list[Part]) -> dict[str, object]:
    return {
        "orders": shown.orders,
        "events": shown.events,
        "verdict": {**asdict(shown.verdict), "holds": shown.verdict.holds},
        "parts": [asdict(part) for part in parts],
    }


def _print_outcome(shown: Demonstration, parts: list[Part]) -> None:
    verdict = shown.verdict
    print_line(f"orders in the database: {', '.join(shown.orders) or 'none'}")
    print_line(f"events in the outbox:   {', '.join(shown.events) or 'none'}")
    print_line()
    print_rows(
        [{"part": part.name, "version": part.version or _NOT_INSTALLED} for part in parts],
        as_json=False,
    )
    print_line()
    print_line(
        f"verdict: committed {verdict.committed}, rolled back {verdict.rolled_back},"
        f" lost {verdict.lost}, doubled {verdict.doubled}, orphaned {verdict.orphaned}: "
        + ("an event exists exactly if its data does" if verdict.holds else "BROKEN")
    )
