"""Where members that differ go on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.journal.broker.appends import HEAD, ROUTE, TERM, A, B, C, fragment
from windrow.journal.broker.head import Head, Terms
from windrow.journal.broker.sync import (
    Agreed,
    Answer,
    Copy,
    Decision,
    Disagreed,
    MoveTo,
    NoMemberOfHead,
    ReadThrough,
    Standing,
    decide_furthest,
    decide_lowest,
)
from windrow.journal.fragment import Fragment
from windrow.journal.labels import EMPTY, LabelSet
from windrow.journal.spec import ProcessId, Route
from windrow.journal.status import Status

OURS, THEIRS = LabelSet.of({"owner": "ours"}), LabelSet.of({"owner": "theirs"})
OWN = Standing(str(A), fragment(0, 50), OURS, Terms(TERM, TERM))
OTHER_ROUTE = Route((B, C), 0)


def answer(
    own: Fragment = OWN.fragment,
    status: Status = Status.PROPOSAL_MISMATCH,
    member: ProcessId = B,
    registers: LabelSet = THEIRS,
    terms: Terms = Terms(TERM, TERM),  # noqa: B008
) -> Answer:
    return Answer(str(member), status, own, registers, terms=terms)


def wrong_route(route: Route, revision: int) -> Answer:
    return Answer(str(B), Status.WRONG_ROUTE, route=route, revision=revision)


AGREED = answer(status=Status.OK, registers=OURS)


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ((AGREED,), Agreed()),
        ((answer(fragment(0, 70)),), MoveTo(70, THEIRS)),
        ((answer(fragment(0, 70)), answer(fragment(0, 90), member=C)), MoveTo(90, THEIRS)),
        ((answer(fragment(0, 90)), answer(fragment(0, 70), member=C)), MoveTo(90, THEIRS)),
        ((answer(fragment(50, 50)),), MoveTo(50, None)),
        ((answer(fragment(50, 50)), answer(fragment(0, 90), member=C)), MoveTo(90, THEIRS)),
        ((wrong_route(OTHER_ROUTE, 20),), ReadThrough(20)),
        ((wrong_route(OTHER_ROUTE, 20), AGREED), ReadThrough(20)),
        ((wrong_route(OTHER_ROUTE, 20), wrong_route(OTHER_ROUTE, 25)), ReadThrough(25)),
        ((wrong_route(OTHER_ROUTE, 25), wrong_route(OTHER_ROUTE, 20)), ReadThrough(25)),
    ],
)
def test_memory_spools_adopt_the_furthest_end(
    answers: tuple[Answer, ...], expected: Decision
) -> None:
    assert decide_furthest(ROUTE, 10, OWN, answers) == expected


@pytest.mark.parametrize(
    "bad",
    [
        answer(fragment(0, 50, fill=9)),
        answer(fragment(0, 40)),
        answer(status=Status.INSUFFICIENT_JOURNAL_BROKERS),
        wrong_route(OTHER_ROUTE, 10),
        wrong_route(ROUTE, 20),
    ],
)
def test_what_no_rule_reconciles_is_an_error_that_names_the_peer(bad: Answer) -> None:
    decision = decide_furthest(ROUTE, 10, OWN, (bad,))
    assert isinstance(decision, Disagreed)
    assert str(B) in decision.reason


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ((AGREED,), Agreed()),
        ((answer(fragment(0, 70)),), MoveTo(50, OURS)),
        ((answer(fragment(0, 40)),), MoveTo(40, THEIRS)),
        (
            (answer(fragment(0, 0), terms=Terms()),),
            MoveTo(50, OURS, Copy(str(A), (str(B),), 0, 50, OURS)),
        ),
        ((answer(fragment(0, 40)), answer(fragment(0, 30), member=C)), MoveTo(40, THEIRS)),
        ((wrong_route(OTHER_ROUTE, 20),), ReadThrough(20)),
    ],
)
def test_durable_spools_go_back_to_the_lowest_end_of_those_that_count(
    answers: tuple[Answer, ...], expected: Decision
) -> None:
    """C is no member of the head, so that its end says nothing."""
    assert decide_lowest(ROUTE, 10, HEAD, OWN, answers) == expected


def test_a_primary_that_does_not_count_follows_a_peer_that_does() -> None:
    fresh = Standing(str(C), fragment(0, 0), EMPTY)
    copy = Copy(str(B), (str(C),), 0, 50, THEIRS)
    assert decide_lowest(ROUTE, 10, HEAD, fresh, (answer(),)) == MoveTo(50, THEIRS, copy)


@pytest.mark.parametrize(
    ("head", "known", "begin"),
    [(HEAD, 0, 0), (HEAD, 30, 30), (replace(HEAD, end=40), 30, 40), (HEAD, 50, None)],
)
def test_while_a_member_is_away_what_may_be_on_one_disk_is_copied_to_who_lacks_it(
    head: Head, known: int, begin: int | None
) -> None:
    """What is known to be acknowledged, and what the head's term began with, all members have."""
    own = replace(OWN, acknowledged_end=known)
    fresh = answer(fragment(0, 0), member=C, terms=Terms())
    decision = decide_lowest(ROUTE, 10, head, own, (fresh,))
    copy = None if begin is None else Copy(str(A), (str(C),), begin, 50, OURS)
    assert decision == MoveTo(50, OURS, copy)


def test_nothing_is_copied_while_all_members_of_the_head_are_there() -> None:
    """The lowest of their ends is on all of their disks."""
    fresh = answer(fragment(0, 0), member=C, terms=Terms())
    assert decide_lowest(ROUTE, 10, HEAD, OWN, (AGREED, fresh)) == MoveTo(50, OURS)


def test_if_nobody_counts_only_an_operator_can_go_on() -> None:
    fresh = Standing(str(C), fragment(0, 0), EMPTY)
    nobody = answer(fragment(0, 0), Status.OK, terms=Terms(1, 2))
    assert decide_lowest(ROUTE, 10, HEAD, fresh, (nobody,)) == NoMemberOfHead(HEAD)


def test_nothing_is_written_below_an_offset_that_was_given() -> None:
    assert decide_lowest(ROUTE, 10, HEAD, OWN, (AGREED,), at_least=80) == MoveTo(80, OURS)
    assert decide_lowest(ROUTE, 10, HEAD, OWN, (AGREED,), at_least=50) == Agreed()


def test_a_closed_head_says_itself_where_the_next_term_begins() -> None:
    """A journal suspended in full has no replica that could: without it, appends were refused."""
    closed = replace(HEAD, end=120, registers=THEIRS).closed()
    new = Standing(str(A), fragment(0, 0), EMPTY)
    assert decide_lowest(ROUTE, 10, closed, new, ()) == MoveTo(120, THEIRS)
    assert decide_lowest(ROUTE, 10, closed, new, (), at_least=150) == MoveTo(150, THEIRS)
    assert decide_lowest(ROUTE, 10, closed, OWN, (AGREED,)) == MoveTo(120, THEIRS)
