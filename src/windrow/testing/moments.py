"""When to strike: half of the times at named points, half at random. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random


@dataclass(frozen=True)
class Moment:
    """When a fault is to happen: at a named point, or after some seconds of work."""

    point: str | None = None
    delay: float = 0.0

    def __str__(self) -> str:
        return self.point or f"after {self.delay:.3f}s"


def moments(
    count: int, points: Sequence[str], random: Random, within: tuple[float, float]
) -> list[Moment]:
    """Half named points, each as often as the others, half random delays; in random order.

    An odd one is a named point. Every point is used before one is used again.
    """
    named = [Moment(point=points[n % len(points)]) for n in range((count + 1) // 2)]
    drawn = [Moment(delay=random.uniform(*within)) for _ in range(count // 2)]
    return random.sample(named + drawn, count)
