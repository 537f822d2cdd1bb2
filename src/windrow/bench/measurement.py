"""A figure, the goal set for it, and where it was measured. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from math import isclose
from statistics import median
from typing import Any

from windrow.bench.hardware import Hardware


@dataclass(frozen=True)
class Goal:
    """What a figure is to reach, or not to exceed."""

    limit: float
    is_floor: bool

    def holds(self, value: float) -> bool:
        """Whether the value meets it, the last bit of a quotient left aside."""
        if isclose(value, self.limit):
            return True
        return value >= self.limit if self.is_floor else value <= self.limit

    def to_json(self) -> dict[str, float]:
        """As ``{"at_least": limit}`` or ``{"at_most": limit}``."""
        return {"at_least" if self.is_floor else "at_most": self.limit}

    def __str__(self) -> str:
        return f"{'≥' if self.is_floor else '≤'} {format_value(self.limit)}"


def at_least(limit: float) -> Goal:
    """The goal of a rate."""
    return Goal(limit, is_floor=True)


def at_most(limit: float) -> Goal:
    """The goal of a delay or a cost."""
    return Goal(limit, is_floor=False)


@dataclass(frozen=True)
class Figure:
    """What a part has measured: one value for each repeat, and the goal if there is one."""

    name: str
    unit: str
    repeats: tuple[float, ...]
    goal: Goal | None = None


@dataclass(frozen=True)
class Measurement:
    """A figure with the command that repeats it and the machine it was taken on."""

    figure: Figure
    command: str
    hardware: Hardware

    @property
    def value(self) -> float:
        """The median of the repeats."""
        return median(self.figure.repeats)

    @property
    def holds(self) -> bool | None:
        """Whether the median meets the goal; None if no goal is set."""
        goal = self.figure.goal
        return None if goal is None else goal.holds(self.value)

    def to_json(self) -> dict[str, Any]:
        """The form every part reports in."""
        figure = self.figure
        return {
            "name": figure.name,
            "value": self.value,
            "unit": figure.unit,
            "goal": None if figure.goal is None else figure.goal.to_json(),
            "holds": self.holds,
            "repeats": list(figure.repeats),
            "command": self.command,
            "hardware": self.hardware.to_json(),
        }


def format_value(value: float) -> str:
    """As many digits as say something: ``1,080,000``, ``412``, ``0.83``."""
    if abs(value) >= 1000:
        return f"{float(f'{value:.3g}'):,.0f}"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def format_range(figure: Figure) -> str:
    """The lowest and highest of the repeats."""
    return f"{format_value(min(figure.repeats))} … {format_value(max(figure.repeats))}"
