"""Cover sets: what is kept, what is replaced, and what is found."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windrow.journal.fragment import Fragment
from windrow.journal.fragments.cover_set import CoverSet, Entry

Span = tuple[int, int]
FIXTURE: list[Span] = [(100, 150), (149, 201), (200, 250), (250, 300), (301, 400)]


def entry(span: Span) -> Entry:
    return Entry(Fragment("a/journal", *span))


def cover(spans: list[Span]) -> CoverSet:
    return CoverSet(map(entry, spans))


def spans(found: CoverSet) -> list[Span]:
    return [(e.fragment.begin, e.fragment.end) for e in found]


@pytest.mark.parametrize(
    ("added", "expected"),
    [
        pytest.param((50, 80), [(50, 80), *FIXTURE], id="before all"),
        pytest.param((50, 100), [(50, 100), *FIXTURE], id="before all, touching"),
        pytest.param((50, 120), [(50, 120), *FIXTURE], id="before all, overlapping"),
        pytest.param((450, 500), [*FIXTURE, (450, 500)], id="behind all"),
        pytest.param((400, 500), [*FIXTURE, (400, 500)], id="behind all, touching"),
        pytest.param((350, 500), [*FIXTURE, (350, 500)], id="behind all, overlapping"),
        pytest.param((300, 301), [*FIXTURE[:4], (300, 301), FIXTURE[4]], id="fills a gap"),
        pytest.param((260, 350), [*FIXTURE[:4], (260, 350), FIXTURE[4]], id="bridges a gap"),
        pytest.param((301, 450), [*FIXTURE[:4], (301, 450)], id="extends the last"),
        pytest.param((90, 150), [(90, 150), *FIXTURE[1:]], id="extends the first backward"),
        pytest.param((140, 210), [FIXTURE[0], (140, 210), *FIXTURE[2:]], id="replaces one"),
        pytest.param((149, 300), [FIXTURE[0], (149, 300), FIXTURE[4]], id="replaces several"),
        pytest.param((0, 1_000), [(0, 1_000)], id="replaces all"),
    ],
)
def test_fragment_is_added_and_those_inside_it_are_dropped(
    added: Span, expected: list[Span]
) -> None:
    found = cover(FIXTURE)
    assert found.add(entry(added))
    assert spans(found) == expected


@pytest.mark.parametrize("added", [(100, 150), (110, 140), (301, 399), (10, 10)])
def test_fragment_inside_another_or_empty_is_not_added(added: Span) -> None:
    found = cover(FIXTURE)
    assert not found.add(entry(added))
    assert spans(found) == FIXTURE


def test_first_fragment_is_added_to_an_empty_set() -> None:
    found = CoverSet()
    assert (found.begin_offset, found.end_offset) == (0, 0)
    assert found.add(entry((5, 9)))
    assert (found.begin_offset, found.end_offset) == (5, 9)


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        (0, (0, False)),
        (100, (0, True)),
        (148, (0, True)),
        (149, (1, True)),
        (200, (2, True)),
        (250, (3, True)),
        (300, (4, False)),
        (301, (4, True)),
        (399, (4, True)),
        (400, (5, False)),
    ],
)
def test_offset_is_found_in_the_fragment_with_the_largest_end(
    offset: int, expected: tuple[int, bool]
) -> None:
    assert cover(FIXTURE).find(offset) == expected


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        pytest.param([], FIXTURE, id="nothing"),
        pytest.param(FIXTURE, [], id="itself"),
        pytest.param([(100, 149), (149, 201)], FIXTURE[2:], id="covered by two in a row"),
        pytest.param([(100, 149), (150, 201)], FIXTURE, id="two that leave a gap"),
        pytest.param([(0, 1_000)], [], id="covered by one"),
        pytest.param([(250, 299)], FIXTURE, id="covered but for a byte"),
    ],
)
def test_difference_drops_what_the_other_covers(other: list[Span], expected: list[Span]) -> None:
    assert spans(cover(FIXTURE).difference(cover(other))) == expected


any_span = st.tuples(st.integers(0, 30), st.integers(0, 30)).map(lambda s: (min(s), max(s)))


@given(st.lists(any_span, max_size=12), st.lists(any_span, max_size=6))
def test_set_covers_exactly_the_bytes_that_were_added(one: list[Span], two: list[Span]) -> None:
    grown = cover(one)
    for span in two:
        grown.add(entry(span))
    kept = spans(grown)
    assert kept == spans(cover(one + two))
    assert kept == sorted(kept)
    assert [end for _, end in kept] == sorted({end for _, end in kept})
    covered = {byte for begin, end in one + two for byte in range(begin, end)}
    assert {byte for begin, end in kept for byte in range(begin, end)} == covered
    for offset in range(31):
        index, found = grown.find(offset)
        holders = [n for n, (begin, end) in enumerate(kept) if begin <= offset < end]
        assert found == bool(holders)
        if holders:
            assert index == max(holders)
    rest = spans(cover(one).difference(cover(two)))
    others = {byte for begin, end in two for byte in range(begin, end)}
    assert rest == [s for s in spans(cover(one)) if not set(range(*s)) <= others]
