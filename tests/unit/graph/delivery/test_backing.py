"""The records of a backing journal, and what they add up to."""

from __future__ import annotations

import pytest

from tests.unit.graph.delivery.scenes import UID, at, offsets, scene, span
from windrow.graph.backing import (
    BOUNDARIES_KEPT,
    Attempt,
    BackingState,
    GaveUp,
    Owned,
    Poisoned,
    Record,
    Retried,
    Rewound,
    SnapshotTaken,
    decode,
    encode,
    fold,
    is_anchor,
)
from windrow.graph.delivery_errors import InvalidBacking
from windrow.graph.snapshot import Snapshot


def taken(number: int, start: int = 0, end: int = 5, previous: str = "") -> SnapshotTaken:
    return SnapshotTaken(Snapshot(UID, number, (span(start=start, end=end),)), previous)


EVERY_KIND: list[Record] = [
    Owned("driver", 3),
    taken(1),
    Retried(1, 2, "killed"),
    Attempt("attempt-output", 1, "hash", "out", 5),
    Attempt("attempt-error", 1, "hash", "errors", 1),
    Attempt("attempt-nil", 1, "hash"),
    Poisoned(1, at("s1", 3), "out of memory"),
    GaveUp(1, "again and again"),
    Rewound(offsets(s1=2), "hash", "the sink was set back"),
]


@pytest.mark.parametrize("record", EVERY_KIND, ids=lambda record: type(record).__name__)
def test_a_record_survives_the_journal(record: Record) -> None:
    assert decode(encode(record)) == record


def test_the_types_are_those_of_the_algorithm() -> None:
    contents = b" ".join(map(encode, EVERY_KIND))
    for name in (b"snapshot", b"attempt-output", b"attempt-error", b"attempt-nil"):
        assert b'"type":"%s"' % name in contents


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"type":"snapshot"}', b'{"type":"new"}'])
def test_a_record_of_another_form_is_refused(content: bytes) -> None:
    with pytest.raises(InvalidBacking, match="run that one"):
        decode(content)


def test_the_latest_snapshot_is_the_one_that_counts() -> None:
    state = fold([taken(1), Retried(1, 2), Attempt("attempt-nil", 1, "h"), taken(2, 5, 9)])
    assert state.taken == taken(2, 5, 9)
    assert (state.attempt, state.attempts, state.number) == (None, 1, 2)


def test_a_tail_from_the_latest_snapshot_says_the_same() -> None:
    before: list[Record] = [Owned("a", 1), taken(1), Attempt("attempt-output", 1, "h")]
    after: list[Record] = [taken(2, 5, 9), Retried(2, 2, "killed"), Attempt("attempt-nil", 2, "h")]
    whole, tail = fold(before + after), fold(after)
    assert [is_anchor(record) for record in after] == [True, False, False]
    assert (tail.taken, tail.attempt) == (whole.taken, whole.attempt)
    assert (tail.attempts, tail.reason) == (whole.attempts, whole.reason)


def test_what_speaks_of_an_earlier_snapshot_changes_nothing() -> None:
    state = fold([taken(2)])
    assert state.after(Attempt("attempt-output", 1, "h")) == state
    assert BackingState().after(Retried(1, 2)) == BackingState()


def test_attempts_are_counted_and_begin_anew_after_giving_up_or_setting_aside() -> None:
    state = fold([taken(1), Retried(1, 2), Retried(1, 3, "killed")])
    assert (state.attempts, state.reason) == (3, "killed")
    assert state.after(GaveUp(1, "enough")).attempts == 0
    poisoned = state.after(Poisoned(1, at("s1", 3), "killed"))
    assert (poisoned.attempts, poisoned.poisoned) == (0, (at("s1", 3),))


def test_boundaries_are_kept_for_as_long_as_a_checkpoint_may_go_back() -> None:
    state = fold(taken(n, n, n + 1) for n in range(1, 301))
    assert len(state.boundaries) == BOUNDARIES_KEPT
    assert state.recorded_end(offsets(s1=300)) == offsets(s1=301)
    assert state.recorded_end(offsets(s1=1)) is None


def test_setting_elsewhere_forgets_the_attempt_and_the_boundaries() -> None:
    state = fold([taken(1), Rewound(offsets(s1=2), "", "asked for")])
    assert (state.taken, state.boundaries, state.number) == (None, (), 1)


def test_the_journal_of_a_run_can_be_read_by_eye() -> None:
    world = scene(messages=2, targets=1)
    world.settle()
    types = [line.split(b'"type":"')[1].split(b'"')[0] for line in world.journals[UID].lines]
    assert types[0] == b"owned"
    assert set(types[1::2]) == {b"snapshot"}
    assert set(types[2::2]) <= {b"attempt-output", b"attempt-nil"}
