"""Which rows of a target does it not hold yet, and how far do they take its marks? Pure.

What a task asks of its rows are few questions, and all of them are about positions. So rows may be
a list of values, or columns of which only the numbers are looked at: ``windrow.spark.chunks``.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple, Protocol, Self

from windrow.graph.delivery_errors import InvalidOffsets
from windrow.graph.high_water import HighWaters, Mark
from windrow.graph.positions import Position, SourceOffsets


class SinkRow(NamedTuple):
    """A row on its way to a target. Of a nil row only the position arrives: it moves the mark."""

    positions: tuple[Position, ...]
    value: object = None
    is_nil: bool = False


class SinkRows(Protocol):
    """Rows in the order of their positions."""

    @property
    def is_join(self) -> bool:
        """Whether a row has a place in several sources."""
        ...

    def __len__(self) -> int: ...

    def undelivered(self, waters: HighWaters, floor: SourceOffsets) -> Self:
        """What a target with these marks does not hold yet."""
        ...

    def cut(self, size: int) -> tuple[Self, Self]:
        """The first so many, and the rest."""
        ...

    def reached(self) -> Iterable[tuple[Position, ...]]:
        """Positions such that marks which are over them are over all."""
        ...

    def present(self) -> Sequence[SinkRow]:
        """Those that are not nil."""
        ...


@dataclass(frozen=True, slots=True)
class ListedRows:
    """Rows as a list."""

    rows: Sequence[SinkRow] = ()
    is_join: bool = False

    @classmethod
    def of(cls, rows: Iterable[SinkRow]) -> ListedRows:
        """Rows that are in any order.

        Raises:
            InvalidOffsets: One has no position.
        """
        ordered = sorted(rows, key=_by_position)
        if any(not row.positions for row in ordered):
            # It would count as delivered, since nothing of it is beyond any mark.
            raise InvalidOffsets("row", "it has no position")
        return cls(ordered, any(len(row.positions) > 1 for row in ordered))

    def __len__(self) -> int:
        return len(self.rows)

    def undelivered(self, waters: HighWaters, floor: SourceOffsets) -> ListedRows:
        """What a target with these marks does not hold yet."""
        if self.is_join:
            held = (floor.covers, waters.covers)
            kept = [row for row in self.rows if not any(one(row.positions) for one in held)]
            return ListedRows(kept, True)
        # Rows are sorted, so what is held of a source partition comes first: no need to look at
        # each of them.
        kept = []
        for _, group in groupby(self.rows, _place):
            own = list(group)
            origin = own[0].positions[0].origin
            edge = max(waters.mark(origin), Mark(floor.get(origin)))
            kept += own[bisect_left(own, (edge.index, edge.ordinal), key=_index) :]
        return ListedRows(kept)

    def cut(self, size: int) -> tuple[ListedRows, ListedRows]:
        """The first so many, and the rest."""
        first, rest = self.rows[:size], self.rows[size:]
        return ListedRows(first, self.is_join), ListedRows(rest, self.is_join)

    def reached(self) -> Iterable[tuple[Position, ...]]:
        """The last of every source partition; of a join all of them."""
        if self.is_join:
            return [row.positions for row in self.rows]
        return list({_place(row): row.positions for row in self.rows}.values())

    def present(self) -> Sequence[SinkRow]:
        """Those that are not nil."""
        return [row for row in self.rows if not row.is_nil]


def _by_position(row: SinkRow) -> tuple[Position, ...]:
    return row.positions


def _place(row: SinkRow) -> tuple[str, str, int]:
    at = row.positions[0]
    return at.source, at.incarnation, at.partition


def _index(row: SinkRow) -> tuple[int, int]:
    at = row.positions[0]
    return at.index, at.ordinal
