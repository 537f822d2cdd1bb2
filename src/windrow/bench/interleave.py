"""Ratios of two things measured in turn, so that a machine growing busier is not in the ratio."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Interleaved:
    """The values of both, round by round."""

    first: tuple[float, ...]
    second: tuple[float, ...]

    @property
    def ratios(self) -> tuple[float, ...]:
        """The first over the second, of each round."""
        return tuple(a / b for a, b in zip(self.first, self.second, strict=True))


def interleave(
    first: Callable[[], float], second: Callable[[], float], repeats: int
) -> Interleaved:
    """Measure both in each round; who begins alternates, so that neither always comes warm."""
    pairs: list[tuple[float, float]] = []
    for n in range(repeats):
        if n % 2 == 0:
            a, b = first(), second()
        else:
            b, a = second(), first()
        pairs.append((a, b))
    return Interleaved(tuple(a for a, _ in pairs), tuple(b for _, b in pairs))
