"""What does a transaction do to a table of keys? etcd's rules, without etcd. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from windrow.coordination.errors import KeyNotFound, LeaseNotFound
from windrow.coordination.store import (
    DELETE,
    PUT,
    Compare,
    Delete,
    Event,
    KeyValue,
    Op,
    Put,
    largest_mod_revision,
)


class KeyTable:
    """Keys and the revision at which they stand. Planning a change and making it are two steps.

    Between them the change is made durable: what cannot be is never seen.
    """

    def __init__(self, revision: int, kvs: Iterable[KeyValue] = ()) -> None:
        self.revision = revision
        self._kvs = {kv.key: kv for kv in kvs}

    def prefixed(self, prefix: str) -> tuple[KeyValue, ...]:
        """Every key that begins so, in order."""
        return tuple(self._kvs[key] for key in sorted(self._kvs) if key.startswith(prefix))

    def leased(self) -> list[KeyValue]:
        """Every key that hangs on a lease."""
        return [kv for kv in self._kvs.values() if kv.lease]

    def holds(self, compares: Iterable[Compare]) -> bool:
        """Whether all these conditions hold."""
        return all(self._number(compare) == compare.expected for compare in compares)

    def latest_change(self, keys: Iterable[str]) -> int:
        """The latest revision at which one of these keys, as they stand, was changed."""
        return largest_mod_revision(self._kvs[key] for key in keys if key in self._kvs)

    def plan(self, ops: Sequence[Op], living_leases: Iterable[int]) -> tuple[Event, ...]:
        """The changes these would make, all at the next revision; none if nothing would change.

        Raises:
            LeaseNotFound: A put names a lease that has ended.
            KeyNotFound: A put that keeps its lease names a key that does not exist.
        """
        living = set(living_leases)
        revision = self.revision + 1
        events = (self._event(op, revision, living) for op in ops)
        return tuple(event for event in events if event is not None)

    def make(self, events: Sequence[Event]) -> None:
        """Change the table; the revision becomes that of the events."""
        for event in events:
            if event.kind is DELETE:
                del self._kvs[event.kv.key]
            else:
                self._kvs[event.kv.key] = event.kv
            self.revision = event.kv.mod_revision

    def _number(self, compare: Compare) -> int:
        kv = self._kvs.get(compare.key)
        return 0 if kv is None else int(getattr(kv, compare.target.value))

    def _event(self, op: Op, revision: int, living_leases: set[int]) -> Event | None:
        known = self._kvs.get(op.key)
        if isinstance(op, Delete):
            return Event(DELETE, KeyValue(op.key, b"", 0, revision, 0)) if known else None
        lease = self._lease_of(op, known, living_leases)
        created, version = (known.create_revision, known.version + 1) if known else (revision, 1)
        return Event(PUT, KeyValue(op.key, op.value, created, revision, version, lease))

    def _lease_of(self, put: Put, known: KeyValue | None, living_leases: set[int]) -> int:
        if put.ignore_lease:
            if known is None:
                raise KeyNotFound(put.key)
            return known.lease
        if put.lease and put.lease not in living_leases:
            raise LeaseNotFound(put.lease)
        return put.lease
