"""At which offset of a journal does the record of a number lie? Pure.

Registers number records, brokers know bytes. A *landmark* joins both: whoever reads from its offset
meets its record first. Every one is certain: the write head with the register of that moment, the
begin of a fragment, or a place that a read has come to. Nothing is ever looked for in the middle of
a fragment, because the bytes of a message may look like frames, and whoever wrote the message could
have them taken for records.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final, NamedTuple

_MOST: Final = 4096


class Landmark(NamedTuple):
    """Whoever reads from the offset meets the record ``seq`` first."""

    seq: int
    offset: int


class Landmarks:
    """What is known of one journal; forgets every second one when there are too many."""

    def __init__(self) -> None:
        self._known: list[Landmark] = []

    def __len__(self) -> int:
        return len(self._known)

    def add(self, seq: int, offset: int) -> None:
        """Learn of one."""
        place = bisect_right(self._known, seq, key=_seq)
        if place and self._known[place - 1].seq == seq:
            return
        self._known.insert(place, Landmark(seq, offset))
        if len(self._known) > _MOST:
            del self._known[1:-1:2]

    def trim(self, first: Landmark) -> None:
        """Forget all before the first record that is still there."""
        self._known = [first, *(known for known in self._known if known.seq > first.seq)]

    def before(self, seq: int) -> Landmark | None:
        """The nearest from which reading comes by the record."""
        place = bisect_right(self._known, seq, key=_seq)
        return self._known[place - 1] if place else None

    def behind(self, seq: int) -> Landmark | None:
        """The nearest that lies past the record."""
        place = bisect_right(self._known, seq, key=_seq)
        return self._known[place] if place < len(self._known) else None

    def at_offset(self, offset: int) -> Landmark | None:
        """The one at an offset."""
        place = bisect_right(self._known, offset, key=_offset)
        known = self._known[place - 1] if place else None
        return known if known is not None and known.offset == offset else None


def _seq(landmark: Landmark) -> int:
    return landmark.seq


def _offset(landmark: Landmark) -> int:
    return landmark.offset
