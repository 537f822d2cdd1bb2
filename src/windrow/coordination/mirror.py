"""The shell that keeps a key space current: load, watch, batch, tell.

Changes are taken over in batches, since a change of assignments comes as a burst of them and each
take-over has every observer look at the whole.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final

from windrow.coordination.errors import (
    Compacted,
    EventsInconsistent,
    NotFollowing,
    Refused,
    WatchBroken,
)
from windrow.coordination.keyspace import Change, Decoder, KeySpace
from windrow.coordination.store import KeyValue, Store, WatchBatch
from windrow.errors import Unreachable
from windrow.telemetry.logs import get_logger

WATCH_DELAY: Final = 0.03
RESTART_DELAYS: Final = (0.0, 0.0, 0.005, 2.0, 3.0, 4.0, 5.0)
MAX_BATCHES: Final = 10_000

Observer = Callable[["Mirror"], None]

_log = get_logger(__name__)


def restart_delay(failures: int) -> float:
    """How long to wait before the next try, after so many in a row that came to nothing."""
    return RESTART_DELAYS[min(failures, len(RESTART_DELAYS) - 1)]


class Mirror:
    """A copy of the keys under a prefix that follows the store.

    It survives a store that is away for a while: the copy stays as it was, and catches up. It ends
    only if the store is another one than before, or an observer raises: ``wait_failed`` tells.
    """

    def __init__(
        self,
        store: Store,
        prefix: str,
        watch_delay: float = WATCH_DELAY,
        decoders: Mapping[str, Decoder] | None = None,
    ) -> None:
        """Prepare a mirror; ``start`` fills it.

        Args:
            store: Where the keys are.
            prefix: What they begin with.
            watch_delay: Seconds for which changes are collected before they are shown.
            decoders: By prefix of the key, what its value means.
        """
        self.prefix = prefix
        self.observers: list[Observer] = []
        """Called after every change of the copy, in order; the copy holds still meanwhile."""
        self._store = store
        self._watch_delay = watch_delay
        self._space = KeySpace(prefix, decoders)
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._task: asyncio.Task[None] | None = None
        self._ended: asyncio.Future[None] | None = None

    # -- what it holds ---------------------------------------------------------------------------

    @property
    def revision(self) -> int:
        """The largest revision at which a key under the prefix changed, as far as seen."""
        return self._space.revision

    @property
    def complete_through(self) -> int:
        """The revision of the whole store up to which nothing under the prefix is missing."""
        return self._space.complete_through

    def get(self, key: str) -> KeyValue | None:
        """The key, if it is there."""
        return self._space.get(key)

    def decoded(self, key: str) -> Any | None:
        """What its decoder made of the key; the same object until the key changes."""
        return self._space.decoded(key)

    def prefixed(self, prefix: str) -> list[KeyValue]:
        """Every key that begins so, in order; the prefix is a whole one, not a remainder."""
        return self._space.prefixed(prefix)

    # -- life ------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Load the keys and follow them from then on.

        Raises:
            Unreachable: The store gave no answer.
        """
        self._ended = asyncio.get_running_loop().create_future()
        await self._load()
        self._task = asyncio.create_task(self._follow(), name=f"mirror of {self.prefix}")
        self._task.add_done_callback(self._on_end)

    async def stop(self) -> None:
        """Follow no more; whoever still waits is told so. Does nothing the second time."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait({task})  # its error, if it had one, is for wait_failed to tell

    async def wait_revision(self, revision: int) -> None:
        """Return when the copy has taken over that revision.

        It has to be one at which a key under the prefix changed: of others a mirror may never hear.

        Raises:
            NotFollowing: The mirror was stopped, or failed.
        """
        if max(self._space.revision, self._space.complete_through) >= revision:
            return
        if self._task is None or self._task.done():
            raise NotFollowing(self.prefix, self._reason_of_end())
        reached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append((revision, reached))
        await reached

    async def wait_failed(self) -> None:
        """Return when the mirror was stopped.

        Raises:
            ClusterChanged: Another cluster answers at the address.
            RevisionWentBack: The store has lost what was seen of it.
            Exception: Whatever an observer raised.
        """
        assert self._ended is not None, "wait_failed() comes after start()"
        await asyncio.shield(self._ended)

    # -- following -------------------------------------------------------------------------------

    async def _follow(self) -> None:
        failures, must_load = 0, False
        while True:
            await asyncio.sleep(restart_delay(failures))
            try:
                if must_load:
                    await self._load()
                    must_load = False
                failures = await self._watch(failures)
            except (Compacted, EventsInconsistent) as error:
                must_load = True
                failures += 1
                self._warn("keys have to be loaded again", error, failures)
            except (Unreachable, Refused) as error:
                failures += 1
                self._warn("store does not answer", error, failures)

    async def _watch(self, failures: int) -> int:
        """Follow one watch until it breaks; return how many in a row came to nothing."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        watch = self._store.watch(self.prefix, self._space.begin_watch())
        gathering = collect(watch, self._watch_delay)
        try:
            async with aclosing(watch), aclosing(gathering):
                async for batches in gathering:
                    failures = 0
                    self._take_over(batches)
        except WatchBroken as error:
            # One that held for long and had nothing to tell was a good one too.
            failures = 0 if loop.time() - began > RESTART_DELAYS[-1] else failures + 1
            self._warn("watch ended", error, failures)
        return failures

    async def _load(self) -> None:
        self._show(self._space.load(await self._store.load(self.prefix)))

    def _take_over(self, batches: Sequence[WatchBatch]) -> None:
        self._show(self._space.apply(batches))

    def _show(self, change: Change) -> None:
        for bad in change.rejected:
            _log.warning(
                "value ignored",
                key=bad.kv.key,
                mod_revision=bad.kv.mod_revision,
                error=str(bad.error),
            )
        if change.is_change:
            for observer in tuple(self.observers):
                observer(self)
        self._wake()

    def _wake(self) -> None:
        """Let those go whose revision has come; after the observers, who may act on it."""
        seen = max(self._space.revision, self._space.complete_through)
        for revision, reached in self._waiters:
            if revision <= seen and not reached.done():
                reached.set_result(None)
        self._waiters = [waiter for waiter in self._waiters if not waiter[1].done()]

    def _on_end(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        for _, reached in self._waiters:
            if not reached.done():
                reached.set_exception(NotFollowing(self.prefix, self._reason_of_end()))
        self._waiters.clear()
        if self._ended is not None and not self._ended.done():
            if error is None:
                self._ended.set_result(None)
                return
            self._ended.set_exception(error)
            self._ended.exception()  # asked for, so that nobody need be there to hear it
            _log.error("mirror failed", prefix=self.prefix, error=str(error))

    def _reason_of_end(self) -> str:
        if self._task is None or self._task.cancelled():
            return "it was stopped"
        return str(self._task.exception()) if self._task.done() else "it is ending"

    def _warn(self, event: str, error: Exception, failures: int) -> None:
        _log.warning(event, prefix=self.prefix, error=str(error), next_try=restart_delay(failures))


async def collect(
    watch: AsyncIterator[WatchBatch], delay: float
) -> AsyncGenerator[list[WatchBatch], None]:
    """Gather what comes within ``delay`` of the first, so that a burst is one change.

    What was gathered when the watch ends is given before its error is raised.
    """
    loop = asyncio.get_running_loop()
    coming: asyncio.Task[WatchBatch] | None = None
    try:
        while True:
            coming = coming or asyncio.ensure_future(_next(watch))
            await asyncio.wait({coming})
            gathered: list[WatchBatch] = []
            until = loop.time() + delay
            while coming.done() and len(gathered) < MAX_BATCHES:
                if coming.exception() is not None:
                    if gathered:
                        yield gathered
                    coming.result()
                gathered.append(coming.result())
                coming = asyncio.ensure_future(_next(watch))
                await asyncio.wait({coming}, timeout=max(0.0, until - loop.time()))
            yield gathered
    finally:
        if coming is not None:
            coming.cancel()
            await asyncio.wait({coming})
            if not coming.cancelled():
                coming.exception()  # asked for, so that it is not told as never heard


async def _next(watch: AsyncIterator[WatchBatch]) -> WatchBatch:
    try:
        return await anext(watch)
    except StopAsyncIteration as end:
        raise WatchBroken("the store", "it has nothing more to tell") from end
