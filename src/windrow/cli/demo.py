"""``windrow demo``: the road on embedded parts, ending in a verdict."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from windrow.cli.options import AsJson
from windrow.cli.output import print_json, print_line, print_rows
from windrow.demo import Demonstration, Part, demonstrate, installed_parts

app = typer.Typer(help="See what Windrow does, on embedded parts.", add_completion=False)

_NOT_INSTALLED = "not installed: make setup"


@app.command()
def demo(
    as_json: AsJson = False,
    orders: Annotated[int, typer.Option("--orders", min=20, help="How many to place.")] = 600,
) -> None:
    """Place orders, kill the leading relay, and count what arrived; exit 1 if it is not clean."""
    # The bar goes to standard error, and only where somebody sees it move.
    console = Console(stderr=True)
    bar = Progress(console=console, transient=True, disable=as_json or not console.is_terminal)
    with bar:
        task = bar.add_task("placing orders", total=1.0)
        shown = demonstrate(
            _ignore if as_json else print_line,
            lambda done: bar.update(task, completed=done),
            orders,
        )
    parts = [Part("PostgreSQL, embedded", shown.postgres_version), *installed_parts()]
    if as_json:
        print_json(_as_object(shown, parts))
    else:
        _print_outcome(shown, parts)
    if not shown.holds:
        raise typer.Exit(1)


def _ignore(step: str) -> None:
    """JSON tells the outcome alone."""


def _as_object(shown: Demonstration, parts: list[Part]) -> dict[str, object]:
    verdict = {name: value for name, value in asdict(shown.verdict).items() if name != "examples"}
    return {
        "rolled_back": shown.rolled_back,
        "killed": shown.killed,
        "verdict": {**verdict, "holds": shown.holds},
        "parts": [asdict(part) for part in parts],
    }


def _print_outcome(shown: Demonstration, parts: list[Part]) -> None:
    verdict = shown.verdict
    print_line()
    print_rows(
        [{"part": part.name, "version": part.version or _NOT_INSTALLED} for part in parts],
        as_json=False,
    )
    print_line()
    print_line(
        f"verdict: written {verdict.written}, delivered {verdict.delivered}, lost {verdict.lost},"
        f" misordered {verdict.misordered}, doubled {verdict.doubled}"
        f" (allowed {verdict.forgiven}): " + ("clean" if shown.holds else "BROKEN")
    )
