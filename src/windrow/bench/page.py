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
"""

_TABLE = """
| figure | median | unit | lowest … highest | repeats | goal | holds |
|---|---:|---|---|---:|---|---|
"""

_HOLDS = {True: "yes", False: "**no**", None: "–"}


def performance_page(measurements: Iterable[Measurement], date: str, before: str = "") -> str:
    """The page, with one table for each command; what was not measured now stays as it was."""
    sections = _sections(before)
    for (command, machine), group in groupby(measurements, lambda m: (m.command, str(m.hardware))):
        rows = "".join(_row(measurement) for measurement in group)
        sections[command] = f"\n\n{machine}, on {date}.\n{_TABLE}{rows}"
    parts = (f"\n## `{command}`{sections[command]}" for command in sorted(sections))
    return _HEADER + "".join(parts)


def _sections(page: str) -> dict[str, str]:
    """What stands below each command."""
    _, *parts = re.split(r"^## `(.+)`$", page, flags=re.MULTILINE)
    texts = (f"{text.rstrip()}\n" for text in parts[1::2])
    return dict(zip(parts[::2], texts, strict=True))


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
