"""Where does the time go? Every moment of a demonstration belongs to one stage."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Stage:
    """A part of the time, in seconds."""

    name: str
    seconds: float


class Stages:
    """A watch that is told what begins; what went on before has then ended."""

    def __init__(self, name: str, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._begun: list[tuple[str, float]] = [(name, now())]

    def begin(self, name: str) -> None:
        """From now on it is this."""
        self._begun.append((name, self._now()))

    def so_far(self) -> tuple[Stage, ...]:
        """All stages in their order, the last one up to now."""
        ends = [at for _, at in self._begun[1:]] + [self._now()]
        pairs = zip(self._begun, ends, strict=True)
        return tuple(Stage(name, end - at) for (name, at), end in pairs)
