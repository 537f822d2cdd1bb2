"""Maps a journal to who serves it, and keeps this broker's replicas in step with the keyspace."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, cast

from windrow.coordination.mirror import Mirror
from windrow.coordination.store import KeyValue, StoreHeader
from windrow.journal.broker.resolution import (
    Assigned,
    Decision,
    JournalView,
    check_header,
    decide,
    implied_route,
)
from windrow.journal.broker.signals import Signal
from windrow.journal.broker.tokens import UNRESTRICTED, current_claims
from windrow.journal.keys import Keys
from windrow.journal.names import split_meta
from windrow.journal.spec import BrokerSpec, EtcdHeader, Header, JournalSpec, ProcessId, Route
from windrow.journal.status import Status

if TYPE_CHECKING:
    from windrow.journal.broker.replica import Replica

PATIENCE = 1.0
"""How long to wait for a change of our own keys when the store itself has come far enough."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """Who serves a journal, as of ``header.etcd.revision``."""

    status: Status
    journal_spec: JournalSpec | None
    header: Header
    route: Route
    local_id: ProcessId
    replica: Replica | None
    is_local_primary: bool
    invalidated: Signal
    item: KeyValue | None
    assignments: Sequence[KeyValue]
    head: KeyValue | None
    desired_replicas: int


class ReplicaKeeper(Protocol):
    """Makes and ends the replicas of this broker; neither call may wait."""

    def begin(self, view: JournalView, invalidated: Signal) -> Replica:
        """A replica of a journal that was assigned to this broker."""

    def renew(self, replica: Replica, view: JournalView, invalidated: Signal) -> None:
        """Tell a replica that stays that its route or stores are others now."""

    def end(self, replica: Replica) -> asyncio.Future[None]:
        """Let go of a journal that is no longer assigned to this broker; done once that is so."""

    def on_members_gone(self, endpoints: Collection[str]) -> None:
        """Brokers that had these endpoints are gone; others may have them by now."""


@dataclass(slots=True)
class _Tracked:
    """A journal that somebody resolved, and what tells them that it has changed."""

    view: JournalView
    invalidated: Signal


class Resolver:
    """The journals of a cluster as seen by one of its brokers."""

    def __init__(
        self,
        mirror: Mirror,
        keys: Keys,
        local_id: ProcessId,
        store_header: Callable[[], StoreHeader],
        keeper: ReplicaKeeper,
        max_replication: int = 9,
    ) -> None:
        self.mirror, self.keys, self.local_id = mirror, keys, local_id
        self.replicas: dict[str, Replica] = {}
        self._created: dict[str, int] = {}
        self._ending: set[str] = set()
        """Journals that a replica is still letting go of: another would find its files in use."""
        self._store_header = store_header
        self._keeper = keeper
        self._max_replication = max_replication
        self._tracked: dict[str, _Tracked] = {}
        self._assigned: dict[str, tuple[KeyValue, ...]] = {}
        self._members: frozenset[tuple[ProcessId, str, int]] = frozenset()
        self._endpoints: dict[ProcessId, str] = {}
        self._changed = asyncio.Event()
        self._is_ended = False
        mirror.observers.append(self._on_change)

    # -- asking ----------------------------------------------------------------------------------

    async def resolve(
        self,
        journal: str,
        *,
        require_primary: bool,
        may_proxy: bool,
        header: Header | None = None,
        min_revision: int = 0,
    ) -> Resolved:
        """Wait for the revision asked for, then resolve at the mirror's present state.

        Raises:
            WrongCluster: The header is of another cluster.
            WrongProcess: The header names another broker.
        """
        if header is not None:
            cluster_id = self._store_header().cluster_id
            check_header(header.etcd, header.process_id, self.local_id, cluster_id)
            min_revision = max(min_revision, header.etcd.revision)
        await self.wait_revision(min_revision)
        name, _ = split_meta(journal)
        tracked = self._track(name)
        view = _as_allowed(tracked.view)
        decision = decide(view, self.local_id, require_primary=require_primary, may_proxy=may_proxy)
        return self._resolved(view, decision, tracked.invalidated)

    def _resolved(self, view: JournalView, decision: Decision, invalidated: Signal) -> Resolved:
        spec, slot = view.spec, view.slot_of(self.local_id)
        return Resolved(
            status=decision.status,
            journal_spec=spec,
            header=Header(decision.process_id, view.route, self.etcd_header()),
            route=view.route,
            local_id=self.local_id,
            replica=None if slot is None else self.replicas.get(view.journal),
            is_local_primary=slot == 0 and spec is not None,
            invalidated=invalidated,
            item=view.item,
            assignments=[assigned.kv for assigned in view.assignments],
            head=view.head,
            desired_replicas=0 if spec is None else spec.desired_replication(self._max_replication),
        )

    def etcd_header(self) -> EtcdHeader:
        """The revision that this broker knows, and of which cluster."""
        store = self._store_header()
        return EtcdHeader(store.cluster_id, store.member_id, self.mirror.revision, store.raft_term)

    def unrouted_header(self) -> Header:
        """The header of an answer that concerns no single journal."""
        return Header(self.local_id, Route.NONE, self.etcd_header())

    def view(self, journal: str) -> JournalView:
        """What the keyspace says of a journal now."""
        item = self.mirror.get(self.keys.item(journal))
        spec = None if item is None else self.mirror.decoded(item.key)
        assigned = tuple(self._assignment(kv) for kv in self._assigned.get(journal, ()))
        head = self.mirror.get(self.keys.head(journal))
        route = implied_route(assigned, self._endpoints)
        return JournalView(journal, spec, item, assigned, head, route)

    def views(self) -> list[JournalView]:
        """All journals there are, by name."""
        return [
            self.view(self.keys.parse_item(item.key))
            for item in self.mirror.prefixed(self.keys.items)
        ]

    # -- waiting ---------------------------------------------------------------------------------

    async def wait_revision(self, revision: int) -> None:
        """Return when a key of the cluster has changed at that revision or later.

        Revisions that others speak of are always such; only a change that was compacted away while
        we were cut off never shows, so the store's own progress counts too, after some patience.
        """
        while self.mirror.revision < revision:
            changed = self._changed
            try:
                await asyncio.wait_for(changed.wait(), PATIENCE)
            except TimeoutError:
                if self.mirror.complete_through >= revision:
                    return

    async def wait_change(self) -> None:
        """Return after the next change of any key."""
        await self._changed.wait()

    # -- following -------------------------------------------------------------------------------

    def _on_change(self, mirror: Mirror) -> None:
        self._assigned = self._group_assignments()
        members, self._members = self._members, self._find_members()
        have_moved = members != self._members
        if have_moved:
            self._endpoints = {member: endpoint for member, endpoint, _ in self._members}
            self._keeper.on_members_gone({endpoint for _, endpoint, _ in members - self._members})
        renewed = [
            journal
            for journal, tracked in list(self._tracked.items())
            if (have_moved or not self._is_current(tracked.view)) and self._renew(journal, tracked)
        ]
        if not self._is_ended:
            self._keep_replicas(renewed)
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def _group_assignments(self) -> dict[str, tuple[KeyValue, ...]]:
        grouped: dict[str, list[KeyValue]] = defaultdict(list)
        for kv in self.mirror.prefixed(self.keys.assignments):
            grouped[self.keys.parse_assignment(kv.key).journal].append(kv)
        return {journal: tuple(kvs) for journal, kvs in grouped.items()}

    def _find_members(self) -> frozenset[tuple[ProcessId, str, int]]:
        """Who is announced, where, and since when: one that came back is another process."""
        members = self.mirror.prefixed(self.keys.members)
        specs = ((cast("BrokerSpec", self.mirror.decoded(kv.key)), kv) for kv in members)
        return frozenset((spec.id, spec.endpoint, kv.create_revision) for spec, kv in specs)

    def _is_current(self, view: JournalView) -> bool:
        """Whether its keys are still the very same ones: asked of all journals at every change."""
        journal = view.journal
        kvs = self._assigned.get(journal, ())
        return (
            self.mirror.get(self.keys.item(journal)) is view.item
            and self.mirror.get(self.keys.head(journal)) is view.head
            and len(kvs) == len(view.assignments)
            and all(kv is one.kv for kv, one in zip(kvs, view.assignments, strict=True))
        )

    def _renew(self, journal: str, tracked: _Tracked) -> bool:
        """Take the present view, and say whether it invalidates the one before."""
        before, tracked.view = tracked.view, self.view(journal)
        if tracked.view.item is None and not tracked.view.assignments:
            del self._tracked[journal]
        if tracked.view.is_same_service(before):
            return False
        invalidated, tracked.invalidated = tracked.invalidated, Signal()
        invalidated.set()
        return True

    def _keep_replicas(self, renewed: list[str]) -> None:
        """Begin replicas that were assigned, and end those that are no more.

        A journal that was deleted and created again is another journal: nothing of the old one
        may be seen in it, whether or not its assignment stayed.
        """
        wanted = {
            journal: item.create_revision
            for journal, kvs in self._assigned.items()
            if any(self.keys.parse_assignment(kv.key).member == self.local_id for kv in kvs)
            and (item := self.mirror.get(self.keys.item(journal))) is not None
        }
        for journal in [j for j, created in self._created.items() if wanted.get(j) != created]:
            self._end(journal)
        for journal in renewed:
            if journal in self.replicas:
                tracked = self._track(journal)
                self._keeper.renew(self.replicas[journal], tracked.view, tracked.invalidated)
        for journal in wanted.keys() - self.replicas.keys() - self._ending:
            tracked = self._track(journal)
            self._created[journal] = wanted[journal]
            self.replicas[journal] = self._keeper.begin(tracked.view, tracked.invalidated)

    def end_replicas(self) -> None:
        """End all replicas for good: this broker is about to stop."""
        self._is_ended = True
        for journal in list(self.replicas):
            self._end(journal)

    def _end(self, journal: str) -> None:
        del self._created[journal]
        self._ending.add(journal)
        ending = self._keeper.end(self.replicas.pop(journal))
        ending.add_done_callback(lambda _: self._on_ended(journal))

    def _on_ended(self, journal: str) -> None:
        """Begin another replica of it, if it was assigned to this broker again meanwhile."""
        self._ending.discard(journal)
        if not self._is_ended:
            self._keep_replicas([])

    def _track(self, journal: str) -> _Tracked:
        tracked = self._tracked.get(journal)
        if tracked is None:
            tracked = _Tracked(self.view(journal), Signal())
            if tracked.view.item is not None or tracked.view.assignments:
                self._tracked[journal] = tracked  # names that do not exist must not fill memory
        return tracked

    def _assignment(self, kv: KeyValue) -> Assigned:
        key = self.keys.parse_assignment(kv.key)
        return Assigned(key.member, key.slot, kv)


def _as_allowed(view: JournalView) -> JournalView:
    """The view as whoever asks may see it: a journal they have no right to does not exist."""
    claims = current_claims.get()
    if claims is UNRESTRICTED or view.spec is None:
        return view
    if claims.allows_journal(view.spec.labels_with_name()):
        return view
    return JournalView(view.journal, None, None, (), None, Route.NONE)
