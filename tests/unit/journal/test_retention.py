"""Which fragments may be deleted."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windrow.journal.fragment import Fragment
from windrow.journal.retention import plan_pruning

NOW = 1_000_000.0
HOUR = 3600.0


def stored(begin: int, end: int, age: float) -> Fragment:
    return Fragment(
        "a/journal", begin, end, bytes(20), backing_store="file:///", mod_time=int(NOW - age)
    )


def local(begin: int, end: int) -> Fragment:
    return Fragment("a/journal", begin, end)


def spans(fragments: tuple[Fragment, ...]) -> list[tuple[int, int]]:
    return [(fragment.begin, fragment.end) for fragment in fragments]


def test_what_is_older_than_the_retention_goes_and_the_rest_stays() -> None:
    plan = plan_pruning(
        [stored(0, 10, 3 * HOUR), stored(10, 20, HOUR), stored(20, 30, 60), local(30, 40)],
        HOUR,
        NOW,
    )
    assert spans(plan.prunable) == [(0, 10), (10, 20)]
    assert spans(plan.kept) == [(20, 30), (30, 40)]
    assert plan.prunable_bytes == 20


@pytest.mark.parametrize("retention", [0.0, -1.0])
def test_a_retention_of_zero_or_less_keeps_everything_for_ever(retention: float) -> None:
    """A stock ``prune`` takes it for "all is too old", and deletes what should never go."""
    plan = plan_pruning([stored(0, 10, 1e9), stored(10, 20, 1e9)], retention, NOW)
    assert plan.prunable == ()


def test_the_last_stored_fragment_stays_however_old() -> None:
    """Without it, brokers that lost their spools would write the same offsets again."""
    fragments = [stored(0, 10, 9 * HOUR), stored(10, 20, 9 * HOUR)]
    assert spans(plan_pruning(fragments, HOUR, NOW).kept) == [(10, 20)]
    live = [*fragments, local(20, 30)]
    assert spans(plan_pruning(live, HOUR, NOW).kept) == [(10, 20), (20, 30)]
    assert plan_pruning(fragments[:1], HOUR, NOW).prunable == ()


def test_what_is_live_or_of_unknown_age_stays() -> None:
    undated = replace(stored(0, 10, 0), mod_time=0)
    assert plan_pruning([undated, stored(10, 20, 9 * HOUR)], HOUR, NOW).prunable == ()
    assert plan_pruning([local(0, 10)], HOUR, NOW).kept == (local(0, 10),)


def test_no_hole_is_made_behind_a_fragment_that_stays() -> None:
    """One uploaded again is young, and what follows it is still needed to read on from it."""
    fragments = [
        stored(0, 10, 60),
        stored(10, 20, 9 * HOUR),
        stored(20, 30, 9 * HOUR),
        stored(30, 40, 60),
    ]
    assert plan_pruning(fragments, HOUR, NOW).prunable == ()


def test_a_fragment_that_reaches_into_what_stays_stays_too() -> None:
    fragments = [stored(0, 10, 9 * HOUR), stored(10, 25, 9 * HOUR), stored(20, 30, 60)]
    assert spans(plan_pruning(fragments, HOUR, NOW).prunable) == [(0, 10)]


fragments = st.builds(
    lambda begin, length, age, is_stored: (
        stored(begin, begin + length, age) if is_stored else local(begin, begin + length)
    ),
    st.integers(0, 60),
    st.integers(1, 20),
    st.floats(0, 4 * HOUR),
    st.booleans(),
)


@given(st.lists(fragments, max_size=12), st.floats(-HOUR, 3 * HOUR))
def test_whatever_there_is_only_the_old_begin_of_a_journal_goes(
    given: list[Fragment], retention: float
) -> None:
    plan = plan_pruning(given, retention, NOW)
    assert sorted(map(repr, plan.prunable + plan.kept)) == sorted(map(repr, given))
    for fragment in plan.prunable:
        assert retention > 0
        assert fragment.is_persisted
        assert NOW - fragment.mod_time >= retention
        assert all(fragment.end <= other.begin for other in plan.kept)
    ends = [fragment.end for fragment in given if fragment.is_persisted]
    if ends:
        assert max(ends) in [fragment.end for fragment in plan.kept if fragment.is_persisted]
