"""How do rows travel from the source to the sink of a graph's query? Many at once, in columns.

To Spark a chunk is one row: the target, and a stream of Arrow that it hands on as it is. Were every
message a row of its own, Spark would take it apart and put it together again, and so would both
ends; that costs more than all else that is done with a message.

All rows of a chunk are made from one split, so where they stand is told once, and a row only says
from which input of the split it was made. An input without output moves a mark and nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any, Self, overload

from windrow.extras import require
from windrow.graph.high_water import HighWaters
from windrow.graph.messages import Headers
from windrow.graph.planning import Split
from windrow.graph.positions import Position, SourceOffsets, SourcePartition
from windrow.graph.sink_rows import ListedRows, SinkRow, SinkRows
from windrow.spark.columns import HASH, NTH, ORDINAL, ROWS, TARGET, chunk_schema, delivery_schema
from windrow.spark.stores import Content

if TYPE_CHECKING:
    import pyarrow as pa

_FACTS = b"windrow"


@dataclass(frozen=True)
class ChunkFacts:
    """What all rows of a chunk share.

    Attributes:
        starts: Where the input with the number 0 stands: a place, or of a join one in each source.
        time: In microseconds since 1970: that of the snapshot.
        is_nil: These are inputs without output.
    """

    starts: tuple[Position, ...]
    time: int
    is_nil: bool = False

    @classmethod
    def of(cls, split: Split, time: int, is_nil: bool = False) -> ChunkFacts:
        """Of rows that are made from a split."""
        return cls(split.positions(0), time, is_nil)

    @cached_property
    def lane(self) -> tuple[SourcePartition, ...]:
        """The partitions that the rows are made from."""
        return tuple(at.origin for at in self.starts)

    def positions(self, nth: int, ordinal: int) -> tuple[Position, ...]:
        """Where a row stands."""
        return tuple([Position(*at[:3], at.index + nth, ordinal) for at in self.starts])

    def to_json(self) -> bytes:
        """For the schema of a chunk."""
        return json.dumps([self.starts, self.time, self.is_nil]).encode()

    @classmethod
    def from_json(cls, text: bytes) -> ChunkFacts:
        """What ``to_json`` wrote."""
        starts, time, is_nil = json.loads(text)
        return cls(tuple([Position(*at) for at in starts]), time, is_nil)


def packed(target: int, facts: ChunkFacts, rows: pa.RecordBatch) -> pa.RecordBatch:
    """A chunk as a row for Spark; the columns are those of ``chunk_schema``."""
    arrow = require("pyarrow")
    schema = chunk_schema().with_metadata({_FACTS: facts.to_json()})
    stream = arrow.BufferOutputStream()
    with require("pyarrow.ipc").new_stream(stream, schema) as writer:
        writer.write_batch(rows.cast(schema) if rows.schema != chunk_schema() else rows)
    content = stream.getvalue()
    edges = arrow.array([0, content.size], arrow.int32()).buffers()[1]
    column = arrow.Array.from_buffers(arrow.binary(), 1, [None, edges, content])
    targets = arrow.array([target], arrow.int32())
    batch: pa.RecordBatch = arrow.RecordBatch.from_arrays(
        [targets, column], schema=delivery_schema()
    )
    return batch


def unpacked(batch: pa.RecordBatch) -> Iterator[tuple[int, Piece]]:
    """The chunks of rows that came from Spark, each with its target."""
    ipc = require("pyarrow.ipc")
    targets = batch.column(TARGET).to_pylist()
    for target, content in zip(targets, batch.column(ROWS), strict=True):
        stream = ipc.open_stream(content.as_buffer())
        facts = ChunkFacts.from_json(stream.schema.metadata[_FACTS])
        for rows in stream:
            yield target, Piece(rows, facts)


def messages_in(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The messages in chunks as rows: their hash, what they say, and their time."""
    arrow = require("pyarrow")
    for batch in batches:
        for _, piece in unpacked(batch):
            if not piece.facts.is_nil:
                rows = piece.rows.select([HASH, "key", "value", "headers", "topic"])
                stamp = arrow.scalar(piece.facts.time, arrow.timestamp("us", tz="UTC"))
                yield rows.append_column("time", arrow.repeat(stamp, len(piece)))


@dataclass(frozen=True)
class Piece:
    """A chunk, or some neighbouring rows of one."""

    rows: pa.RecordBatch
    facts: ChunkFacts

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    @cached_property
    def nths(self) -> Any:
        """The number of each row's input in its split."""
        return self.rows.column(NTH).to_numpy()

    @cached_property
    def ordinals(self) -> Any:
        """Which output of its input each row is."""
        return self.rows.column(ORDINAL).to_numpy()

    @property
    def first(self) -> Position:
        """Where the first row stands, in the first of its sources."""
        return self._positions(0)[0]

    @property
    def last(self) -> tuple[Position, ...]:
        """Where the last row stands."""
        return self._positions(-1)

    @property
    def is_ordered(self) -> bool:
        """Whether each row stands behind the one before it."""
        later, same = self.nths[1:] > self.nths[:-1], self.nths[1:] == self.nths[:-1]
        return bool((later | (same & (self.ordinals[1:] > self.ordinals[:-1]))).all())

    def part(self, begin: int, end: int) -> Piece:
        """Some of its rows."""
        if begin == 0 and end >= len(self):
            return self
        return Piece(self.rows.slice(begin, end - begin), self.facts)

    def undelivered(self, waters: HighWaters, floor: SourceOffsets) -> Piece:
        """What a target with these marks does not hold yet.

        A row is held if all its places are before the marks, or all below the floor. Both places
        of a pair move in step: so the mark that comes first decides, and what is held comes first.
        """
        starts = self.facts.starts
        marks = [(at, waters.mark(at.origin)) for at in starts]
        marked = min((mark.index - at.index, mark.ordinal) for at, mark in marks)
        nth, ordinal = max(marked, (min(floor.get(at.origin) - at.index for at in starts), 0))
        held = (self.nths < nth) | ((self.nths == nth) & (self.ordinals < ordinal))
        return self.part(int(held.sum()), len(self))

    def listed(self) -> Iterator[SinkRow]:
        """Its rows, one by one."""
        facts, column = self.facts, self.rows.column
        places = map(facts.positions, self.nths.tolist(), self.ordinals.tolist())
        if facts.is_nil:
            yield from (SinkRow(positions, None, True) for positions in places)
            return
        contents = zip(
            places,
            column("value").to_pylist(),
            column("key").to_pylist(),
            headers_of(column("headers")),
            column("topic").to_pylist(),
            column(HASH).to_pylist(),
            strict=True,
        )
        for positions, value, key, headers, topic, digest in contents:
            yield SinkRow(positions, Content(value, key, headers, topic, facts.time, digest))

    def _positions(self, row: int) -> tuple[Position, ...]:
        return self.facts.positions(int(self.nths[row]), int(self.ordinals[row]))


def rows_of(pieces: Sequence[Piece]) -> SinkRows:
    """All rows of one target, in the order of their positions."""
    ordered = _without_needless_nils(sorted(pieces, key=lambda each: (each.facts.lane, each.first)))
    if all(each.is_ordered for each in ordered) and all(
        one.last < (other.first,)
        for one, other in pairwise(ordered)
        if one.facts.lane == other.facts.lane
    ):
        return ChunkRows(tuple(ordered))
    return ListedRows.of(row for each in ordered for row in each.listed())


def _without_needless_nils(ordered: Iterable[Piece]) -> list[Piece]:
    """Without those that have a row of the same lane behind them: it moves the mark further."""
    kept: list[Piece] = []
    for _, lane in groupby(ordered, key=lambda each: each.facts.lane):
        own = list(lane)
        end = max(each.last[0] for each in own)
        kept += [each for each in own if not each.facts.is_nil or each.last[0] == end]
    return kept


@dataclass(frozen=True)
class ChunkRows:
    """Rows as columns; a ``SinkRows``. Its pieces are in order, and so are their rows."""

    pieces: tuple[Piece, ...] = ()

    @property
    def is_join(self) -> bool:
        """Whether a row has a place in several sources."""
        return any(len(each.facts.starts) > 1 for each in self.pieces)

    def __len__(self) -> int:
        return sum(map(len, self.pieces))

    def undelivered(self, waters: HighWaters, floor: SourceOffsets) -> Self:
        """What a target with these marks does not hold yet."""
        return self._having(each.undelivered(waters, floor) for each in self.pieces)

    def cut(self, size: int) -> tuple[Self, Self]:
        """The first so many, and the rest."""
        first, rest, room = [], [], size
        for each in self.pieces:
            place = min(room, len(each))
            first.append(each.part(0, place))
            rest.append(each.part(place, len(each)))
            room -= place
        return self._having(first), self._having(rest)

    def reached(self) -> Iterable[tuple[Position, ...]]:
        """The last of every piece."""
        return [each.last for each in self.pieces]

    def present(self) -> Sequence[SinkRow]:
        """Those that are not nil."""
        return PresentRows(tuple(each for each in self.pieces if not each.facts.is_nil))

    def _having(self, pieces: Iterable[Piece]) -> Self:
        return type(self)(tuple(each for each in pieces if len(each)))


@dataclass(frozen=True)
class PresentRows(Sequence[SinkRow]):
    """Rows that have something to write: columns for who can use them, values for who asks."""

    pieces: tuple[Piece, ...] = field(repr=False)

    def __len__(self) -> int:
        return sum(map(len, self.pieces))

    @overload
    def __getitem__(self, place: int) -> SinkRow: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[SinkRow]: ...
    def __getitem__(self, place: int | slice) -> SinkRow | Sequence[SinkRow]:
        return self._listed[place]

    def __iter__(self) -> Iterator[SinkRow]:
        return iter(self._listed)

    @cached_property
    def _listed(self) -> list[SinkRow]:
        return [row for each in self.pieces for row in each.listed()]


def headers_of(column: Any) -> Sequence[Headers]:
    """A column of headers as tuples of names and values.

    Made from the flat columns below: a dictionary for every header takes ten times as long.
    """
    flat = column.flatten()
    if not len(flat):
        return [()] * len(column)
    names, values = flat.field(0).to_pylist(), flat.field(1).to_pylist()
    pairs = list(zip(names, values, strict=True))
    found: list[Headers] = []
    begin = 0
    for length in column.value_lengths().to_pylist():
        end = begin + (length or 0)
        found.append(tuple(pairs[begin:end]))
        begin = end
    return found
