"""The rows between a source and a sink of a graph: gathered by target, and given as chunks.

A row that has no output moves a mark and nothing else, and marks move over all that lies before
them: so of all such rows of one part, the last one for each target is enough.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from windrow.extras import require
from windrow.graph.messages import Headers
from windrow.graph.planning import Split
from windrow.graph.positions import Position
from windrow.spark.chunks import ChunkFacts, packed
from windrow.spark.columns import chunk_schema, message_schema
from windrow.spark.query.encoding import Encoded, Raw

if TYPE_CHECKING:
    import pyarrow as pa

CHUNK_BYTES: Final = 16 * 1024 * 1024
"""Of keys and values, about: a chunk is in memory as a whole, wherever it comes by."""

Head = tuple[int, int, str]
"""Number of the input, ordinal, delivery hash."""


class DeliveryRows:
    """Gathers the rows of one split and gives them as chunks.

    Args:
        split: What the rows are made from.
        time: Of every row, in microseconds since 1970: that of the snapshot.
        size: How many rows make a chunk.
    """

    def __init__(self, split: Split, time: int, size: int) -> None:
        self._split, self._time, self._size = split, time, size
        self._nils: dict[int, int] = {}
        self._clear()

    def _clear(self) -> None:
        self._heads: defaultdict[int, list[Head]] = defaultdict(list)
        self._bodies: defaultdict[int, list[Encoded]] = defaultdict(list)
        self._room = self._size
        self._bytes = CHUNK_BYTES

    @property
    def is_full(self) -> bool:
        """Whether chunks can be taken."""
        return self._room <= 0 or self._bytes <= 0

    def add(self, target: int, nth: int, ordinal: int, digest: str, body: Encoded) -> None:
        """A row with something to write, made from the nth input."""
        self._heads[target].append((nth, ordinal, digest))
        self._bodies[target].append(body)
        self._room -= 1
        if body.value is not None:
            self._bytes -= len(body.value)

    def add_nil(self, target: int, nth: int) -> None:
        """An input without output."""
        self._nils[target] = nth

    def take(self) -> Iterator[pa.RecordBatch]:
        """What was gathered since the last time, a chunk for each target."""
        heads, bodies = self._heads, self._bodies
        self._clear()
        facts = ChunkFacts.of(self._split, self._time)
        for target, own in heads.items():
            value, key, headers, topic = zip(*bodies[target], strict=True)
            content = text_array(key), text_array(value), header_array(headers), name_array(topic)
            yield packed(target, facts, chunk_of(own, content))

    def finish(self) -> Iterator[pa.RecordBatch]:
        """The rest, and the rows without output."""
        yield from self.take()
        yield from nil_chunks(self._split, self._time, self._nils)


def chunk_of(heads: Sequence[Head], content: Sequence[pa.Array]) -> pa.RecordBatch:
    """Rows in the columns of a chunk; the content is key, value, headers and topic."""
    arrow = require("pyarrow")
    schema = chunk_schema()
    arrays = [
        arrow.array(column, kind.type)
        for column, kind in zip(zip(*heads, strict=True), schema, strict=False)
    ]
    batch: pa.RecordBatch = arrow.RecordBatch.from_arrays([*arrays, *content], schema=schema)
    return batch


def nil_chunks(split: Split, time: int, nils: Mapping[int, int]) -> Iterator[pa.RecordBatch]:
    """Inputs without output: the number of the last one, by target."""
    facts = ChunkFacts.of(split, time, is_nil=True)
    for target, nth in nils.items():
        content = text_array([None]), text_array([None]), header_array([()]), name_array([None])
        yield packed(target, facts, chunk_of([(nth, 0, "")], content))


def text_array(texts: Sequence[bytes | None]) -> Any:
    """A column of keys or values."""
    arrow = require("pyarrow")
    return arrow.array(texts, arrow.binary())


def name_array(names: Sequence[str | None]) -> Any:
    """A column of topics."""
    arrow = require("pyarrow")
    return arrow.array(names, arrow.string())


def header_array(headers: Sequence[Headers]) -> Any:
    """A column of headers."""
    arrow = require("pyarrow")
    kind = chunk_schema().field("headers").type
    if not any(headers):
        zeros = arrow.array([0] * (len(headers) + 1), arrow.int32())
        return arrow.ListArray.from_arrays(zeros, arrow.array([], kind.value_type), kind)
    offsets = [0]
    flat: list[tuple[str, bytes | None]] = []
    for each in headers:
        flat += each
        offsets.append(len(flat))
    names, values = zip(*flat, strict=True)
    return header_lists(offsets, name_array(names), text_array(values))


def header_lists(offsets: Sequence[int], names: Any, values: Any) -> Any:
    """A column of headers from all names and all values, and where those of each row begin."""
    arrow = require("pyarrow")
    kind = chunk_schema().field("headers").type
    struct = arrow.StructArray.from_arrays([names, values], fields=list(kind.value_type))
    return arrow.ListArray.from_arrays(arrow.array(offsets, arrow.int32()), struct, kind)


def message_batches(
    inputs: Sequence[Mapping[str, Raw]], first: Sequence[Position]
) -> dict[str, pa.RecordBatch]:
    """Messages as they were read, by queue, in the columns of a source."""
    arrow = require("pyarrow")
    schema = message_schema()
    batches = {}
    for at in first:
        raws = [each[at.source] for each in inputs]
        index, key, value, headers, topic, times = zip(*raws, strict=True)
        stamps = arrow.array(times, arrow.int64()).cast(schema.field("time").type)
        plain = {
            "_source": [at.source] * len(raws),
            "_incarnation": [at.incarnation] * len(raws),
            "_partition": [at.partition] * len(raws),
            "_index": index,
            "key": key,
            "value": value,
            "topic": topic,
        }
        arrays = {
            name: arrow.array(column, schema.field(name).type) for name, column in plain.items()
        }
        arrays |= {"headers": header_array(headers), "time": stamps}
        batches[at.source] = arrow.RecordBatch.from_arrays(
            [arrays[field.name] for field in schema], schema=schema
        )
    return batches
