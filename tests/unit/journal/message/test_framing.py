from __future__ import annotations

import struct
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windrow.journal.message.errors import InvalidMessage, TornFrame, UnknownContentType
from windrow.journal.message.framing import (
    CSV,
    FIXED,
    MAGIC,
    MAX_LENGTH,
    NDJSON,
    FixedUnframer,
    Frame,
    Framing,
    Skipped,
    Unframer,
    csv_fields,
    csv_message,
    framing_of,
    json_message,
)


def fed_in_pieces(unframer: Unframer, content: bytes, cuts: list[int]) -> list[Frame]:
    edges = sorted({0, len(content), *(cut % (len(content) + 1) for cut in cuts)})
    frames: list[Frame] = []
    for begin, end in pairwise(edges):
        frames += unframer.feed(content[begin:end])
    return frames


def test_a_fixed_frame_is_the_magic_word_the_length_and_the_message() -> None:
    assert FIXED.frame(b"hello") == bytes.fromhex("66339336 05000000") + b"hello"


@given(messages=st.lists(st.binary(max_size=40)), cuts=st.lists(st.integers(0, 1000)))
def test_fixed_frames_come_back_however_the_content_is_cut(
    messages: list[bytes], cuts: list[int]
) -> None:
    unframer = FixedUnframer(offset=1000)
    content = b"".join(map(FIXED.frame, messages))
    frames = fed_in_pieces(unframer, content, cuts)
    assert [frame.payload for frame in frames] == messages
    assert unframer.skipped == []
    assert unframer.offset == 1000 + len(content)
    at = 1000
    for frame in frames:
        assert frame.begin == at
        at = frame.end


@given(
    junk=st.binary(min_size=1, max_size=60).filter(lambda junk: MAGIC not in junk + MAGIC[:3]),
    messages=st.lists(st.binary(max_size=20), min_size=1),
    cuts=st.lists(st.integers(0, 1000)),
)
def test_a_reader_that_lands_in_junk_finds_the_next_frame_and_tells_what_it_skipped(
    junk: bytes, messages: list[bytes], cuts: list[int]
) -> None:
    unframer = FixedUnframer()
    content = junk + b"".join(map(FIXED.frame, messages))
    frames = fed_in_pieces(unframer, content, cuts)
    assert [frame.payload for frame in frames] == messages
    assert unframer.skipped == [Skipped(0, len(junk))]


def test_junk_between_two_frames_costs_neither_of_them() -> None:
    unframer = FixedUnframer()
    frames = unframer.feed(FIXED.frame(b"one") + b"f3" + MAGIC[:2] + FIXED.frame(b"two"))
    assert [frame.payload for frame in frames] == [b"one", b"two"]
    assert unframer.skipped == [Skipped(11, 15)]


def test_a_length_nobody_would_write_is_taken_for_damage() -> None:
    damaged = MAGIC + struct.pack("<I", MAX_LENGTH + 1)
    unframer = FixedUnframer()
    assert [f.payload for f in unframer.feed(damaged + FIXED.frame(b"ok"))] == [b"ok"]
    assert unframer.skipped == [Skipped(0, 8)]


@pytest.mark.parametrize("framing", [FIXED, NDJSON, CSV])
def test_content_that_ends_inside_a_frame_is_torn(framing: Framing) -> None:
    content = framing.frame(b"first") + framing.frame(b"second")
    with pytest.raises(TornFrame, match="is cut off at"):
        framing.unframe(content[:-1])


def test_a_jump_gives_up_the_frame_that_was_begun() -> None:
    unframer = FixedUnframer()
    assert unframer.feed(FIXED.frame(b"lost")[:9]) == []
    unframer.jump(100)
    assert unframer.feed(FIXED.frame(b"kept")) == [Frame(b"kept", 100, 112)]
    assert unframer.skipped == [Skipped(0, 9)]


@given(
    values=st.lists(st.dictionaries(st.text(), st.text() | st.integers())),
    cuts=st.lists(st.integers(0, 1000)),
)
def test_json_values_come_back_line_by_line(
    values: list[dict[str, object]], cuts: list[int]
) -> None:
    lines = [json_message(value) for value in values]
    content = b"".join(map(NDJSON.frame, lines))
    frames = fed_in_pieces(NDJSON.unframer(), content, cuts)
    assert [frame.payload for frame in frames] == lines


def test_a_line_break_inside_a_line_is_refused() -> None:
    with pytest.raises(InvalidMessage, match="line break"):
        NDJSON.frame(b'{"a":\n1}')


@given(
    rows=st.lists(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1)),
    cuts=st.lists(st.integers(0, 1000)),
)
def test_csv_rows_come_back_with_quotes_and_line_breaks_inside(
    rows: list[list[str]], cuts: list[int]
) -> None:
    content = b"".join(CSV.frame(csv_message(row)) for row in rows)
    frames = fed_in_pieces(CSV.unframer(), content, cuts)
    assert [list(csv_fields(frame.payload)) for frame in frames] == rows


@pytest.mark.parametrize("row", [b'a,"b', b"a\nb", b'"a"\n"b"'])
def test_a_row_that_would_become_two_is_refused(row: bytes) -> None:
    with pytest.raises(InvalidMessage):
        CSV.frame(row)


@pytest.mark.parametrize(
    ("content_type", "framing"),
    [
        ("application/x-protobuf-fixed", FIXED),
        ("application/x-ndjson", NDJSON),
        ("Text/CSV; charset=utf-8", CSV),
    ],
)
def test_the_content_type_chooses_the_framing(content_type: str, framing: Framing) -> None:
    assert framing_of(content_type) is framing


def test_an_unknown_content_type_names_the_known_ones() -> None:
    with pytest.raises(UnknownContentType, match="application/x-ndjson"):
        framing_of("image/png")
