"""Records to columns: the quick way and the long way see the same, whatever the bytes."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windrow.journal.message.errors import InvalidRecord
from windrow.journal.message.framing import MAGIC, fixed_frame
from windrow.journal.message.record import Control, Record, encode_control, encode_records
from windrow.journal.wire import record_pb2
from windrow.spark.queues import frames
from windrow.spark.queues.frames import CONTENT_COLUMNS, Block, decode_block
from windrow.spark.queues.landmarks import Landmark, Landmarks

values = st.none() | st.binary(max_size=300) | st.just(b"x" * 20_000)
headers = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3)
records = st.builds(
    Record,
    uuid=st.just(b"") | st.binary(min_size=16, max_size=16),
    key=st.none() | st.binary(max_size=20),
    headers=headers.map(tuple),
    value=values,
    topic=st.sampled_from(["", "orders", "bücher"]),
    time=st.integers(-(2**55), 2**55),
)


def batch(seq: int, some: list[Record]) -> bytes:
    return encode_control(Control("w", f"b{seq}", "", len(some), seq)) + encode_records(some, seq)


def told(block: Block) -> list[tuple[object, ...]]:
    for column in block.columns():
        column.validate(full=True)
    columns = [column.to_pylist() for column in block.columns()]
    return list(zip(block.seqs.tolist(), block.begins.tolist(), *columns, strict=True))


@given(st.lists(st.lists(records, max_size=5), max_size=4), st.integers(0, 2**40), st.randoms())
def test_both_ways_see_the_same_wherever_the_content_ends(
    batches: list[list[Record]], offset: int, rng: random.Random
) -> None:
    content, seq = b"", rng.choice([0, 7, 2**40])
    for some in batches:
        content += batch(seq, some)
        seq += len(some)
    cut = rng.randint(0, len(content))
    for piece in (content, content[:cut]):
        quick, long = decode_block(piece, offset), frames._decode_one_by_one(piece, offset)
        assert told(quick) == told(long)
        assert quick.end == long.end


def test_fields_are_those_that_were_written() -> None:
    record = Record(b"u" * 16, 0, b"k", (("a", b"1"), ("b", None)), b"v", "t", 1_000_001)
    block = decode_block(batch(5, [record, Record(time=2)]), 100)
    columns = (column.to_pylist() for column in block.columns())
    fields = dict(zip(CONTENT_COLUMNS, columns, strict=True))
    assert block.seqs.tolist() == [5, 6]
    assert fields["key"] == [b"k", None]
    assert fields["value"] == [b"v", None]
    named = [{"name": "a", "value": b"1"}, {"name": "b", "value": None}]
    assert fields["headers"] == [named, []]
    assert fields["topic"] == ["t", None]
    assert fields["time"][0].microsecond == 1
    assert block.begins[0] > 100


def test_quick_way_is_taken_for_what_our_writers_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or all that speed would be lost without anyone noticing."""
    monkeypatch.setattr(frames, "_decode_one_by_one", None)
    some = [Record(b"u" * 16, 0, b"k", (("a", b"1"),), b"v" * 200, "t", n) for n in range(50)]
    block = decode_block(batch(0, some) + batch(50, some), 0)
    assert len(block) == len(block.columns()[0]) == 100


def test_message_that_holds_the_begin_of_a_frame_is_one_message() -> None:
    inner = batch(3, [Record(value=b"inner")])
    some = [Record(value=MAGIC), Record(value=inner), Record(value=b"last")]
    block = decode_block(batch(0, some), 0)
    assert block.columns()[1].to_pylist() == [MAGIC, inner, b"last"]


def test_fields_in_another_order_and_unknown_ones_are_read() -> None:
    built = record_pb2.Record(seq=4, value=b"v", topic="t")
    body = built.SerializeToString()
    value, rest = body[2:5], body[:2] + body[5:]
    unknown = bytes([20 << 3 & 0x7F | 0x80, 1]) + b"\x05"
    frame = fixed_frame(value + rest + unknown)
    block = decode_block(batch(3, [Record(value=b"a")]) + frame, 0)
    assert block.seqs.tolist() == [3, 4]
    assert block.columns()[1].to_pylist() == [b"a", b"v"]


def test_frame_without_a_record_is_named_with_its_place() -> None:
    with pytest.raises(InvalidRecord):
        decode_block(fixed_frame(b"\xff\xff\xff"), 0)


# -- landmarks ---------------------------------------------------------------------------------


def test_record_is_looked_for_between_the_nearest_landmarks() -> None:
    known = Landmarks()
    for seq, offset in ((100, 10_000), (0, 0), (50, 5_000), (50, 5_000)):
        known.add(seq, offset)
    assert known.before(49) == Landmark(0, 0)
    assert known.before(50) == Landmark(50, 5_000)
    assert known.behind(50) == Landmark(100, 10_000)
    assert known.behind(100) is None
    assert known.at_offset(5_000) == Landmark(50, 5_000)
    assert known.at_offset(5_001) is None
    known.trim(Landmark(60, 6_000))
    assert known.before(59) is None
    assert known.before(99) == Landmark(60, 6_000)


def test_many_landmarks_are_thinned_out_and_still_lead_to_every_record() -> None:
    known = Landmarks()
    for seq in range(20_000):
        known.add(seq, seq * 10)
    assert len(known) <= 4096
    before, behind = known.before(12_345), known.behind(12_345)
    assert before is not None
    assert behind is not None
    assert before.seq <= 12_345 < behind.seq
    assert behind.seq - before.seq < 100
