"""A token that one task holds at a time: a lock that carries what it guards.

Waiting for it can be given up when an event is set first. The token is never lost on the way: a
waiter that was handed it and is cancelled in the same moment passes it on.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Generic, TypeVar

from windrow.errors import WindrowError
from windrow.journal.broker.signals import Signal, first_of

T = TypeVar("T")


class GivenUp(WindrowError):
    """An event was set before the token came; ``event`` tells which."""

    def __init__(self, event: Signal) -> None:
        super().__init__(event)
        self.event = event

    def __str__(self) -> str:
        return "gave up waiting for a token"


class Token(Generic[T]):
    """Capacity one: whoever takes it gives it back, perhaps with another value."""

    def __init__(self, value: T) -> None:
        self.wanted = Signal()
        """Set once somebody waits for whoever holds it now; the next holder has another one."""
        self._here: list[T] = [value]
        self._waiters: deque[asyncio.Future[T]] = deque()

    @property
    def is_here(self) -> bool:
        """Whether nobody holds it."""
        return bool(self._here)

    @property
    def is_awaited(self) -> bool:
        """Whether somebody waits for it."""
        return any(not waiter.done() for waiter in self._waiters)

    def peek(self) -> T | None:
        """Its value, if nobody holds it; to look at, not to use."""
        return self._here[0] if self._here else None

    def take_now(self) -> T:
        """Take it without waiting; only if ``is_here``."""
        return self._here.pop()

    def give(self, value: T) -> None:
        """Give it back, to the first who waits for it."""
        assert not self._here, "a token was given back twice"
        if self.wanted.is_set():
            self.wanted = Signal()
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(value)
                if self.is_awaited:
                    self.wanted.set()
                return
        self._here.append(value)

    async def take(self, unless: Sequence[Signal] = ()) -> T:
        """Wait for it, first come first served.

        Raises:
            GivenUp: One of the events is set, and the token has not come before.
        """
        if self._here:
            return self._here.pop()
        for event in unless:
            if event.is_set():
                raise GivenUp(event)
        waiter: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        self.wanted.set()
        try:
            await first_of(waiter, unless)
        except asyncio.CancelledError:
            if waiter.done():
                self.give(waiter.result())
            raise
        finally:
            if not waiter.done():
                waiter.cancel()
                self._waiters.remove(waiter)
        if waiter.cancelled():
            raise GivenUp(next(event for event in unless if event.is_set()))
        return waiter.result()
