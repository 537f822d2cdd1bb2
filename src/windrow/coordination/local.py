"""The store of one process alone: a directory instead of etcd, behind the same contract.

Changes go one after the other: planned, made durable, made, told. Leases are this process's own
and end with it, so whatever hung on one is deleted when the directory is opened the next time.
"""

from __future__ import annotations

import asyncio
import secrets
from bisect import bisect_right
from collections.abc import AsyncGenerator, Coroutine, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from windrow.clock import SystemClock
from windrow.coordination.errors import Compacted, RevisionWentBack, StoreClosed, StoreFull
from windrow.coordination.lease import KeptLease, LeaseTerm
from windrow.coordination.local_log import COMPACT_AT, Identity, LocalLog
from windrow.coordination.local_state import KeyTable
from windrow.coordination.store import (
    Compare,
    Delete,
    Event,
    Op,
    Snapshot,
    StoreHeader,
    TxnResult,
    WatchBatch,
    check_txn,
    revision_of_conditions,
)
from windrow.errors import WindrowError
from windrow.telemetry.logs import get_logger

HISTORY: Final = 10_000
"""Changes that a watch can still be told; older ones it has to load."""
RAFT_TERM: Final = 1

_log = get_logger(__name__)
_T = TypeVar("_T")


class LocalStore:
    """A coordination store in a directory, for the one process that has it open."""

    def __init__(
        self, directory: Path | str, *, compact_at: int = COMPACT_AT, history: int = HISTORY
    ) -> None:
        """Open the directory, or make it, and delete what hung on leases of the last process.

        Raises:
            DirectoryInUse: Another process has it open.
            LogDamaged: Something acknowledged cannot be read any more.
        """
        self._log = LocalLog(Path(directory), Identity(_number(), _number()), compact_at)
        found = self._log.recovered
        self._table = KeyTable(found.revision, found.kvs)
        self._history: list[tuple[Event, ...]] = []
        self._forgotten_through = found.revision
        self._history_limit = history
        self._leases: dict[int, KeptLease] = {}
        self._turn = asyncio.Lock()
        self._told = asyncio.Condition()
        self._at_work: set[asyncio.Task[Any]] = set()
        self._expiries: set[asyncio.Task[None]] = set()
        self._closed = False
        for events in found.changes:
            self._make(events)
        self._drop_leased_keys()

    def header(self) -> StoreHeader:
        """Who this store is; the same for as long as the directory lives."""
        identity = self._log.recovered.identity
        return StoreHeader(identity.cluster_id, identity.member_id, RAFT_TERM)

    async def load(self, prefix: str) -> Snapshot:
        """Every key under a prefix; what is not durable yet is not seen."""
        self._check_open()
        cluster_id = self.header().cluster_id
        return Snapshot(self._table.revision, self._table.prefixed(prefix), cluster_id)

    async def txn(self, compares: Sequence[Compare], ops: Sequence[Op]) -> TxnResult:
        """Perform all changes if all conditions hold, and otherwise none.

        Raises:
            StoreFull: There was no room; nothing was changed.
            StoreBroken: It could not be made durable, and nothing more is taken.
        """
        check_txn(compares, ops)
        return await self._to_the_end(self._txn(compares, ops))

    async def watch(self, prefix: str, after_revision: int) -> AsyncGenerator[WatchBatch, None]:
        """Tell every change under a prefix after that revision once, in order, without end."""
        if after_revision > self._table.revision:
            raise RevisionWentBack(after_revision, self._table.revision)
        told_through = after_revision
        while True:
            self._check_open()
            if told_through < self._forgotten_through:
                raise Compacted(told_through, self._forgotten_through)
            for batch in self._changes_after(told_through, prefix):
                yield batch
                told_through = batch.revision
            async with self._told:
                if self._table.revision <= told_through and not self._closed:
                    await self._told.wait()

    async def grant_lease(self, ttl: float, *, keep_alive: bool = True) -> KeptLease:
        """Begin a lease; one that is kept alive lives as long as this process."""
        self._check_open()
        clock = SystemClock()
        term = LeaseTerm(ttl, clock.monotonic())
        if keep_alive:
            # Nobody else could take its keys, however long this process is held up.
            lease = KeptLease(_number(), term, self.revoke_lease, None, clock)
        else:
            lease = KeptLease.begin(_number(), term, self.revoke_lease)
            self._expiries.add(self._in_background(self._end_with_its_term(lease)))
        self._leases[lease.id] = lease
        return lease

    async def close(self) -> None:
        """Finish what is at work and let go of the directory. Does nothing the second time."""
        if self._closed:
            return
        self._closed = True
        for lease in self._leases.values():
            await lease.let_go()
        async with self._told:
            self._told.notify_all()
        for expiry in self._expiries:
            expiry.cancel()
        async with self._turn:
            self._log.close()

    # -- changing --------------------------------------------------------------------------------

    async def _txn(self, compares: Sequence[Compare], ops: Sequence[Op]) -> TxnResult:
        async with self._turn:
            self._check_open()
            if not self._table.holds(compares):
                latest = self._table.latest_change(compare.key for compare in compares)
                return TxnResult(False, latest)
            events = self._table.plan(ops, self._leases)
            if not events:
                return TxnResult(True, revision_of_conditions(compares))
            await self._perform(events)
            return TxnResult(True, self._table.revision)

    async def _perform(self, events: tuple[Event, ...]) -> None:
        """Make a change durable, then visible; the caller has the turn."""
        await asyncio.to_thread(self._log.append, events)
        self._make(events)
        if self._log.wants_compaction():
            await self._compact()
        async with self._told:
            self._told.notify_all()

    async def _compact(self) -> None:
        try:
            kvs = self._table.prefixed("")
            await asyncio.to_thread(self._log.compact, self._table.revision, kvs)
        except StoreFull as error:
            # The change itself is durable; the old log goes on until there is room.
            _log.warning("local store not compacted", error=str(error))

    def _make(self, events: tuple[Event, ...]) -> None:
        self._table.make(events)
        self._history.append(events)
        if len(self._history) > 2 * self._history_limit:
            del self._history[: -self._history_limit]
            self._forgotten_through = _revision(self._history[0]) - 1

    def _changes_after(self, revision: int, prefix: str) -> Iterable[WatchBatch]:
        """A copy of what is there to tell now, so that it may go on changing meanwhile."""
        cluster_id = self.header().cluster_id
        batches = []
        for events in self._history[bisect_right(self._history, revision, key=_revision) :]:
            under = tuple(event for event in events if event.kv.key.startswith(prefix))
            batches.append(WatchBatch(_revision(events), under, cluster_id))
        return batches

    # -- leases ----------------------------------------------------------------------------------

    def _drop_leased_keys(self) -> None:
        drops = [Delete(kv.key) for kv in self._table.leased()]
        if events := self._table.plan(drops, ()):
            self._log.append(events)
            self._make(events)

    async def _end_with_its_term(self, lease: KeptLease) -> None:
        await lease.lost.wait()
        try:
            await self._delete_keys_of(lease.id)
        except WindrowError as error:
            _log.error("keys of an ended lease stay", lease=f"{lease.id:x}", error=str(error))

    async def revoke_lease(self, id: int) -> None:
        """End a lease; those of an earlier process ended with it."""
        await self._to_the_end(self._delete_keys_of(id))

    async def _delete_keys_of(self, lease: int) -> None:
        async with self._turn:
            self._check_open()
            if self._leases.pop(lease, None) is not None:
                drops = [Delete(kv.key) for kv in self._table.leased() if kv.lease == lease]
                if events := self._table.plan(drops, self._leases):
                    await self._perform(events)

    # -- tasks -----------------------------------------------------------------------------------

    async def _to_the_end(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Finish the work even if who waits for it is cancelled.

        Otherwise a change could be on disk and not in memory.
        """
        return await asyncio.shield(self._in_background(work))

    def _in_background(self, work: Coroutine[Any, Any, _T]) -> asyncio.Task[_T]:
        task = asyncio.create_task(work)
        self._at_work.add(task)
        task.add_done_callback(self._at_work.discard)
        task.add_done_callback(self._expiries.discard)
        return task

    def _check_open(self) -> None:
        if self._closed:
            raise StoreClosed(str(self._log.directory))


def _number() -> int:
    """Random, and neither 0 nor negative as a signed 64-bit number."""
    return secrets.randbelow(2**63 - 1) + 1


def _revision(events: Sequence[Event]) -> int:
    return events[0].kv.mod_revision
