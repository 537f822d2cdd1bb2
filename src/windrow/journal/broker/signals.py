"""An event that can be watched together with others, without a task for each.

Every append waits for a token, or else for its client to go, its route to change or its replica to
end. A task for each of these is dearer than all the rest of the wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any


class Signal(asyncio.Event):
    """An event that also calls whoever watches it, when it is set."""

    def __init__(self) -> None:
        super().__init__()
        self._watchers: list[Callable[[], None]] = []

    def set(self) -> None:
        """Set it, and call those who watch it; they must not raise."""
        if not self.is_set():
            super().set()
            for watcher in tuple(self._watchers):
                watcher()

    def watch(self, watcher: Callable[[], None]) -> None:
        """Call it when the signal is set from now on."""
        self._watchers.append(watcher)

    def unwatch(self, watcher: Callable[[], None]) -> None:
        """Call it no more."""
        self._watchers.remove(watcher)


async def first_of(future: asyncio.Future[Any] | None, signals: Sequence[Signal]) -> None:
    """Return once the future is done, or one of the signals is set."""
    if any(signal.is_set() for signal in signals) or (future is not None and future.done()):
        return
    woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def wake(_: object = None) -> None:
        if not woken.done():
            woken.set_result(None)

    for signal in signals:
        signal.watch(wake)
    if future is not None:
        future.add_done_callback(wake)
    try:
        await woken
    finally:
        for signal in signals:
            signal.unwatch(wake)
        if future is not None:
            future.remove_done_callback(wake)


async def first_set(*signals: Signal) -> None:
    """Return once one of the signals is set."""
    await first_of(None, signals)


async def done_before(work: asyncio.Future[Any], *signals: Signal) -> bool:
    """Wait for work, unless a signal is set first; then it is cancelled."""
    await asyncio.sleep(0)  # most work is done at once, and then nothing has to be watched
    if work.done():
        return True
    try:
        await first_of(work, signals)
    finally:
        if not work.done():
            work.cancel()
    return work.done() and not work.cancelled()
