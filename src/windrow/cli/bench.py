"""``windrow bench``: measure a part and hold it to its goals."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress as ProgressBar

from windrow.bench import PARTS, Measurement, Progress, performance_page, run_part
from windrow.bench.measurement import format_range, format_value
from windrow.bench.parts import find_measure
from windrow.cli.options import AsJson
from windrow.cli.output import print_json, print_rows

app = typer.Typer(help="Measure a part, and hold it to its goals.", add_completion=False)

_HOLDS = {True: "yes", False: "no", None: None}


@app.command()
def bench(
    part: Annotated[str, typer.Argument(metavar="PART", help=f"{', '.join(PARTS)}, or all.")],
    quick: Annotated[bool, typer.Option("--quick", help="End within 45 s per part.")] = False,
    write: Annotated[
        Path | None,
        typer.Option("--write", metavar="FILE", help="Also write the figures as a page."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure one part, or all of them; exit 1 if a goal does not hold."""
    parts = tuple(PARTS) if part == "all" else (part,)
    measurements = _measure(parts, quick)
    if write is not None:
        today = datetime.now(UTC).date().isoformat()
        before = write.read_text(encoding="utf-8") if write.exists() else ""
        write.write_text(performance_page(measurements, today, before), encoding="utf-8")
    if as_json:
        print_json([measurement.to_json() for measurement in measurements])
    else:
        print_rows([_row(measurement) for measurement in measurements], as_json=False)
    if any(measurement.holds is False for measurement in measurements):
        raise typer.Exit(1)


def _measure(parts: tuple[str, ...], quick: bool) -> list[Measurement]:
    for name in parts:
        find_measure(name)  # a slip of the pen is told before anything is measured
    console = Console(stderr=True)
    with ProgressBar(console=console, transient=True, disable=not console.is_terminal) as bar:
        return [
            measurement
            for name in parts
            for measurement in run_part(name, quick=quick, progress=_shown_on(bar, name))
        ]


def _shown_on(bar: ProgressBar, part: str) -> Progress:
    task = bar.add_task(part, total=1.0)

    def show(done: float, what: str) -> None:
        bar.update(task, completed=done, description=f"{part}: {what}")

    return show


def _row(measurement: Measurement) -> dict[str, object]:
    figure = measurement.figure
    return {
        "figure": figure.name,
        "median": f"{format_value(measurement.value)} {figure.unit}",
        "lowest … highest": format_range(figure),
        "goal": figure.goal,
        "holds": _HOLDS[measurement.holds],
    }
