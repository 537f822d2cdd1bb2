"""What the bytes of a connection look like."""

from __future__ import annotations

import pytest

from windrow.journal.frames.format import (
    BrokenFrames,
    Ending,
    FrameReader,
    Kind,
    Opening,
    frame,
)


@pytest.mark.parametrize("size", [1, 2, 5, 6, 7, 100_000])
def test_frames_are_found_however_they_are_cut(size: int) -> None:
    payloads = [b"", b"x", b"y" * 70_000]
    sent = b"".join(frame(Kind.MESSAGE, payload) for payload in payloads)
    reader = FrameReader(limit=70_000)
    found = [one for at in range(0, len(sent), size) for one in reader.feed(sent[at : at + size])]
    assert found == [(Kind.MESSAGE, payload) for payload in payloads]


def test_a_frame_that_is_too_large_is_refused_before_it_is_here() -> None:
    """Otherwise whoever announces a large one takes our memory."""
    head = frame(Kind.MESSAGE, bytes(11))[:5]
    with pytest.raises(BrokenFrames, match="11 bytes; at most 10"):
        FrameReader(limit=10).feed(head)


def test_an_opening_is_read_back() -> None:
    opening = Opening("Append", (("authorization", "Bearer ä"),))
    assert Opening.decode(opening.encode()) == opening


@pytest.mark.parametrize(
    "ending", [Ending(), Ending("UNAVAILABLE", "gone", (("windrow-not-written", "passing"),))]
)
def test_an_end_is_read_back(ending: Ending) -> None:
    assert Ending.decode(ending.encode()) == ending


@pytest.mark.parametrize("payload", [b"\xff", b"7", b"[1]", b'["a", [1]]'])
def test_what_is_no_opening_is_refused(payload: bytes) -> None:
    with pytest.raises(BrokenFrames):
        Opening.decode(payload)


@pytest.mark.parametrize("payload", [b"\xff", b"7", b'["a", "b", 3]'])
def test_what_is_no_end_is_refused(payload: bytes) -> None:
    with pytest.raises(BrokenFrames):
        Ending.decode(payload)
