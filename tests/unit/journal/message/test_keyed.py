"""Records in a stream, each behind its key."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windrow.journal.message.framing import fixed_frame
from windrow.journal.message.keyed import InvalidInput, KeyedInput, KeyedRecord


def test_a_line_belongs_to_its_record_with_its_break_and_to_its_key_without() -> None:
    keyed = KeyedInput("lines", has_keys=True)
    assert keyed.feed(b"key-1\r\nrecord 1\nkey-2\nreco") == [KeyedRecord(b"key-1", b"record 1\n")]
    assert keyed.feed(b"rd 2\n") == [KeyedRecord(b"key-2", b"record 2\n")]
    assert keyed.finish() == []


def test_a_last_line_needs_no_break() -> None:
    plain = KeyedInput("lines", has_keys=False)
    assert plain.feed(b"a\nb") == [KeyedRecord(b"", b"a\n")]
    assert plain.finish() == [KeyedRecord(b"", b"b\n")]


def test_keys_before_lines_may_be_base64() -> None:
    keyed = KeyedInput("lines", has_keys=True, is_base64=True)
    [record] = keyed.feed(base64.b64encode(b"\x00\n\xff") + b"\nrecord\n")
    assert record.key == b"\x00\n\xff"
    with pytest.raises(InvalidInput, match="at byte 12: the key is not base64"):
        keyed.feed(b"not base64!\nrecord\n")


def test_input_that_ends_too_early_or_is_framed_otherwise_names_the_byte() -> None:
    keyed = KeyedInput("lines", has_keys=True)
    keyed.feed(b"key\n")
    with pytest.raises(InvalidInput, match="at byte 4: it ends with a key"):
        keyed.finish()
    torn = KeyedInput("fixed", has_keys=False)
    torn.feed(fixed_frame(b"whole") + fixed_frame(b"torn")[:-1])
    with pytest.raises(InvalidInput, match="at byte 13: a frame is cut off after 11 bytes"):
        torn.finish()
    with pytest.raises(InvalidInput, match="at byte 0: no frame begins here"):
        KeyedInput("fixed", has_keys=False).feed(b"just some lines\n")


@given(st.lists(st.tuples(st.binary(max_size=20), st.binary(max_size=40))), st.integers(1, 7))
def test_pieces_of_any_size_give_the_same_records(
    records: list[tuple[bytes, bytes]], size: int
) -> None:
    stream = b"".join(fixed_frame(key) + fixed_frame(record) for key, record in records)
    keyed = KeyedInput("fixed", has_keys=True)
    found = []
    for at in range(0, len(stream), size):
        found += keyed.feed(stream[at : at + size])
    found += keyed.finish()
    assert found == [KeyedRecord(key, fixed_frame(record)) for key, record in records]
