"""Rows in columns are the rows they are made of, and a target drops of both the same."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from windrow.graph.high_water import HighWaters, Mark
from windrow.graph.planning import Split
from windrow.graph.positions import Position, SourceOffsets, Span
from windrow.graph.routing import SINGLE_TARGET
from windrow.graph.sink_rows import ListedRows, SinkRow, SinkRows
from windrow.graph.snapshot import ProcessorUid
from windrow.spark.chunks import ChunkRows, Piece, PresentRows, messages_in, rows_of, unpacked
from windrow.spark.query.encoding import Encoded
from windrow.spark.query.rows import DeliveryRows
from windrow.spark.stores import Content
from windrow.spark.targets.journal_records import encode_rows

UID = ProcessorUid("shop", "price")
TIME = 1_700_000_000_000_000
DIGEST = "ab" * 32
encoded = st.builds(
    Encoded,
    value=st.none() | st.binary(max_size=300) | st.just(b"x" * 20_000),
    key=st.none() | st.binary(max_size=200),
    headers=st.lists(
        st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=200)), max_size=3
    ).map(tuple),
    topic=st.none() | st.sampled_from(["", "orders", "bücher"]),
)


def split_at(begin: int, end: int, width: int = 1, partition: int = 0) -> Split:
    """A span of one queue, or of several that are 100 apart."""
    return Split(
        tuple(Span(f"q{n}", "i", partition, begin + 100 * n, end + 100 * n) for n in range(width))
    )


def pieces_of(rows: DeliveryRows) -> list[Piece]:
    return [piece for batch in rows.finish() for _, piece in unpacked(batch)]


def told(rows: SinkRows) -> list[SinkRow]:
    return list(rows.present())


def outputs(split: Split, rng: random.Random, bodies: Sequence[Encoded]) -> list[Piece]:
    """None, one or several outputs of each input of a split."""
    rows = DeliveryRows(split, TIME, 1000)
    for nth in range(len(split)):
        count = rng.choice([0, 1, 1, 2])
        if not count:
            rows.add_nil(0, nth)
        for ordinal in range(count):
            rows.add(0, nth, ordinal, rng.choice([DIGEST, "cd" * 32, ""]), rng.choice(bodies))
    return pieces_of(rows)


@given(st.integers(1, 3), st.lists(encoded, min_size=1, max_size=4), st.randoms())
def test_columns_and_lists_drop_the_same_and_move_marks_alike(
    width: int, bodies: list[Encoded], rng: random.Random
) -> None:
    """Including what lies in several partitions, was cut into several tasks, and came in any
    order.
    """
    edges = sorted(rng.sample(range(20), rng.choice([2, 3])))
    splits = [
        split_at(begin, end, width, partition)
        for partition in range(rng.choice([1, 2]))
        for begin, end in pairwise(edges)
    ]
    pieces = [piece for split in splits for piece in outputs(split, rng, bodies)]
    rng.shuffle(pieces)
    columns = rows_of(pieces)
    assert isinstance(columns, ChunkRows)
    listed = ListedRows.of(row for piece in pieces for row in piece.listed())
    assert told(columns) == told(listed)
    assert columns.is_join == listed.is_join

    origins = [span.origin for split in splits for span in split.spans]
    marks = {
        origin: Mark(rng.randint(0, 20) + 100 * int(origin.source[1]), rng.randint(0, 2))
        for origin in rng.sample(origins, rng.randint(0, len(origins)))
    }
    waters = HighWaters(UID, 0, marks, SINGLE_TARGET)
    floor = SourceOffsets.of(
        {origin: rng.randint(0, 10) + 100 * int(origin.source[1]) for origin in set(origins)}
        if rng.random() < 0.5
        else {}
    )
    kept, expected = columns.undelivered(waters, floor), listed.undelivered(waters, floor)
    assert told(kept) == told(expected)
    size = rng.randint(0, len(kept) + 1)
    first, rest = kept.cut(size)
    assert told(first) + told(rest) == told(expected)
    assert len(first) == min(size, len(kept))
    every = waters.over(expected.reached(), SINGLE_TARGET)
    assert waters.over(kept.reached(), SINGLE_TARGET).marks == every.marks


@given(st.lists(encoded, min_size=1, max_size=6), st.sampled_from([0, 1, 127, 2**40]), st.randoms())
def test_frames_made_of_columns_are_those_made_of_rows(
    bodies: list[Encoded], seq: int, rng: random.Random
) -> None:
    rows = rows_of(outputs(split_at(3, 12), rng, bodies)).present()
    assert isinstance(rows, PresentRows)
    assert encode_rows(rows, "w", seq) == encode_rows(list(rows), "w", seq)


def test_rows_that_are_out_of_order_are_sorted() -> None:
    rows = DeliveryRows(split_at(10, 13), TIME, 1000)
    for nth in (2, 0, 1):
        rows.add(0, nth, 0, DIGEST, Encoded(b"%d" % nth))
    ordered = rows_of(pieces_of(rows))
    assert [row.positions[0].index for row in ordered.present()] == [10, 11, 12]


def test_a_row_says_what_was_given_and_where_it_stands() -> None:
    split = split_at(5, 8, width=2)
    rows = DeliveryRows(split, TIME, 1000)
    rows.add(1, 2, 0, DIGEST, Encoded(b"v", b"k", (("h", None),), "t"))
    rows.add_nil(0, 1)
    found = {target: piece for batch in rows.finish() for target, piece in unpacked(batch)}
    content = Content(b"v", b"k", (("h", None),), "t", TIME, DIGEST)
    places = Position("q0", "i", 0, 7), Position("q1", "i", 0, 107)
    assert list(found[1].listed()) == [SinkRow(places, content)]
    assert list(found[0].listed()) == [SinkRow(split.positions(1), None, True)]


def test_a_chunk_ends_when_it_is_large() -> None:
    """A task holds a chunk as a whole: many long messages must not make one."""
    rows = DeliveryRows(split_at(0, 100), TIME, 1000)

    def is_full_after(nth: int) -> bool:
        rows.add(0, nth, 0, DIGEST, Encoded(b"x" * 1_000_000))
        return rows.is_full

    assert [nth for nth in range(20) if is_full_after(nth)] == [16, 17, 18, 19]


def test_messages_are_taken_out_of_chunks_without_those_that_are_none() -> None:
    rows = DeliveryRows(split_at(0, 3), TIME, 1000)
    rows.add(0, 0, 0, DIGEST, Encoded(b"v", b"k"))
    rows.add_nil(0, 2)
    (batch,) = messages_in(rows.finish())
    assert batch.schema.field("time").type == pa.timestamp("us", tz="UTC")
    (row,) = batch.drop_columns(["time"]).to_pylist()
    assert row == {"_hash": DIGEST, "key": b"k", "value": b"v", "headers": [], "topic": None}
