"""Where on the paper does a value lie, and which values are written beside the axis?"""

from __future__ import annotations

import math
from dataclasses import dataclass

_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True, slots=True)
class Scale:
    """From values to places: ``low`` lies at ``start``, ``high`` at ``end``."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """The place of a value."""
        if self.high == self.low:
            return self.start
        part = (value - self.low) / (self.high - self.low)
        return self.start + part * (self.end - self.start)


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round values that span ``low`` to ``high``, the first at or below, the last at or above."""
    if high <= low:
        high = low + 1.0
    step = _round_step((high - low) / max(1, about))
    first, last = math.floor(low / step), math.ceil(high / step)
    # By multiples, not by adding up: 0.1 ten times over is not 1.
    return [_clean(index * step, step) for index in range(first, last + 1)]


def _round_step(rough: float) -> float:
    magnitude = 10.0 ** math.floor(math.log10(rough))
    return next(step * magnitude for step in _STEPS if step * magnitude >= rough * (1 - 1e-9))


def _clean(value: float, step: float) -> float:
    return round(value, max(0, 2 - math.floor(math.log10(step))))
