"""How is a whole result staged, and how does a destination take its part?

A staged result is one record: each message that a function gave is a header of it. The name says
whose it is, ``output/<queue>`` or ``error``; the value is the message as a record of its own, with
its delivery hash in the place of an id. Both ways are gone for many results at once, in columns,
so what is fanned out are the bytes that were staged, and nobody looks into them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from windrow.extras import require
from windrow.graph.planning import Split
from windrow.graph.positions import Position
from windrow.graph.snapshot import ProcessorUid
from windrow.graph.staging import Destination, Failure, Outputs
from windrow.spark.chunks import ChunkFacts, packed
from windrow.spark.columns import INDEX, chunk_schema
from windrow.spark.query.encoding import Encoded
from windrow.spark.query.errors import StagedOtherwise
from windrow.spark.query.hashing import SplitHasher
from windrow.spark.query.rows import (
    CHUNK_BYTES,
    Head,
    chunk_of,
    header_array,
    header_lists,
    name_array,
    nil_chunks,
    text_array,
)

if TYPE_CHECKING:
    import pyarrow as pa

Route = Callable[[bytes | None, Position], int]
Made = tuple[str, str, Encoded]
"""A message of a result: whose it is, its delivery hash, what it says."""

_ERROR: Final = "error"


def part_name(destination: Destination) -> str:
    """By which name a destination finds its messages."""
    return _ERROR if destination.role == "error" else f"output/{destination.queue}"


def messages_of(
    result: Outputs | Failure, digest: str, hash_of: Callable[[int], str]
) -> list[Made]:
    """The messages of a result; ``hash_of`` gives the hash of the nth output of a queue."""
    if isinstance(result, Failure):
        return [(_ERROR, digest, result.error)]
    return [
        (f"output/{queue}", hash_of(ordinal) if ordinal else digest, body)
        for queue, listed in result.by_queue.items()
        for ordinal, body in enumerate(listed)
    ]


def bodies_of(made: Sequence[Made]) -> pa.Array:
    """Messages as values of headers."""
    from windrow.spark.queues.frame_columns import encode_bodies

    _, digests, bodies = zip(*made, strict=True)
    value, key, headers, topic = zip(*bodies, strict=True)
    return encode_bodies(
        digests, text_array(key), text_array(value), header_array(headers), name_array(topic)
    )


class StagedRows:
    """Gathers the results of one split and gives them as chunks for the staging queue.

    Args:
        uid: Of the processor.
        split: What they are made from.
        time: Of every row, in microseconds since 1970.
        size: How many rows make a chunk.
    """

    def __init__(self, uid: ProcessorUid, split: Split, time: int, size: int) -> None:
        self._hash = SplitHasher(uid, split).hash
        self._split, self._time, self._size = split, time, size
        self._clear()

    def _clear(self) -> None:
        self._by_target: defaultdict[int, _Gathered] = defaultdict(_Gathered)
        self._room = self._size
        self._bytes = CHUNK_BYTES

    @property
    def is_full(self) -> bool:
        """Whether chunks can be taken."""
        return self._room <= 0 or self._bytes <= 0

    def add(
        self, target: int, nth: int, digest: str, key: bytes | None, result: Outputs | Failure
    ) -> None:
        """The result of the nth input; it goes where its key does."""
        gathered = self._by_target[target]
        made = messages_of(result, digest, partial(self._hash, nth))
        gathered.heads.append((nth, 0, digest))
        gathered.keys.append(key)
        gathered.made += made
        gathered.offsets.append(len(gathered.made))
        self._room -= 1
        for _, _, body in made:
            if body.value is not None:
                self._bytes -= len(body.value)

    def take(self) -> Iterator[pa.RecordBatch]:
        """What was gathered since the last time, a chunk for each target."""
        by_target = self._by_target
        self._clear()
        facts = ChunkFacts.of(self._split, self._time)
        for target, gathered in by_target.items():
            yield packed(target, facts, gathered.chunk())

    def finish(self) -> Iterator[pa.RecordBatch]:
        """The rest."""
        yield from self.take()


class _Gathered:
    """Results for one target."""

    def __init__(self) -> None:
        self.heads: list[Head] = []
        self.keys: list[bytes | None] = []
        self.made: list[Made] = []
        self.offsets = [0]

    def chunk(self) -> pa.RecordBatch:
        none = [None] * len(self.heads)
        if self.made:
            names = name_array([name for name, _, _ in self.made])
            headers = header_lists(self.offsets, names, bodies_of(self.made))
        else:
            headers = header_array([()] * len(self.heads))
        content = text_array(self.keys), text_array(none), headers, name_array(none)
        return chunk_of(self.heads, content)


class FanOut:
    """Takes the part of one destination from staged results.

    Args:
        destination: Whose part.
        split: What is read of the staging queue.
        time: Of every row, in microseconds since 1970.
        route: Where rows go; ``None`` if there is but one target.
    """

    def __init__(
        self, destination: Destination, split: Split, time: int, route: Route | None
    ) -> None:
        self._name = part_name(destination)
        self._split, self._time, self._route = split, time, route
        self._span = split.spans[0]
        self._facts = ChunkFacts.of(split, time)
        self._nils: dict[int, int] = {}

    def take(self, staged: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """What the destination gets of these results, a chunk for each target.

        Raises:
            StagedOtherwise: One of them is not in headers, so that nothing would be found in it.
        """
        import numpy as np

        arrow = require("pyarrow")
        self._check_form(staged)
        headers = staged.column("headers")
        flat = headers.flatten()
        counts = headers.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
        wanted = require("pyarrow.compute").equal(flat.field(0), self._name)
        places = np.flatnonzero(wanted.to_numpy(zero_copy_only=False))
        rows = np.repeat(np.arange(len(counts)), counts)[places]
        self._note_nils(staged, np.setdiff1d(np.arange(len(counts)), rows).tolist())
        if not len(places):
            return
        # How far each is behind the first of its row: the place among the destination's own.
        is_first = np.r_[True, rows[1:] != rows[:-1]]
        ordinals = np.arange(len(rows)) - np.flatnonzero(is_first)[np.cumsum(is_first) - 1]
        nths = staged.column(INDEX).to_numpy()[rows] - self._span.start
        batch = self._chunk(nths, ordinals, flat.field(1).take(arrow.array(places)))
        yield from self._by_target(batch)

    def _check_form(self, staged: pa.RecordBatch) -> None:
        values = staged.column("value")
        if values.null_count < len(values):
            first = next(row for row, value in enumerate(values) if value.is_valid)
            raise StagedOtherwise(self._span.source, staged.column(INDEX)[first].as_py())

    def finish(self) -> Iterator[pa.RecordBatch]:
        """The results that had nothing for the destination."""
        yield from nil_chunks(self._split, self._time, self._nils)

    def _chunk(self, nths: object, ordinals: object, bodies: pa.Array) -> pa.RecordBatch:
        from windrow.spark.queues.frame_columns import hex_texts
        from windrow.spark.queues.frames import decode_bodies

        arrow = require("pyarrow")
        digests, (key, value, headers, topic, _) = decode_bodies(bodies)
        heads = arrow.array(nths), arrow.array(ordinals, arrow.int32()), hex_texts(digests)
        columns = [*heads, key, value, headers, topic]
        batch: pa.RecordBatch = arrow.RecordBatch.from_arrays(columns, schema=chunk_schema())
        return batch

    def _by_target(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        if self._route is None:
            yield packed(0, self._facts, batch)
            return
        arrow = require("pyarrow")
        rows: defaultdict[int, list[int]] = defaultdict(list)
        heads = zip(
            batch.column("key").to_pylist(),
            batch.column("_nth").to_pylist(),
            batch.column("_ordinal").to_pylist(),
            strict=True,
        )
        for row, (key, nth, ordinal) in enumerate(heads):
            at = self._facts.positions(nth, ordinal)[0]
            rows[self._route(key, at)].append(row)
        for target, own in rows.items():
            yield packed(target, self._facts, batch.take(arrow.array(own)))

    def _note_nils(self, staged: pa.RecordBatch, rows: Sequence[int]) -> None:
        """Remember the last result of each target that has nothing for the destination."""
        if not len(rows):
            return
        indices = staged.column(INDEX)
        if self._route is None:
            self._nils[0] = indices[rows[-1]].as_py() - self._span.start
            return
        keys = staged.column("key")
        for row in rows:
            nth = indices[row].as_py() - self._span.start
            at = self._facts.positions(nth, 0)[0]
            self._nils[self._route(keys[row].as_py(), at)] = nth
