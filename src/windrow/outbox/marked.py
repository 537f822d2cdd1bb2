"""A row of the outbox as the relay holds it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, NamedTuple


class Marked(NamedTuple):
    """A row that this leader has taken and not yet purged.

    A named tuple and not a class: some forty thousand are made a second, straight from the
    driver's values, and most are read once.
    """

    id: int
    topic: str
    key: str | None
    value: bytes | None
    header_keys: list[str | None] | None
    header_values: list[str | None] | None
    partition: int | None = None
    timestamp: int | None = None
    attempts: int = 0

    @property
    def size(self) -> int:
        """Roughly what it takes in memory and on the wire: the value, or a floor for none."""
        return 100 + (len(self.value) if self.value is not None else 0)


_as_it_is = partial(tuple.__new__, Marked)


def as_marked(rows: Iterable[tuple[Any, ...]]) -> list[Marked]:
    """The driver's rows, whose columns are those of ``Marked``: ``_make`` would count them."""
    return list(map(_as_it_is, rows))


def bytes_of(rows: Iterable[Marked]) -> int:
    """Roughly what they take together."""
    return sum(100 + (len(row[3]) if row[3] is not None else 0) for row in rows)
