"""What does the cluster look like? Its journals, brokers and assignments at one revision. Pure.

Values are decoded by callables that are handed in: this module knows what they mean, not how they
are written. A key or value that cannot be read is left out, and later changes compare keys, so
that nothing is done to a journal because its spec could not be read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from windrow.coordination.store import KeyValue
from windrow.errors import WindrowError
from windrow.journal.keys import Keys
from windrow.journal.process import NO_PRIMARY, BrokerSpec, ProcessId, Route
from windrow.journal.spec import JournalSpec

_ROUTES_REMEMBERED = 1 << 16


@dataclass(frozen=True, slots=True)
class Decoders:
    """How values are read; each raises a ``WindrowError`` for one that cannot be."""

    item: Callable[[bytes], JournalSpec]
    member: Callable[[bytes], BrokerSpec]
    route: Callable[[bytes], Route]


@dataclass(frozen=True, slots=True)
class Item:
    """A journal, and how many replicas it is to have now."""

    journal: str
    replication: int
    key: str
    mod_revision: int


@dataclass(frozen=True, slots=True)
class Member:
    """A broker that is there: its lease lives."""

    id: ProcessId
    limit: int
    is_exiting: bool
    key: str
    create_revision: int
    lease: int
    mod_revision: int = 0
    """At which its limit was last seen to change; 0 where nothing will be assigned to it."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """That a member holds a journal, in a slot; slot 0 is the primary's."""

    journal: str
    member: ProcessId
    slot: int
    kv: KeyValue

    @property
    def was_synced(self) -> bool:
        """Whether a primary ever wrote down that this replica agreed with the others."""
        return bool(self.kv.value)


Fingerprint = tuple[tuple[tuple[str, int, int], ...], tuple[tuple[str, int], ...]]


@dataclass(frozen=True)
class State:
    """A cluster at one revision."""

    keys: Keys
    items: Mapping[str, Item]
    """By journal, sorted."""
    members: Mapping[ProcessId, Member]
    """By id, sorted."""
    assignments: Mapping[str, tuple[Assignment, ...]]
    """By journal, each in the order of its keys; also those of journals that are gone."""
    decode_route: Callable[[bytes], Route | None] = field(repr=False)

    @cached_property
    def leader(self) -> Member | None:
        """The member that was there first: the only one that assigns."""
        return min(self.members.values(), key=lambda m: m.create_revision, default=None)

    @cached_property
    def sheds(self) -> Mapping[ProcessId, int]:
        """How much of its limit each exiting member need no longer offer."""
        return shed_capacity(self.members.values(), [i.replication for i in self.items.values()])

    @cached_property
    def rooms(self) -> Mapping[ProcessId, int]:
        """How many assignments each member is to hold at most."""
        return {m.id: m.limit - self.sheds.get(m.id, 0) for m in self.members.values()}

    @cached_property
    def fingerprint(self) -> Fingerprint:
        """Everything a solution depends on except what is assigned already.

        While it stays the same so does the solution: an assignment on its way to another member
        must not be reconsidered because it is half way there.
        """
        members = self.members.values()
        return (
            tuple((m.key, m.limit, self.sheds.get(m.id, 0)) for m in members),
            tuple((item.key, item.replication) for item in self.items.values()),
        )

    def current(self, journal: str) -> tuple[Assignment, ...]:
        """The assignments of a journal."""
        return self.assignments.get(journal, ())

    def is_consistent(self, journal: str) -> bool:
        """Whether all assignments of a journal hold the route that their keys make.

        Then its primary has synchronised exactly these replicas, and one of them can be spared.
        """
        current = self.current(journal)
        route = implied_route(current)
        return bool(current) and all(self._holds(a, route) for a in current)

    def _holds(self, assignment: Assignment, route: Route) -> bool:
        held = self.decode_route(assignment.kv.value) if assignment.was_synced else None
        return held is not None and held.equivalent(route)

    def loads(self) -> Counter[ProcessId]:
        """How many assignments each member holds."""
        return Counter(a.member for group in self.assignments.values() for a in group)

    def primary_loads(self) -> Counter[ProcessId]:
        """How many journals each member is primary of."""
        return Counter(
            a.member for group in self.assignments.values() for a in group if a.slot == 0
        )


class StateReader:
    """Makes states of key values, and remembers what it decoded: most keys stay as they were."""

    def __init__(self, keys: Keys, decoders: Decoders, max_replication: int) -> None:
        self._keys = keys
        self._decoders = decoders
        self._max_replication = max_replication
        self._items: dict[KeyValue, Item | None] = {}
        self._decode_route = lru_cache(_ROUTES_REMEMBERED)(self._read_route)

    def read(
        self,
        items: Iterable[KeyValue],
        members: Iterable[KeyValue],
        assignments: Iterable[KeyValue],
    ) -> State:
        """The state that these keys describe, in whatever order they come."""
        known = self._items
        self._items = {kv: known[kv] if kv in known else self._read_item(kv) for kv in items}
        read_items = [item for item in self._items.values() if item is not None]
        read_members = [m for kv in members if (m := self._read_member(kv)) is not None]
        return State(
            keys=self._keys,
            items={item.journal: item for item in sorted(read_items, key=lambda i: i.journal)},
            members={member.id: member for member in sorted(read_members, key=lambda m: m.id)},
            assignments=self._group(assignments),
            decode_route=self._decode_route,
        )

    def _read_item(self, kv: KeyValue) -> Item | None:
        try:
            journal = self._keys.parse_item(kv.key)
            spec = self._decoders.item(kv.value)
        except WindrowError:
            return None
        if spec.name != journal:
            return None
        replication = spec.desired_replication(self._max_replication)
        return Item(journal, replication, kv.key, kv.mod_revision)

    def _read_member(self, kv: KeyValue) -> Member | None:
        try:
            member = self._keys.parse_member(kv.key)
            spec = self._decoders.member(kv.value)
        except WindrowError:
            return None
        if spec.id != member:
            return None
        return Member(
            id=member,
            limit=spec.journal_limit,
            is_exiting=spec.exiting,
            key=kv.key,
            create_revision=kv.create_revision,
            mod_revision=kv.mod_revision,
            lease=kv.lease,
        )

    def _group(self, kvs: Iterable[KeyValue]) -> dict[str, tuple[Assignment, ...]]:
        groups: dict[str, list[Assignment]] = {}
        for kv in sorted(kvs, key=lambda kv: kv.key):
            try:
                journal, member, slot = self._keys.parse_assignment(kv.key)
            except WindrowError:
                continue
            groups.setdefault(journal, []).append(Assignment(journal, member, slot, kv))
        return {journal: tuple(group) for journal, group in groups.items()}

    def _read_route(self, value: bytes) -> Route | None:
        try:
            return self._decoders.route(value)
        except WindrowError:
            return None


def implied_route(assignments: Iterable[Assignment]) -> Route:
    """The route that the keys of a journal's assignments make."""
    ordered = sorted(assignments, key=lambda a: a.member)
    primary = next((at for at, a in enumerate(ordered) if a.slot == 0), NO_PRIMARY)
    return Route(tuple(a.member for a in ordered), primary)


def shed_capacity(members: Iterable[Member], replications: Iterable[int]) -> dict[ProcessId, int]:
    """What exiting members need no longer offer, the oldest first.

    As much as the cluster has to spare, and only while enough members keep their full capacity to
    hold every replica of the most replicated journal.
    """
    everyone, demands = list(members), list(replications)
    spare = sum(member.limit for member in everyone) - sum(demands)
    full, needed = len(everyone), max(demands, default=0)
    sheds: dict[ProcessId, int] = {}
    for member in sorted((m for m in everyone if m.is_exiting), key=lambda m: m.create_revision):
        if spare <= 0 or full <= needed:
            break
        sheds[member.id] = min(member.limit, spare)
        spare -= sheds[member.id]
        full -= 1
    return sheds
