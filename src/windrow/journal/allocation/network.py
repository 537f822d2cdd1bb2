"""How does a replica find a place when all seem taken? A flow network and paths through it. Pure.

The network runs from items over zones to members: an item sends out one unit per replica, at most
``zone_cap`` of them into one zone and one to a member, and a member takes as many as it has room.
A unit that finds no room pushes another on, which may push a third, until one reaches a member
with room: an augmenting path. If there is none, the placement is as full as it can be.

Since an item sends at most one unit to a member, the search needs to visit members only: from one
it can go to wherever one of the units there may move. Sets of members are integers with a bit for
each, so that the question "where to?" takes a handful of operations; and the units of a member are
kept apart by the zones still open to them, so that it is asked once for all that can go nowhere.

What a search without success has visited is *dead*: nothing leads out of it, and no path found
elsewhere can change that. Later searches leave it aside, so that all vain searches together look
at each unit once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

_ENTERING = -1
"""Where a unit comes from that was not placed before."""


class Network:
    """Who holds what. Items and members are numbered; rooms and zone caps may change on the way."""

    def __init__(self, zone_of: Sequence[int], needs: Sequence[int]) -> None:
        self.needs = tuple(needs)
        self.zone_of = tuple(zone_of)
        self.holders: list[int] = [0] * len(needs)
        """The members that hold a unit of an item, as bits."""
        self.loads = [0] * len(zone_of)
        """How many units each member holds."""
        self.zone_masks = [_mask(zone_of, zone) for zone in range(max(zone_of, default=-1) + 1)]
        self.rooms = [0] * len(zone_of)
        self._everyone = (1 << len(zone_of)) - 1
        self._free = 0
        self._dead = 0
        self._zone_caps = [0] * len(needs)
        # The members of zones that can still take a unit of an item; and the units of a member by
        # that, each in the order in which they came.
        self._open: list[int] = [0] * len(needs)
        self._units: list[dict[int, dict[int, None]]] = [{} for _ in zone_of]

    # -- limits ------------------------------------------------------------------------------------

    def set_rooms(self, rooms: Sequence[int]) -> None:
        """Say how many units each member takes from now on; what it holds beyond that stays."""
        self.rooms = list(rooms)
        self._free = sum(
            1 << member for member, room in enumerate(rooms) if self.loads[member] < room
        )
        self._dead = 0

    def set_zone_cap(self, item: int, cap: int) -> None:
        """Say how many units of an item one zone takes from now on."""
        self._zone_caps[item] = cap
        self._reopen(item)

    def revive(self) -> None:
        """Forget where searches ended in vain: something has made new ways."""
        self._dead = 0

    # -- questions ---------------------------------------------------------------------------------

    def missing(self, item: int) -> int:
        """How many units of an item have no place."""
        return self.needs[item] - self.holders[item].bit_count()

    def excess(self, member: int) -> int:
        """How much more than its room a member holds."""
        return self.loads[member] - self.rooms[member]

    def zone_count(self, item: int, zone: int) -> int:
        """How many units of an item are in a zone."""
        return (self.holders[item] & self.zone_masks[zone]).bit_count()

    def zone_cap(self, item: int) -> int:
        """How many units of an item one zone takes."""
        return self._zone_caps[item]

    def places_for(self, item: int) -> int:
        """The members with room that may take one more unit of an item, as bits."""
        return self._free & self._open[item] & ~self.holders[item]

    def places_from(self, item: int, member: int) -> int:
        """The members with room to which a unit may move from this one, as bits."""
        within = self.zone_masks[self.zone_of[member]]
        return self._free & (self._open[item] | within) & ~self.holders[item]

    def held(self, member: int) -> list[int]:
        """The items of which a member holds a unit."""
        return [item for units in self._units[member].values() for item in units]

    # -- changes -----------------------------------------------------------------------------------

    def put(self, item: int, member: int) -> None:
        """Place a unit."""
        self.holders[item] |= 1 << member
        self.loads[member] += 1
        self._units[member].setdefault(self._open[item], {})[item] = None
        self._refree(member)
        self._reopen(item)

    def take(self, item: int, member: int) -> None:
        """Take a unit away again."""
        self.holders[item] &= ~(1 << member)
        self.loads[member] -= 1
        del self._units[member][self._open[item]][item]
        self._refree(member)
        self._reopen(item)

    def move(self, item: int, source: int, target: int) -> None:
        """Move a unit from one member to another."""
        self.take(item, source)
        self.put(item, target)

    def augment(self, item: int) -> bool:
        """Place one more unit of an item, pushing on as few others as possible."""
        entries = self._open[item] & ~self.holders[item] & ~self._dead
        return self._search(dict.fromkeys(bits(entries), (item, _ENTERING)))

    def relieve(self, member: int) -> bool:
        """Push one unit of a member on, and as few others as possible."""
        if self._dead >> member & 1:
            return False
        return self._search({member: (_ENTERING, _ENTERING)})

    # -- the search --------------------------------------------------------------------------------

    def _search(self, came: dict[int, tuple[int, int]]) -> bool:
        """Go out from these members until one with room is found; breadth first.

        ``came`` tells of each member visited which unit would come to it, and from where. The
        shortest path is always possible as a whole: if an item moved twice on it into one zone,
        its first move could have gone where the second ends, and the path would be shorter.
        """
        queue = list(came)
        unvisited = self._everyone & ~self._dead
        for member in queue:
            unvisited &= ~(1 << member)
        for member in queue:
            if self._free >> member & 1:
                self._push_along(came, member)
                return True
        for source in queue:
            within = self.zone_masks[self.zone_of[source]]
            for opened, units in self._units[source].items():
                around = unvisited & (opened | within)
                # Units that came last are moved first: they are the ones that have to move anyway.
                for item in reversed(units) if around else ():
                    reached = around & ~self.holders[item]
                    if not reached:
                        continue
                    for member in bits(reached):
                        came[member] = (item, source)
                        queue.append(member)
                    if reached & self._free:
                        self._push_along(came, next(bits(reached & self._free)))
                        return True
                    unvisited &= ~reached
                    around &= ~reached
                    if not around:
                        break
            if not unvisited:
                break
        for member in queue:
            self._dead |= 1 << member
        return False

    def _push_along(self, came: dict[int, tuple[int, int]], end: int) -> None:
        member = end
        while True:
            item, source = came[member]
            if item == _ENTERING:
                return
            if source == _ENTERING:
                self.put(item, member)
                return
            self.move(item, source, member)
            member = source

    # -- keeping count -----------------------------------------------------------------------------

    def _refree(self, member: int) -> None:
        bit = 1 << member
        if self.loads[member] < self.rooms[member]:
            self._free |= bit
        else:
            self._free &= ~bit

    def _reopen(self, item: int) -> None:
        cap, holders, before = self._zone_caps[item], self.holders[item], self._open[item]
        if holders.bit_count() < cap:
            opened = self._everyone
        else:
            opened = sum(mask for mask in self.zone_masks if (holders & mask).bit_count() < cap)
        if opened == before:
            return
        self._open[item] = opened
        for member in bits(holders):
            units = self._units[member]
            del units[before][item]
            units.setdefault(opened, {})[item] = None


def bits(mask: int) -> Iterator[int]:
    """The numbers of the bits that are set, rising."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def _mask(zone_of: Sequence[int], zone: int) -> int:
    return sum(1 << member for member, its in enumerate(zone_of) if its == zone)
