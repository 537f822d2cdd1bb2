"""What readers saw of a journal while it was written: nothing seen may change or go away. Pure.

Bytes that are shown before every replica has them can vanish with the next fault. So whatever was
seen once must be seen again by whoever reads there later, and be there at the end.
"""

from __future__ import annotations

from typing import NamedTuple


class Change(NamedTuple):
    """A byte that was seen, and is not as it was any more."""

    offset: int
    why: str


class Sightings:
    """The bytes of one journal from offset 0 on, as they were first seen."""

    def __init__(self) -> None:
        self.seen = bytearray()
        self.changes: list[Change] = []

    @property
    def end(self) -> int:
        """How far the journal was seen."""
        return len(self.seen)

    def saw(self, offset: int, content: bytes) -> None:
        """A reader was given these bytes. It begins at or before the ``end`` of what was seen."""
        assert offset <= self.end, f"read at {offset}, and nobody saw what is behind {self.end}"
        again = min(self.end - offset, len(content))
        self._compare(offset, content[:again], "read again, it had changed")
        self.seen += content[again:]

    def close(self, content: bytes) -> None:
        """The journal as it is in the end."""
        self._compare(0, content[: self.end], "it is different in the end")
        if len(content) < self.end:
            self.changes.append(Change(len(content), f"gone, though seen up to {self.end}"))

    def _compare(self, offset: int, content: bytes, why: str) -> None:
        if self.seen[offset : offset + len(content)] != content:
            pairs = zip(self.seen[offset:], content, strict=False)
            first = next(n for n, (before, now) in enumerate(pairs) if before != now)
            self.changes.append(Change(offset + first, why))
