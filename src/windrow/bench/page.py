"""Writes ``docs/performance.md``. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby

from windrow.bench.measurement import Measurement, format_range, format_value

_HEADER = """\
# Performance

Measured, not estimated: above each figure is the command that repeats it, and the machine.
It is written by `make bench`, and each part by its own command with `--write docs/performance.md`.
A figure is the median of its repeats, with the lowest and highest beside it.
Each kind of processor keeps the table of its last run, newest first.
What holds on one may not hold on a slower one.
"""

_TABLE = """
| figure | median | unit | lowest … highest | repeats | goal | holds |
|---|---:|---|---|---:|---|---|
"""

_RUN = re.compile(r"^(?P<kind>[^|\n]+?, \d+ cores), .*\n(?:\n\|.*)+", re.MULTILINE)

_HOLDS = {True: "yes", False: "**no**", None: "–"}


def performance_page(measurements: Iterable[Measurement], date: str, before: str = "") -> str:
    """The page, with a table for each command and kind of processor; the others stay as they were.

    So a figure that a slower machine misses stands beside the one that holds, and neither hides
    the other.
    """
    runs = _runs(before)
    for (command, machine), group in groupby(measurements, lambda m: (m.command, m.hardware)):
        others = runs.pop(command, {})
        others.pop(machine.kind, None)
        rows = "".join(_row(measurement) for measurement in group)
        runs[command] = {machine.kind: f"{machine}, on {date}.\n{_TABLE}{rows}", **others}
    return _HEADER + "".join(_section(command, runs[command]) for command in sorted(runs))


def _section(command: str, runs: dict[str, str]) -> str:
    return f"\n## `{command}`\n" + "".join(f"\n{run}" for run in runs.values())


def _runs(page: str) -> dict[str, dict[str, str]]:
    """What stands below each command, by kind of processor."""
    _, *parts = re.split(r"^## `(.+)`\n", page, flags=re.MULTILINE)
    return {
        command: {run.group("kind"): f"{run.group()}\n" for run in _RUN.finditer(text)}
        for command, text in zip(parts[::2], parts[1::2], strict=True)
    }


def _row(measurement: Measurement) -> str:
    figure = measurement.figure
    cells = (
        figure.name,
        format_value(measurement.value),
        figure.unit,
        format_range(figure),
        str(len(figure.repeats)),
        str(figure.goal or "–"),
        _HOLDS[measurement.holds],
    )
    return f"| {' | '.join(cells)} |\n"
