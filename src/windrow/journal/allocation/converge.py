"""What has to change for the assignments to become the solution? One careful round of it. Pure.

A round asks of each journal only what is safe now, and the next round goes on from what came of
it. Replicas are added at once. They are removed only while the journal is consistent, and only
those that can be spared: it is over-replicated until its primary has synchronised the new ones,
and never has fewer synchronised replicas than it should. If slot 0 is empty a replica is moved
into it. When nothing else is to be done, slots are closed up, one a round.

Every change compares the journal's spec and all its assignments as they were seen: what was decided
from them is void if one of them has changed. What no comparison can see is an assignment that was
added since, by a transaction of this leader that got no answer and came late. It may make a replica
too many, twice on a member or with a second slot 0: nothing is lost by that, and the next round
puts it right.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from windrow.coordination.store import Compare, Delete, KeyValue, Op, Put
from windrow.journal.allocation.state import Assignment, Item, State
from windrow.journal.allocation.transactions import Group, Transaction, batch
from windrow.journal.process import ProcessId


def converge(
    state: State, solution: Mapping[str, Sequence[ProcessId]], heads: Sequence[KeyValue] = ()
) -> list[Transaction]:
    """The transactions of one round; none if there is nothing to do, or nobody to do it.

    ``heads`` are the keys of journals' heads: those of deleted journals go.
    """
    if state.leader is None:
        return []
    # Whoever has the smallest create revision keeps it as long as its key lives: if the key is
    # still the same one, its owner still leads.
    guard = Compare.create_revision(state.leader.key, state.leader.create_revision)
    changes = _Round(state)
    wanted = (changes.of(item, solution.get(item.journal, ())) for item in state.items.values())
    groups = [group for group in wanted if group is not None]
    # Apart, since their conditions may never come true: of an item that is there but unreadable.
    orphans = [*_orphans(state), *_orphaned_heads(state, heads)]
    return batch(guard, groups) + batch(guard, orphans)


def _orphans(state: State) -> Iterator[Group]:
    """Remove the assignments of journals that were deleted."""
    for journal, current in state.assignments.items():
        if journal not in state.items:
            absent = Compare.version(state.keys.item(journal), 0)
            yield Group(
                compares=(absent, *map(_unchanged, current)),
                ops=tuple(Delete(a.kv.key) for a in current),
                removed=len(current),
            )


def _orphaned_heads(state: State, heads: Sequence[KeyValue]) -> Iterator[Group]:
    """Remove the heads of journals that were deleted without them."""
    for head in heads:
        item = state.keys.items + head.key.removeprefix(state.keys.heads)
        if item.removeprefix(state.keys.items) not in state.items:
            unchanged = Compare.mod_revision(head.key, head.mod_revision)
            yield Group(compares=(Compare.version(item, 0), unchanged), ops=(Delete(head.key),))


@dataclass(frozen=True, slots=True)
class _Move:
    assignment: Assignment
    slot: int


class _Round:
    """The journals of one round, one after the other; keeps count of what members hold."""

    def __init__(self, state: State) -> None:
        self.state = state
        # Additions count from now on; removals only when they are seen to have happened.
        self.loads = state.loads()
        self.primaries = state.primary_loads()

    def of(self, item: Item, desired: Sequence[ProcessId]) -> Group | None:
        """What to do about one journal, if anything."""
        current = self.state.current(item.journal)
        if _is_settled(current, desired):
            return None
        removals = self._removals(item, current, desired)
        kept = [a for a in current if a not in removals]
        additions = self._additions(kept, desired)
        if additions or removals or not any(a.slot == 0 for a in kept):
            move = self._promotion(kept, desired)
        else:
            move = _compaction(kept)
        return self._group(item, current, removals, move, self._place(kept, move, additions))

    # -- which -------------------------------------------------------------------------------------

    def _removals(
        self, item: Item, current: Sequence[Assignment], desired: Sequence[ProcessId]
    ) -> list[Assignment]:
        void = [a for a in current if self._is_void(a, current)]
        if void:
            return void
        is_consistent = self.state.is_consistent(item.journal)
        synced = len(current) if is_consistent else 0
        surplus = [a for a in current if a.member not in desired]
        surplus.sort(key=lambda a: (-self._load_ratio(a.member), a.member))
        if not is_consistent:
            return surplus if synced >= item.replication else []
        return surplus[: max(0, synced - item.replication)]

    def _is_void(self, assignment: Assignment, current: Sequence[Assignment]) -> bool:
        """Whether nobody serves it: its member is gone, or has the journal in a lower slot."""
        return assignment.member not in self.state.members or any(
            other.member == assignment.member and other.slot < assignment.slot for other in current
        )

    def _additions(
        self, kept: Sequence[Assignment], desired: Sequence[ProcessId]
    ) -> list[ProcessId]:
        holders = {a.member for a in kept}
        additions = []
        for member in desired:
            if member not in holders and self.loads[member] < self._limit(member):
                self.loads[member] += 1
                additions.append(member)
        return additions

    def _promotion(self, kept: Sequence[Assignment], desired: Sequence[ProcessId]) -> _Move | None:
        """Give an orphaned slot 0 to the best of those that are left.

        After a hand-over all of them are consistent. After the loss of a primary none is, since
        each still names it; then one that was synchronised with it, before one just added.
        """
        if not kept or any(a.slot == 0 for a in kept):
            return None
        best = min(
            kept,
            key=lambda a: (
                not a.was_synced,
                a.member not in desired,
                self._primary_ratio(a.member),
                a.member,
            ),
        )
        self.primaries[best.member] += 1
        return _Move(best, 0)

    def _place(
        self, kept: Sequence[Assignment], move: _Move | None, additions: list[ProcessId]
    ) -> list[tuple[ProcessId, int]]:
        """Give additions the free slots; of a new journal the least burdened is primary."""
        taken = {a.slot for a in kept if move is None or a is not move.assignment}
        if move is not None:
            taken.add(move.slot)
        if additions and 0 not in taken:
            additions.sort(key=self._primary_ratio)
            self.primaries[additions[0]] += 1
        placed = []
        for member in additions:
            slot = _lowest_free(taken)
            taken.add(slot)
            placed.append((member, slot))
        return placed

    # -- how ---------------------------------------------------------------------------------------

    def _group(
        self,
        item: Item,
        current: Sequence[Assignment],
        removals: Sequence[Assignment],
        move: _Move | None,
        additions: Sequence[tuple[ProcessId, int]],
    ) -> Group | None:
        compares = [Compare.mod_revision(item.key, item.mod_revision), *map(_unchanged, current)]
        ops: list[Op] = []
        for removal in removals:
            ops.append(Delete(removal.kv.key))
            if removal.member not in self.state.members:
                compares.append(Compare.version(self.state.keys.member(removal.member), 0))
        if move is not None:
            kv = move.assignment.kv
            key = self.state.keys.assignment(item.journal, move.assignment.member, move.slot)
            compares.append(Compare.version(key, 0))
            ops += [Delete(kv.key), Put(key, kv.value, lease=kv.lease)]
        for member_id, slot in additions:
            member = self.state.members[member_id]
            key = self.state.keys.assignment(item.journal, member_id, slot)
            # A member that came back has another lease, and one that changed perhaps no room.
            as_seen = Compare.mod_revision(member.key, member.mod_revision)
            compares += [as_seen, Compare.version(key, 0)]
            ops.append(Put(key, b"", lease=member.lease))
        if not ops:
            return None
        return Group(tuple(compares), tuple(ops), len(additions), len(removals), int(bool(move)))

    # -- loads -------------------------------------------------------------------------------------

    def _limit(self, member: ProcessId) -> int:
        return self.state.members[member].limit if member in self.state.members else 0

    def _load_ratio(self, member: ProcessId) -> float:
        room = self.state.rooms.get(member, 0)
        return self.loads[member] / room if room else inf

    def _primary_ratio(self, member: ProcessId) -> float:
        room = self.state.rooms.get(member, 0)
        return self.primaries[member] / room if room else inf


def _is_settled(current: Sequence[Assignment], desired: Sequence[ProcessId]) -> bool:
    """Whether a journal is as it should be; assignments and solution are both sorted."""
    return tuple(a.member for a in current) == tuple(desired) and _lowest_free(
        {a.slot for a in current}
    ) == len(current)


def _compaction(kept: Sequence[Assignment]) -> _Move | None:
    """Move the highest slot, or one that is taken twice, to the lowest that is free."""
    seen: set[int] = set()
    highest = None
    for assignment in sorted(kept, key=lambda a: a.slot):
        highest = assignment
        if assignment.slot in seen:
            break
        seen.add(assignment.slot)
    free = _lowest_free({a.slot for a in kept})
    return _Move(highest, free) if highest is not None and free < len(kept) else None


def _lowest_free(slots: Iterable[int]) -> int:
    taken = set(slots)
    return next(slot for slot in range(len(taken) + 1) if slot not in taken)


def _unchanged(assignment: Assignment) -> Compare:
    return Compare.mod_revision(assignment.kv.key, assignment.kv.mod_revision)
