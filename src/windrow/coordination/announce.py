"""How does a process say that it is there? By a key under a lease, which ends with it."""

from __future__ import annotations

import asyncio
from typing import Final, Self

from windrow.coordination.errors import AnnouncementLost, LeaseNotFound, TxnUnknown
from windrow.coordination.store import Compare, KeyValue, Lease, Put, Store, TxnResult
from windrow.telemetry.logs import get_logger

RETRY_INTERVAL: Final = 10.0
TRIES: Final = 3

_log = get_logger(__name__)


class Announcement:
    """A key of our own in the store, for as long as our lease lives."""

    def __init__(self, store: Store, lease: Lease, key: str, value: bytes, revision: int) -> None:
        self.key, self.value, self.lease = key, value, lease
        self.revision = revision
        """At which the key last changed: a mirror that has reached it shows the announcement."""
        self._store = store

    @classmethod
    async def make(
        cls,
        store: Store,
        lease: Lease,
        key: str,
        value: bytes,
        retry_interval: float = RETRY_INTERVAL,
    ) -> Self:
        """Put the key under the lease, waiting while another lease holds it.

        A process that comes back after a crash finds its own key, held until its old lease ends.
        To announce what this lease already holds is no mistake.

        Raises:
            LeaseNotFound: Our lease was lost meanwhile.
            Unreachable: The store gave no answer.
        """
        while True:
            revision = await _claim(store, lease, key, value)
            if revision is not None:
                return cls(store, lease, key, value, revision)
            _log.info("key is held by another lease", key=key, next_try=retry_interval)
            await _sleep_unless_lost(lease, retry_interval)

    async def update(self, value: bytes) -> int:
        """Change the value, and return the revision of that change.

        Raises:
            AnnouncementLost: The key was deleted, or somebody else has changed it.
            Unreachable: The store gave no answer; nothing was changed.
            TxnUnknown: No answer came, however often it was tried.
        """
        for tries_left in reversed(range(TRIES)):
            try:
                result = await self._put(value)
                if result.succeeded:
                    self._accept(value, result.revision)
                    return self.revision
            except TxnUnknown:
                if not tries_left:
                    raise
            if await self._read_back(value):
                break
        return self.revision

    async def _put(self, value: bytes) -> TxnResult:
        unchanged = Compare.mod_revision(self.key, self.revision)
        return await self._store.txn([unchanged], [Put(self.key, value, ignore_lease=True)])

    async def _read_back(self, value: bytes) -> bool:
        """Whether a change of ours that got no answer has happened."""
        found = await _find(self._store, self.key)
        if found is None:
            raise AnnouncementLost(self.key, "the key is gone")
        if self._is_update(found, value):
            self._accept(value, found.mod_revision)
            return True
        if found.mod_revision != self.revision:
            raise AnnouncementLost(self.key, "somebody else has changed it")
        return False

    def _is_update(self, found: KeyValue, value: bytes) -> bool:
        return (
            found.lease == self.lease.id
            and found.value == value
            and found.mod_revision > self.revision
        )

    def _accept(self, value: bytes, revision: int) -> None:
        self.value, self.revision = value, revision

    async def withdraw(self) -> None:
        """Delete the key, and all else that hangs on the lease, by revoking it.

        Raises:
            Unreachable: The store gave no answer; the key goes when the lease ends by itself.
        """
        await self.lease.revoke()


async def _claim(store: Store, lease: Lease, key: str, value: bytes) -> int | None:
    """The revision at which our lease holds the key, or None while another one does."""
    while True:
        try:
            result = await store.txn([Compare.version(key, 0)], [Put(key, value, lease=lease.id)])
            if result.succeeded:
                return result.revision
        except TxnUnknown as unknown:
            # Whether it happened shows in whose the key is now.
            _log.warning("announcement unanswered", key=key, error=str(unknown))
        held = await _find(store, key)
        if held is None:
            continue  # whoever held it let go this moment
        if held.lease != lease.id:
            return None
        if held.value == value:
            return held.mod_revision
        unchanged = Compare.mod_revision(key, held.mod_revision)
        result = await store.txn([unchanged], [Put(key, value, ignore_lease=True)])
        if result.succeeded:
            return result.revision


async def _find(store: Store, key: str) -> KeyValue | None:
    snapshot = await store.load(key)
    return next((kv for kv in snapshot.kvs if kv.key == key), None)


async def _sleep_unless_lost(lease: Lease, seconds: float) -> None:
    try:
        await asyncio.wait_for(lease.lost.wait(), seconds)
    except TimeoutError:
        return
    raise LeaseNotFound(lease.id)
