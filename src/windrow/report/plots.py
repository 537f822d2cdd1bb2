"""How do lines over time and bars beside each other look, and which table says the same?

Every plot is a figure: the drawing with its title and its meaning in words, a legend, and a table
of all its numbers. Series differ by dashes as well as by colour.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import TypeGuard

from windrow.report.cells import exact, shown
from windrow.report.scale import Scale, ticks
from windrow.report.tables import Column, Table

WIDTH, HEIGHT = 760, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 16, 20, 44
_LABEL_HEIGHT, _LABEL_ROWS = 14, 5
_BAR_HEIGHT, _BAR_GAP = 22, 8
_CHARACTER = 7.0

Point = tuple[float, float | None]

_TIME, _COUNT = Column("time", "s"), Column("count")


@dataclass(frozen=True, slots=True)
class Series:
    """One line: (x, y) by rising x; where y is None the line is broken."""

    name: str
    points: Sequence[Point]


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happened at ``at``, or went on until ``until``."""

    at: float
    label: str
    until: float | None = None


@dataclass(frozen=True, slots=True)
class LinePlot:
    """Values over time, with what happened meanwhile.

    Attributes:
        title: What it shows.
        series: Its lines.
        marks: Moments and stretches to be seen in it.
        x: Heading and unit of what runs to the right.
        y: Heading and unit of what runs up.
        id: Of the drawing; unlike any other on the page.
    """

    title: str
    series: Sequence[Series]
    marks: Sequence[Mark] = ()
    x: Column = _TIME
    y: Column = _COUNT
    id: str = ""

    def to_html(self) -> str:
        """The figure."""
        xs = [x for line in self.series for x, _ in line.points]
        xs += [moment for mark in self.marks for moment in (mark.at, mark.until or mark.at)]
        ys = [y for line in self.series for _, y in line.points if _is_there(y)]
        across = ticks(min(xs, default=0.0), max(xs, default=1.0), 8)
        up = ticks(min(0.0, min(ys, default=0.0)), max(ys, default=1.0))
        x = Scale(across[0], across[-1], _LEFT, WIDTH - _RIGHT)
        labels = _place_labels(self.marks, x)
        top = _TOP + _LABEL_HEIGHT * (1 + max((label.row for label in labels), default=-1))
        y = Scale(up[0], up[-1], HEIGHT - _BOTTOM, top)
        drawing = [
            *(_grid_up(y.at(tick), shown(tick)) for tick in up),
            *(_grid_across(x.at(tick), shown(tick)) for tick in across),
            _axis_names(self.x, self.y),
            *(_mark(mark, x, label, top) for mark, label in zip(self.marks, labels, strict=True)),
            *(_line(line, x.at, y.at, number) for number, line in enumerate(self.series)),
        ]
        return _figure(self.id, self.title, self._in_words(), HEIGHT, drawing, self._aside())

    def _in_words(self) -> str:
        lines = ". ".join(_summary(line, self.y) for line in self.series)
        marks = "; ".join(_told(mark, self.x) for mark in self.marks)
        return f"{lines}." + (f" Marked: {marks}." if marks else "")

    def _aside(self) -> str:
        legend = "".join(
            f'<li><svg class="key" viewBox="0 0 30 8" aria-hidden="true">'
            f'<path class="line s{number % 6}" d="M0 4H30"/></svg>{escape(line.name)}</li>'
            for number, line in enumerate(self.series)
        )
        moments = sorted({x for line in self.series for x, _ in line.points})
        values = [dict(line.points) for line in self.series]
        rows: list[list[str | float | None]] = [
            [shown(x), *(each.get(x) for each in values)] for x in moments
        ]
        names = [Column(line.name, self.y.unit, self.y.digits) for line in self.series]
        table = Table(self.title, [Column(_with_unit(self.x)), *names], rows)
        marks = Table(
            f"{self.title}: what happened",
            ["event", Column("from", self.x.unit), Column("until", self.x.unit)],
            [[mark.label, mark.at, mark.until] for mark in self.marks],
        )
        tables = table.to_html() + (marks.to_html() if self.marks else "")
        return f'<ul class="legend">{legend}</ul>{_folded(tables)}'


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar; those of the same ``kind`` look alike. None is something that was not measured."""

    label: str
    value: float | None
    kind: str = ""


@dataclass(frozen=True, slots=True)
class BarPlot:
    """Values beside each other, as lying bars with their numbers at the end."""

    title: str
    bars: Sequence[Bar]
    value: Column = _COUNT
    id: str = ""

    def to_html(self) -> str:
        """The figure."""
        left = max((len(bar.label) for bar in self.bars), default=0) * _CHARACTER + 12
        top = max((bar.value for bar in self.bars if _is_there(bar.value)), default=1.0)
        scale = Scale(0.0, max(float(top), 1e-9), left, WIDTH - 110)
        kinds = sorted({bar.kind for bar in self.bars})
        drawing = [
            self._bar(bar, row, scale, kinds.index(bar.kind)) for row, bar in enumerate(self.bars)
        ]
        height = len(self.bars) * (_BAR_HEIGHT + _BAR_GAP) + _BAR_GAP
        words = "; ".join(f"{bar.label}: {self._number(bar.value)}" for bar in self.bars)
        return _figure(self.id, self.title, f"{words}.", height, drawing, self._aside(kinds))

    def _number(self, value: float | None) -> str:
        if not _is_there(value):
            return "not measured"
        return f"{shown(value, self.value.digits)} {self.value.unit}".strip()

    def _bar(self, bar: Bar, row: int, scale: Scale, kind: int) -> str:
        y = row * (_BAR_HEIGHT + _BAR_GAP) + _BAR_GAP
        width = scale.at(bar.value) - scale.start if _is_there(bar.value) else 0.0
        middle = _px(y + _BAR_HEIGHT / 2 + 4)
        return (
            f'<text class="end" x="{_px(scale.start - 8)}" y="{middle}">{escape(bar.label)}</text>'
            f'<rect class="bar s{kind % 6}" x="{_px(scale.start)}" y="{y}"'
            f' width="{_px(max(width, 1.0))}" height="{_BAR_HEIGHT}"'
            f' data-label="{escape(bar.label)}" data-value="{exact(bar.value)}"/>'
            f'<text x="{_px(scale.start + width + 8)}" y="{middle}">'
            f"{escape(self._number(bar.value))}</text>"
        )

    def _aside(self, kinds: Sequence[str]) -> str:
        legend = "".join(
            f'<li><svg class="key" viewBox="0 0 30 8" aria-hidden="true">'
            f'<rect class="bar s{number % 6}" width="30" height="8"/></svg>{escape(kind)}</li>'
            for number, kind in enumerate(kinds)
            if kind
        )
        table = Table(self.title, ["", self.value], [[bar.label, bar.value] for bar in self.bars])
        return (f'<ul class="legend">{legend}</ul>' if legend else "") + _folded(table.to_html())


def _figure(
    id_: str, title: str, words: str, height: float, drawing: Sequence[str], aside: str
) -> str:
    name = escape(id_ or "plot-" + "".join(c if c.isalnum() else "-" for c in title.lower()))
    return "\n".join(
        [
            f'<figure id="{name}">',
            f"<figcaption>{escape(title)}</figcaption>",
            f'<svg class="plot" role="img" aria-labelledby="{name}-title {name}-words"'
            f' viewBox="0 0 {WIDTH} {_px(height)}">',
            f'<title id="{name}-title">{escape(title)}</title>',
            f'<desc id="{name}-words">{escape(words)}</desc>',
            *drawing,
            "</svg>",
            aside,
            "</figure>",
        ]
    )


def _folded(table: str) -> str:
    return f"<details><summary>The same in numbers</summary>\n{table}\n</details>"


def _grid_up(y: float, label: str) -> str:
    return (
        f'<path class="grid" d="M{_LEFT} {_px(y)}H{WIDTH - _RIGHT}"/>'
        f'<text class="end note" x="{_LEFT - 8}" y="{_px(y + 4)}">{escape(label)}</text>'
    )


def _grid_across(x: float, label: str) -> str:
    return (
        f'<path class="grid" d="M{_px(x)} {HEIGHT - _BOTTOM}v5"/>'
        f'<text class="middle note" x="{_px(x)}" y="{HEIGHT - _BOTTOM + 18}">{escape(label)}</text>'
    )


def _axis_names(x: Column, y: Column) -> str:
    return (
        f'<text class="end note" x="{WIDTH - _RIGHT}" y="{HEIGHT - 8}">'
        f"{escape(_with_unit(x))}</text>"
        f'<text class="note" x="4" y="14">{escape(_with_unit(y))}</text>'
    )


@dataclass(frozen=True, slots=True)
class _Label:
    """Where the name of a mark stands: a row from the top, and to which side of its line."""

    row: int
    turns: bool


def _place_labels(marks: Sequence[Mark], x: Scale) -> list[_Label]:
    """Each on the highest row on which it touches no other, as long as there is one."""
    ends = [-math.inf] * _LABEL_ROWS
    labels: dict[int, _Label] = {}
    for index in sorted(range(len(marks)), key=lambda index: marks[index].at):
        begin, width = x.at(marks[index].at), len(marks[index].label) * _CHARACTER + 8
        turns = begin + width > WIDTH - _RIGHT  # it would run off the paper
        left = begin - width if turns else begin
        row = next((row for row, end in enumerate(ends) if end <= left), _LABEL_ROWS - 1)
        ends[row] = left + width
        labels[index] = _Label(row, turns)
    return [labels[index] for index in range(len(marks))]


def _mark(mark: Mark, x: Scale, label: _Label, top: float) -> str:
    """A line for a moment, a band for a stretch."""
    begin, end = x.at(mark.at), x.at(mark.at if mark.until is None else mark.until)
    bottom, label_y = HEIGHT - _BOTTOM, _LABEL_HEIGHT * (label.row + 2)
    band = (
        f'<rect class="band" x="{_px(begin)}" y="{_px(top)}" width="{_px(end - begin)}"'
        f' height="{_px(bottom - top)}"/>'
        if end > begin
        else ""
    )
    side, shift = (' class="end"', -4) if label.turns else ("", 4)
    return (
        f'<g class="mark" data-at="{exact(mark.at)}" data-until="{exact(mark.until)}"'
        f' data-label="{escape(mark.label)}">{band}'
        f'<path d="M{_px(begin)} {label_y - 9}V{bottom}"/>'
        f'<text{side} x="{_px(begin + shift)}" y="{label_y}">{escape(mark.label)}</text></g>'
    )


def _line(
    line: Series, x: Callable[[float], float], y: Callable[[float], float], number: int
) -> str:
    path, pen = [], "M"
    for at, value in line.points:
        if not _is_there(value):
            pen = "M"
            continue
        path.append(f"{pen}{_px(x(at))} {_px(y(value))}")
        pen = "L"
    raw = " ".join(f"{exact(at)},{exact(value)}" for at, value in line.points)
    return (
        f'<path class="line s{number % 6}" d="{"".join(path)}"'
        f' data-series="{escape(line.name)}" data-points="{raw}"/>'
    )


def _is_there(value: float | None) -> TypeGuard[float]:
    return value is not None and math.isfinite(value)


def _summary(line: Series, y: Column) -> str:
    values = [value for _, value in line.points if _is_there(value)]
    if not values:
        return f"{line.name}: nothing measured"
    unit = f" {y.unit}" if y.unit else ""
    low, high, last = (shown(each, y.digits) for each in (min(values), max(values), values[-1]))
    return f"{line.name}: from {low} to {high}{unit}, at last {last}{unit}"


def _told(mark: Mark, x: Column) -> str:
    until = "" if mark.until is None else f" to {shown(mark.until)}"
    return f"{mark.label} at {shown(mark.at)}{until} {x.unit}".rstrip()


def _with_unit(column: Column) -> str:
    return f"{column.name} ({column.unit})" if column.unit else column.name


def _px(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
