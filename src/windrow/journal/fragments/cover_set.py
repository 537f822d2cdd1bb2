"""A set of fragments that cover a journal, none of them needless. Pure.

Fragments may overlap and leave gaps. One that lies wholly inside another is not kept, so begins
and ends both grow along the set, and both can be searched.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from windrow.journal.fragment import Fragment
from windrow.journal.fragments.content import SpoolContent


@dataclass(frozen=True, slots=True)
class Entry:
    """A fragment, and where to read it if this broker has it in a spool."""

    fragment: Fragment
    content: SpoolContent | None = None


class CoverSet:
    """Fragments in the order of their begins and of their ends."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self._entries: list[Entry] = []
        # The longest of those which begin together comes first, and the others lie inside it.
        for entry in sorted(entries, key=lambda e: (e.fragment.begin, -e.fragment.end)):
            if not entry.fragment.is_empty and entry.fragment.end > self.end_offset:
                self._entries.append(entry)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __getitem__(self, index: int) -> Entry:
        return self._entries[index]

    @property
    def begin_offset(self) -> int:
        """Where the first fragment begins; 0 if there is none."""
        return self._entries[0].fragment.begin if self._entries else 0

    @property
    def end_offset(self) -> int:
        """Where the last fragment ends; 0 if there is none."""
        return self._entries[-1].fragment.end if self._entries else 0

    def add(self, entry: Entry) -> bool:
        """Add a fragment, and drop those that lie inside it.

        Returns whether the set has changed: not if the fragment lies inside one that it has.
        """
        begin, end = entry.fragment.begin, entry.fragment.end
        if begin == end or self._has_within_one(begin, end):
            return False
        first = bisect_left(self._entries, begin, key=_begin)
        beyond = bisect_right(self._entries, end, key=_end)
        self._entries[first : max(first, beyond)] = [entry]
        return True

    def find(self, offset: int) -> tuple[int, bool]:
        """The index of the fragment that covers ``offset`` with the largest end, and True.

        If none does, the index of the first one beyond the offset, and False.
        """
        after = bisect_right(self._entries, offset, key=_begin)
        if after and self._entries[after - 1].fragment.end > offset:
            return after - 1, True
        return after, False

    def covers(self, begin: int, end: int) -> bool:
        """Whether every byte of the span is in some fragment."""
        while begin < end:
            index, found = self.find(begin)
            if not found:
                return False
            begin = self._entries[index].fragment.end
        return True

    def difference(self, other: CoverSet) -> CoverSet:
        """The fragments of this set that the other does not cover, be it by several."""
        return CoverSet(
            entry
            for entry in self._entries
            if not other.covers(entry.fragment.begin, entry.fragment.end)
        )

    def _has_within_one(self, begin: int, end: int) -> bool:
        at_or_before = bisect_right(self._entries, begin, key=_begin)
        return at_or_before > 0 and self._entries[at_or_before - 1].fragment.end >= end


def _begin(entry: Entry) -> int:
    return entry.fragment.begin


def _end(entry: Entry) -> int:
    return entry.fragment.end
