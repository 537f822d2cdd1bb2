"""Rounds in which the machine was ours.

The host of a virtual machine can take its processors away, for minutes at a time: a third of what
they could do was seen to go, and half of every rate with it. Linux counts that as *stolen*. Rounds
with much of it say how busy somebody else was, so they are measured again, some times over; what
decides is the stolen time alone, never the figure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from windrow.bench.measurement import Figure

STOLEN_LIMIT = 5.0
"""Percent of the processors' time that the host may take in a round that is taken for calm."""

T = TypeVar("T")
Tried = tuple[float, T]
"""Percent of the time that was stolen, and what was measured meanwhile."""


def calmest(tried: Sequence[Tried[T]], count: int) -> list[Tried[T]]:
    """So many rounds: the calm ones as they came, then those with the least stolen."""
    return sorted(tried, key=lambda one: max(one[0], STOLEN_LIMIT))[:count]


def stolen_percent(before: Sequence[int], after: Sequence[int]) -> float:
    """Of all the time between two looks at the processors' ticks, that which the host took."""
    user_to_steal = [late - early for early, late in zip(before, after, strict=True)][:8]
    total = sum(user_to_steal)
    return 100 * user_to_steal[7] / total if total else 0.0


class CalmRounds:
    """Measures in rounds, and remembers what the host took meanwhile."""

    def __init__(self, look: Callable[[], Sequence[int]] | None = None) -> None:
        """Look at the ticks of this machine's processors, or as told."""
        self._look = look or _processor_ticks
        self._stolen: list[float] = []
        self._set_aside = 0

    def __call__(self, count: int, measure: Callable[[int], T]) -> list[T]:
        """Measure until so many rounds were calm, or twice as many are over; returns the calmest.

        What is compared belongs into one round: it is kept or set aside as a whole. A round is
        told how many of those that count there are before it.
        """
        tried: list[Tried[T]] = []
        calm = 0
        while len(tried) < 2 * count and calm < count:
            before = self._look()
            measured = measure(calm)
            stolen = stolen_percent(before, self._look())
            tried.append((stolen, measured))
            calm += stolen <= STOLEN_LIMIT
        chosen = calmest(tried, count)
        self._stolen += [stolen for stolen, _ in chosen]
        self._set_aside += len(tried) - len(chosen)
        return [measured for _, measured in chosen]

    def figures(self) -> list[Figure]:
        """What the host took in the rounds that count, and how many rounds do not."""
        return [
            Figure("processor time taken by the host, by rounds", "%", tuple(self._stolen)),
            Figure("rounds set aside for that", "rounds", (self._set_aside,)),
        ]


def _processor_ticks() -> list[int]:
    """The ticks of all processors so far: user, nice, system, idle, iowait, irq, softirq, steal."""
    with Path("/proc/stat").open(encoding="ascii") as lines:
        return [int(ticks) for ticks in lines.readline().split()[1:]]
