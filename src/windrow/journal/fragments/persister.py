"""The persister: brings completed spools into the stores of their journals.

The primary's go at once. Those of replicas wait in a queue of three stages which a tick moves on,
so that they come two to three ticks later, find the object in its place, and have nothing to do;
if the primary has died meanwhile they do its work. What fails is queued again, for ever: until it
succeeds this broker holds the only copies it can vouch for.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from windrow.clock import Clock, SystemClock
from windrow.errors import WindrowError
from windrow.journal.fragments.content import CompletedSpool
from windrow.journal.fragments.errors import StoreForbidden
from windrow.journal.fragments.postfix import TemplateSpool, evaluate
from windrow.journal.fragments.stores.fragments import persist
from windrow.journal.fragments.stores.open import Stores
from windrow.journal.spec import JournalSpec

CONCURRENCY = 32
TICK = 60.0
UPLOAD_TIMEOUT = 300.0
_STAGES = 3

log = logging.getLogger(__name__)

SpecOf = Callable[[CompletedSpool], JournalSpec | None]
"""The present spec of a spool's journal, or None if it was deleted.

A journal that was deleted and created again is another one: compare the create revision.
"""


class Persister:
    """Uploads completed spools. Used from one event loop; ``run`` must be running."""

    def __init__(
        self,
        stores: Stores,
        spec_of: SpecOf,
        *,
        tick: float = TICK,
        concurrency: int = CONCURRENCY,
        upload_timeout: float = UPLOAD_TIMEOUT,
        clock: Clock | None = None,
    ) -> None:
        self.outcomes: Counter[str] = Counter()
        """How many spools were persisted, kept (no store), dropped (no journal), or failed."""
        self._stores, self._spec_of = stores, spec_of
        self._tick, self._upload_timeout = tick, upload_timeout
        self._clock = clock or SystemClock()
        self._stages: list[list[CompletedSpool]] = [[] for _ in range(_STAGES)]
        self._slots = asyncio.Semaphore(concurrency)
        self._threads = ThreadPoolExecutor(concurrency, "windrow-persist")
        self._uploads: set[asyncio.Task[None]] = set()
        self._is_exiting = False

    @property
    def waiting(self) -> int:
        """How many spools are not yet persisted."""
        return sum(map(len, self._stages)) + len(self._uploads)

    def add(self, spool: CompletedSpool) -> None:
        """Take charge of a completed spool; every byte of it must be acknowledged."""
        if spool.primary and not self._is_exiting:
            self._start(spool)
        else:
            self._queue(spool)

    async def run(self) -> None:
        """Move the queue on at every tick, for as long as the task lives."""
        while True:
            await self._clock.sleep(self._tick)
            self.on_tick()

    def on_tick(self) -> None:
        """Upload what has come to the head of the queue, and move the rest on."""
        due = self._stages.pop(0)
        self._stages.append([])
        for spool in due:
            self._start(spool)

    async def drain(self) -> list[CompletedSpool]:
        """Upload everything that waits, once, before the process exits; returns what failed.

        A durable spool that failed stays in its file and is found again at the next start.
        """
        self._is_exiting = True
        while self._uploads:
            await asyncio.wait(self._uploads)
        for _ in range(_STAGES):
            self.on_tick()
        while self._uploads:
            await asyncio.wait(self._uploads)
        failed = [spool for stage in self._stages for spool in stage]
        self._threads.shutdown(wait=not failed, cancel_futures=True)
        return failed

    def _queue(self, spool: CompletedSpool) -> None:
        self._stages[-1].append(spool)

    def _start(self, spool: CompletedSpool) -> None:
        upload = asyncio.create_task(self._upload(spool))
        self._uploads.add(upload)
        upload.add_done_callback(self._uploads.discard)

    async def _upload(self, spool: CompletedSpool) -> None:
        try:
            async with self._slots, asyncio.timeout(self._upload_timeout):
                self.outcomes[await self._persist(spool)] += 1
        except (WindrowError, TimeoutError, OSError) as error:
            self.outcomes["failed"] += 1
            log.warning("%r was not persisted and is queued again: %s", spool, error or "timed out")
            self._queue(spool)

    async def _persist(self, spool: CompletedSpool) -> str:
        spec = self._spec_of(spool)
        if spec is None:
            spool.on_persisted()
            return "dropped"
        if not spec.fragment.stores:
            return "kept"  # and its file with it: it is the only copy there will be
        seen = TemplateSpool(spool.fragment, spool.first_append_time, spool.record.registers)
        postfix = evaluate(spec.fragment.path_postfix_template, seen, spec)
        await self._put(spool, postfix, spec.fragment.stores)
        spool.on_persisted()
        return "persisted"

    async def _put(self, spool: CompletedSpool, postfix: str, urls: Sequence[str]) -> None:
        loop = asyncio.get_running_loop()
        for number, url in enumerate(urls):
            store = self._stores.open(url)
            try:
                await loop.run_in_executor(self._threads, persist, store, spool, postfix)
                return
            except StoreForbidden:
                # Credentials may come back while we live; at the end any store is better than none.
                if not self._is_exiting or number == len(urls) - 1:
                    raise
