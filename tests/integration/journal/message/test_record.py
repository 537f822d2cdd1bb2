from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windrow.journal.message.errors import InvalidRecord, TornFrame
from windrow.journal.message.framing import FIXED, FixedUnframer, Frame
from windrow.journal.message.record import (
    Control,
    Record,
    decode_frame,
    decode_records,
    encode_control,
    encode_record,
    encode_records,
    unframe_records,
)
from windrow.journal.wire import record_pb2

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
INT64 = st.integers(-(2**63), 2**63 - 1)
MAYBE = st.none() | st.binary(max_size=50)
RECORDS = st.builds(
    Record,
    uuid=st.binary(max_size=16),
    seq=INT64,
    key=MAYBE,
    headers=st.lists(st.tuples(TEXT, MAYBE), max_size=3).map(tuple),
    value=MAYBE,
    topic=TEXT,
    time=INT64,
)
CONTROLS = st.builds(
    Control, writer=TEXT, batch=TEXT, previous=TEXT, count=INT64, seq=INT64, owner=TEXT
)


@given(st.lists(RECORDS | CONTROLS))
def test_records_come_back_and_control_frames_are_skipped(written: list[Record | Control]) -> None:
    """A tombstone is not an empty value, nor is a key that is absent an empty one."""
    content = b"".join(
        encode_record(each) if isinstance(each, Record) else encode_control(each)
        for each in written
    )
    assert decode_records(content) == [each for each in written if isinstance(each, Record)]
    frames = FIXED.unframe(content)
    assert [decode_frame(frame) for frame in frames] == written


def test_a_record_on_the_wire_is_the_message_of_the_proto_file() -> None:
    content = encode_record(
        Record(b"u" * 16, 7, b"k", (("h", b"v"), ("none", None)), b"value", "orders", 1_700)
    )
    message = record_pb2.Record.FromString(content[8:])
    assert (message.uuid, message.seq, message.key, message.value) == (b"u" * 16, 7, b"k", b"value")
    assert (message.topic, message.time) == ("orders", 1_700)
    assert [(h.name, h.HasField("value")) for h in message.headers] == [
        ("h", True),
        ("none", False),
    ]
    assert not message.HasField("control")


def test_records_can_be_numbered_as_they_are_written() -> None:
    given_records = [Record(value=b"a", seq=99), Record(value=b"b")]
    assert [r.seq for r in decode_records(encode_records(given_records, 5))] == [5, 6]
    assert [r.seq for r in decode_records(encode_records(given_records))] == [99, 0]
    assert given_records[0].seq == 99


def test_records_keep_their_offsets_over_pieces_of_content() -> None:
    content = encode_records([Record(value=b"a"), Record(value=b"b")])
    unframer = FixedUnframer(offset=1000)
    found = [
        pair
        for at in range(len(content))
        for pair in unframe_records(unframer, content[at : at + 1])
    ]
    assert [(frame.begin, record.value) for frame, record in found] == [
        (1000, b"a"),
        (1000 + len(content) // 2, b"b"),
    ]


def test_a_frame_that_holds_no_record_says_where_it_is() -> None:
    with pytest.raises(InvalidRecord, match=r"\[10, 20\)"):
        decode_frame(Frame(b"\xff\xff\xff", 10, 20))


def test_content_that_ends_inside_a_record_is_torn() -> None:
    with pytest.raises(TornFrame):
        decode_records(encode_record(Record(value=b"x"))[:-1])


def test_the_text_of_a_record_shows_no_customer_data() -> None:
    assert "secret" not in repr(Record(value=b"secret", headers=(("token", b"secret"),)))
