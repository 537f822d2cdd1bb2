from __future__ import annotations

import pytest

from windrow.verify.sightings import Change, Sightings


def seen(*sights: tuple[int, bytes]) -> Sightings:
    sightings = Sightings()
    for offset, content in sights:
        sightings.saw(offset, content)
    return sightings


def test_what_is_read_again_as_it_was_and_stays_is_no_change() -> None:
    sightings = seen((0, b"abc"), (1, b"bcdef"), (6, b""), (2, b"c"))
    assert (sightings.end, bytes(sightings.seen)) == (6, b"abcdef")
    sightings.close(b"abcdefgh")
    assert sightings.changes == []


def test_bytes_that_are_others_when_read_again_are_told() -> None:
    assert seen((0, b"abcdef"), (2, b"cXef")).changes == [Change(3, "read again, it had changed")]


def test_bytes_that_are_others_in_the_end_are_told() -> None:
    sightings = seen((0, b"abcdef"))
    sightings.close(b"abcXefgh")
    assert sightings.changes == [Change(3, "it is different in the end")]


def test_bytes_that_are_gone_in_the_end_are_told() -> None:
    sightings = seen((0, b"abcdef"))
    sightings.close(b"abcd")
    assert sightings.changes == [Change(4, "gone, though seen up to 6")]


def test_a_reader_that_leaves_a_gap_proves_nothing() -> None:
    with pytest.raises(AssertionError, match="read at 4, and nobody saw what is behind 3"):
        seen((0, b"abc"), (4, b"e"))
