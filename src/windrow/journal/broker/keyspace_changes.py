"""What a primary writes to the keyspace: routes of assignments, the head, the suspension.

Every change is a transaction on the condition that the journal's assignments are still those that
were resolved, so that a primary that was replaced meanwhile changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from windrow.coordination.store import Compare, KeyValue, Op, Put, Store, TxnResult
from windrow.journal.broker.head import Head
from windrow.journal.errors import InvalidField
from windrow.journal.messages import decode_route, encode_route, encode_spec
from windrow.journal.spec import Route, Suspend

if TYPE_CHECKING:
    from windrow.journal.broker.ports import Resolution
    from windrow.journal.keys import Keys


@dataclass(frozen=True, slots=True)
class KeyspaceChanges:
    """Transactions on the keys of one cluster."""

    store: Store
    keys: Keys

    async def put_head(self, resolution: Resolution, journal: str, head: Head) -> TxnResult:
        """Write the head, if nobody else has since it was resolved."""
        compares, ops = self._head(resolution, journal, head)
        return await self.store.txn([*_unchanged(resolution.assignments), *compares], ops)

    async def put_assignments(
        self, resolution: Resolution, journal: str, head: Head | None
    ) -> TxnResult:
        """Write the route to the assignments that do not hold it, and the head, if given."""
        compares: list[Compare] = _unchanged(resolution.assignments)
        value = encode_route(resolution.route.without_endpoints())
        ops: list[Op] = [
            Put(kv.key, value, ignore_lease=True)
            for kv in resolution.assignments
            if not _holds(kv, resolution.route)
        ]
        if head is not None:
            head_compares, head_ops = self._head(resolution, journal, head)
            compares, ops = [*compares, *head_compares], [*ops, *head_ops]
        return await self.store.txn(compares, ops)

    async def put_suspend(
        self, resolution: Resolution, journal: str, suspend: Suspend, head: Head | None
    ) -> TxnResult:
        """Write the journal's suspension, and the head that it leaves behind, if given."""
        item, spec = resolution.item, resolution.journal_spec
        assert item is not None
        assert spec is not None
        value = encode_spec(replace(spec, suspend=suspend))
        compares = [
            Compare.mod_revision(item.key, item.mod_revision),
            *_unchanged(resolution.assignments),
        ]
        ops: list[Op] = [Put(item.key, value)]
        if head is not None:
            head_compares, head_ops = self._head(resolution, journal, head)
            compares, ops = [*compares, *head_compares], [*ops, *head_ops]
        return await self.store.txn(compares, ops)

    def _head(
        self, resolution: Resolution, journal: str, head: Head
    ) -> tuple[list[Compare], list[Op]]:
        key, item = self.keys.head(journal), resolution.item
        assert item is not None
        seen = resolution.head.mod_revision if resolution.head else 0
        compares = [
            Compare.mod_revision(key, seen),
            Compare.create_revision(item.key, item.create_revision),
        ]
        return compares, [Put(key, head.encode())]


def is_assigned(resolution: Resolution) -> bool:
    """Whether every assignment already holds the route."""
    return all(_holds(kv, resolution.route) for kv in resolution.assignments)


def _holds(kv: KeyValue, route: Route) -> bool:
    held = _route_of(kv.value)
    return held is not None and held.equivalent(route)


@lru_cache(maxsize=4096)  # asked for by every append, and changed by few
def _route_of(value: bytes) -> Route | None:
    try:
        return decode_route(value) if value else None
    except InvalidField:
        return None


def _unchanged(kvs: Sequence[KeyValue]) -> list[Compare]:
    return [Compare.mod_revision(kv.key, kv.mod_revision) for kv in kvs]
