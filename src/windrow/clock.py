"""Time, as something that can be handed in and moved by hand.

All durations are seconds, as floats. Machines take a reading as an argument or an event; only
shells hold a clock.
"""

from __future__ import annotations

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """What a shell asks for the time."""

    def monotonic(self) -> float:
        """Seconds since some fixed moment; never goes back. For deadlines and durations."""

    def time(self) -> float:
        """Seconds since the epoch, by the machine's calendar. For people and other machines."""

    async def sleep(self, seconds: float) -> None:
        """Wait that long."""


class SystemClock:
    """The machine's own clock."""

    def monotonic(self) -> float:  # noqa: D102 - see Clock
        return time.monotonic()

    def time(self) -> float:  # noqa: D102 - see Clock
        return time.time()

    async def sleep(self, seconds: float) -> None:  # noqa: D102 - see Clock
        await asyncio.sleep(seconds)


class ManualClock:
    """A clock that stands still until it is moved: for tests of anything that waits."""

    def __init__(self, now: float = 1_000.0, epoch: float = 1_700_000_000.0) -> None:
        self._now = now
        self._epoch_offset = epoch - now
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []

    def monotonic(self) -> float:  # noqa: D102 - see Clock
        return self._now

    def time(self) -> float:  # noqa: D102 - see Clock
        return self._now + self._epoch_offset

    async def sleep(self, seconds: float) -> None:
        """Wait until the clock has been moved that far."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers.append((self._now + seconds, woken))
        await woken

    def advance(self, seconds: float) -> None:
        """Move time forward and wake, in order, whoever's moment has come."""
        if seconds < 0:
            raise ValueError(f"time does not go back: advance({seconds})")
        self._now += seconds
        due = sorted((s for s in self._sleepers if s[0] <= self._now), key=lambda s: s[0])
        self._sleepers = [s for s in self._sleepers if s[0] > self._now]
        for _, woken in due:
            if not woken.done():
                woken.set_result(None)
