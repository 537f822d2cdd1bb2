"""Which members should hold which journals? Pure, and the same answer for the same question.

The answer changes as little as it can of what is there, and keeps, the earlier the stronger:

1. No member holds more than its room, and no journal sits twice on a member.
2. As many replicas as possible have a place: all of them, wherever that can be.
3. A journal of two or more replicas is in two or more zones.
4. No member holds more than its fair share, which is its room times the cluster's load, rounded up.
5. What is placed already stays where it is.

It begins with what is there, trims that to the rules, fills what is missing at the least loaded
members, and only where this leads nowhere searches the network for a path. Then it gives way, one
rule at a time from the last: shares grow to the full rooms; a journal that finds no second zone
makes do with one; and at the very end any journal does, if another one gets its replica by that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from windrow.journal.allocation.network import Network, bits
from windrow.journal.allocation.state import State
from windrow.journal.process import ProcessId

Solution = dict[str, tuple[ProcessId, ...]]
"""The members that should hold each journal, sorted."""


def solve(
    demands: Mapping[str, int],
    rooms: Mapping[ProcessId, int],
    current: Mapping[str, Iterable[ProcessId]],
) -> Solution:
    """Decide which members should hold each journal.

    Args:
        demands: How many replicas each journal is to have.
        rooms: How many replicas each member may hold.
        current: Which members hold a journal now, those first that should rather stay.
    """
    members = sorted(member for member, room in rooms.items() if room > 0)
    journals = sorted(demands)
    solver = _Solver(
        [member.zone for member in members],
        [rooms[member] for member in members],
        # More replicas than members can never be: asking for them would only distort the shares.
        [min(demands[journal], len(members)) for journal in journals],
    )
    number = {member: index for index, member in enumerate(members)}
    for item, journal in enumerate(journals):
        holders = dict.fromkeys(number[m] for m in current.get(journal, ()) if m in number)
        solver.keep(item, list(holders))
    solver.solve()
    return {
        journal: tuple(members[member] for member in bits(solver.network.holders[item]))
        for item, journal in enumerate(journals)
    }


def solve_state(state: State) -> Solution:
    """The solution of a state; replicas that were synchronised would rather stay."""
    return solve(
        {item.journal: item.replication for item in state.items.values()},
        state.rooms,
        {
            journal: [a.member for a in sorted(current, key=lambda a: (not a.was_synced, a.slot))]
            for journal, current in state.assignments.items()
        },
    )


def fair_shares(rooms: Sequence[int], demand: int) -> list[int]:
    """The part of a demand that falls to each room, rounded up; never more than the room."""
    total = sum(rooms)
    if demand >= total:
        return list(rooms)
    return [-(-room * demand // total) for room in rooms]


class _Solver:
    """One solution in the making; items and members are numbered."""

    def __init__(self, zones: Sequence[str], rooms: Sequence[int], needs: Sequence[int]) -> None:
        names = sorted(set(zones))
        self.needs = needs
        self.rooms = rooms
        self.network = Network([names.index(zone) for zone in zones], needs)
        self.network.set_rooms(fair_shares(rooms, sum(needs)))
        self.current: list[Sequence[int]] = [()] * len(needs)
        self.zones = len(names)
        for item, need in enumerate(needs):
            # Who may not be in one zone as a whole is in two.
            self.network.set_zone_cap(item, need - 1 if need > 1 and self.zones > 1 else need)

    def keep(self, item: int, holders: Sequence[int]) -> None:
        """Begin with these holders of an item, those first that should rather stay."""
        self.current[item] = holders
        for member in holders:
            self.network.put(item, member)

    def solve(self) -> None:
        """Go through the steps; afterwards the network holds the solution."""
        for item in range(len(self.needs)):
            self._trim(item)
        unplaced = self._fill(self._wanting())
        self._even_out()
        self._augment(unplaced)
        self._evict()
        self.network.set_rooms(self.rooms)
        self._augment(self._fill(self._wanting()))
        self._give_up_zones()

    # -- the steps ---------------------------------------------------------------------------------

    def _trim(self, item: int) -> None:
        """Take away what an item has too much of, in one zone or in all."""
        network = self.network
        while True:
            zone = next(
                (z for z in range(self.zones) if network.zone_count(item, z) > self._cap(item)),
                None,
            )
            if zone is None and network.missing(item) >= 0:
                return
            crowd = network.holders[item] & (-1 if zone is None else network.zone_masks[zone])
            rank = self.current[item].index
            network.take(item, max(bits(crowd), key=lambda m: (network.excess(m) > 0, rank(m))))

    def _wanting(self) -> list[int]:
        """The items that lack replicas, each as often as it does."""
        missing = self.network.missing
        return [item for item in range(len(self.needs)) for _ in range(missing(item))]

    def _fill(self, wanting: list[int]) -> list[int]:
        """Place what fits without moving anything; returns what does not."""
        unplaced = []
        for item in wanting:
            places = self.network.places_for(item)
            if places:
                self.network.put(item, self._best(item, places))
            else:
                unplaced.append(item)
        return unplaced

    def _even_out(self) -> None:
        """Move what members hold beyond their share to those that hold less than theirs."""
        network = self.network
        for member in range(len(self.rooms)):
            for item in network.held(member):
                if network.excess(member) <= 0:
                    break
                places = network.places_from(item, member)
                if places:
                    network.move(item, member, self._best(item, places))
            while network.excess(member) > 0 and network.relieve(member):
                pass

    def _augment(self, wanting: list[int]) -> None:
        for item in wanting:
            self._push_in(item)

    def _push_in(self, item: int) -> bool:
        """Place a replica where there is room, or else push others on."""
        return not self._fill([item]) or self.network.augment(item)

    def _evict(self) -> None:
        """Take from members what exceeds even their room; it has to go elsewhere, or nowhere."""
        for member, room in enumerate(self.rooms):
            for item in self.network.held(member)[room:]:
                self.network.take(item, member)

    def _give_up_zones(self) -> None:
        """Let what is still missing sit in one zone: first the items concerned, then any."""
        network = self.network
        for item in self._wanting():
            cap = self._cap(item)
            network.set_zone_cap(item, self.needs[item])
            if not self._push_in(item):
                network.set_zone_cap(item, cap)
        wanting = self._wanting()
        if not wanting or self.zones < 2:
            return
        for item, need in enumerate(self.needs):
            network.set_zone_cap(item, need)
        network.revive()
        self._augment(wanting)

    # -- choices -----------------------------------------------------------------------------------

    def _best(self, item: int, places: int) -> int:
        """Where the item is or was; else a zone it is not crowded in; there the least loaded."""
        before = sum(1 << member for member in self.current[item])
        loads, rooms = self.network.loads, self.rooms
        choice = places & before or places & self._roomy(item) or places
        return min(bits(choice), key=lambda m: loads[m] / rooms[m])

    def _roomy(self, item: int) -> int:
        even = -(-self.needs[item] // self.zones)
        network = self.network
        return sum(
            mask
            for zone, mask in enumerate(network.zone_masks)
            if network.zone_count(item, zone) < even
        )

    def _cap(self, item: int) -> int:
        return self.network.zone_cap(item)
