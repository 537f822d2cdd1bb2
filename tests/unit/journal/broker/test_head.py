"""Which spools are of a journal's true branch."""

from __future__ import annotations

import pytest

from windrow.journal.broker.head import (
    MEMORY_TERM,
    REMEMBERED_TERMS,
    Head,
    Terms,
    UnreadableHead,
    counts,
    is_settled,
    next_term,
)
from windrow.journal.labels import LabelSet

HEAD = Head(5, 77, ("z#broker-a", "z#broker-b"), 100, LabelSet.of({"owner": "x"}), ((70, 100),))


def test_a_head_is_read_as_it_was_written() -> None:
    assert Head.decode("a/journal", HEAD.encode(), 9) == HEAD.written_at(9)


@pytest.mark.parametrize("value", [b"", b"{}", b"[]", b'{"term": "x"}', b"\xff"])
def test_a_head_that_cannot_be_read_stops_appends_with_a_diagnosis(value: bytes) -> None:
    with pytest.raises(UnreadableHead, match=r"'a/journal': the key of its head cannot be read"):
        Head.decode("a/journal", value, 9)


@pytest.mark.parametrize(
    ("member", "terms", "expected"),
    [
        ("z#broker-a", Terms(77, 77), True),
        ("z#broker-a", Terms(70, 77), True),
        ("z#broker-a", Terms(77, 80), True),
        ("z#broker-a", Terms(70, 80), False),
        ("z#broker-a", Terms(), False),
        # A term that is tried again, since its outcome was unknown, may have had other members.
        ("z#broker-c", Terms(70, 77), False),
    ],
)
def test_a_spool_counts_by_its_terms_and_membership(
    member: str, terms: Terms, expected: bool
) -> None:
    assert counts(HEAD, member, terms) is expected


def test_without_a_head_every_spool_counts_and_is_settled() -> None:
    assert counts(None, "z#broker-c", Terms(1, 2))
    assert is_settled(None, Terms(1, 2))


def test_a_spool_that_only_promised_has_to_begin_the_term_where_the_head_says() -> None:
    assert not is_settled(HEAD, Terms(70, 77))
    assert is_settled(HEAD, Terms(77, 80))


def test_a_head_remembers_where_terms_before_it_ended() -> None:
    assert HEAD.end_of(70) == 100
    assert HEAD.end_of(71) == 0
    head = HEAD
    for number in range(100):
        head = Head(5, 100 + number, HEAD.members, number, ended=head.ended_terms(number))
    assert len(head.ended) == REMEMBERED_TERMS
    assert head.ended[0] == (198, 99)


def test_terms_are_random_and_none_of_those_known() -> None:
    terms = {next_term((77,)) for _ in range(50)}
    assert len(terms) == 50
    assert not terms & {0, MEMORY_TERM, 77}
