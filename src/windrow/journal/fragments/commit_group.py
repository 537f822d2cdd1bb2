"""Commit groups: callers who want their changes durable share one sync.

A sync covers the changes made before it began. Who arrives while one runs waits for the next,
together with all others who arrived meanwhile, so the cost of a sync is divided by those who wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial


class CommitGroup:
    """Counts changes, and runs at most one sync at a time."""

    def __init__(self, executor: Executor | None, on_failure: Callable[[Exception], None]) -> None:
        self.changes = 0
        self.durable_changes = 0
        self.failure: Exception | None = None
        """Why a sync failed. No other is tried then, whoever was waiting for it or is not any more:
        a second one may succeed without having written what the first has lost."""
        self._executor, self._on_failure = executor, on_failure
        self._is_running = False
        self._waiting: list[asyncio.Future[None]] = []

    @property
    def is_durable(self) -> bool:
        """Whether a sync has covered every change."""
        return self.durable_changes == self.changes

    def begin(self, begin_sync: Callable[[], Sync]) -> None:
        """Begin a sync, unless one runs or there is nothing to do.

        ``begin_sync`` is called when a sync starts, and snapshots what is to be written.
        """
        if self._is_running or self.is_durable or self.failure is not None:
            return
        covered, sync = self.changes, begin_sync()
        self._is_running = True
        # Not a task of its own, nor of its callers: of all that an append waits for, this is last.
        loop = asyncio.get_running_loop()
        if self._executor is None:
            running = loop.run_in_executor(None, sync.perform)
            running.add_done_callback(partial(self._on_done, covered, sync))
            return

        def tell(done: Future[None]) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._on_done, covered, sync, done)

        # Not by the loop, whose future around that of the executor costs as much as the thread.
        self._executor.submit(sync.perform).add_done_callback(tell)

    async def flush(self, begin_sync: Callable[[], Sync], wanted: int) -> None:
        """Return once so many changes are durable, or ``failure`` is set.

        Cancelling a caller does not cancel the sync others wait for.
        """
        while self.durable_changes < wanted and self.failure is None:
            self.begin(begin_sync)
            waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(waiting)
            await waiting

    def _on_done(self, covered: int, sync: Sync, done: asyncio.Future[None] | Future[None]) -> None:
        self._is_running = False
        try:
            done.result()
            self.durable_changes = covered
            sync.on_durable()
        except Exception as error:
            self.failure = error
            self._on_failure(error)
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            if not one.done():
                one.set_result(None)


class Sync:
    """One trip to the disk: ``perform`` in a thread, then ``on_durable`` on the event loop."""

    def perform(self) -> None:
        """Block until it is on disk, or raise."""
        raise NotImplementedError

    def on_durable(self) -> None:
        """It is."""
        raise NotImplementedError
