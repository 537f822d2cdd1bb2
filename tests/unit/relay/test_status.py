"""When somebody should be woken."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from windrow.relay.status import Leader, Status, Thresholds, find_problems

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LEADING = Leader(0, "relay-1", 7, NOW, "lease", 1.8, True)
QUIET = Status((LEADING,), 0, False, None, 0, (), {}, (), 0, None)
BUSY = replace(QUIET, backlog=500, oldest_age=12.5)


def test_a_led_outbox_within_its_thresholds_is_no_problem() -> None:
    assert find_problems(QUIET, Thresholds(0.1, 0)) == []
    assert find_problems(BUSY, Thresholds(12.5, 500)) == []
    assert find_problems(BUSY, Thresholds()) == []


def test_past_a_threshold_is_a_problem() -> None:
    (problem,) = find_problems(BUSY, Thresholds(max_age=10.0))
    assert problem == "the oldest row has waited 12.5 s, more than 10 s"
    (problem,) = find_problems(BUSY, Thresholds(max_backlog=499))
    assert problem == "500 rows wait, more than 499"
    bounded = replace(BUSY, backlog_is_bounded=True)
    assert find_problems(bounded, Thresholds(max_backlog=0)) == [
        "500 rows or more wait, more than 0"
    ]


def test_rows_that_wait_with_nobody_to_lead_are_a_problem() -> None:
    gone = replace(LEADING, lease_remaining=None, leads=False)
    (problem,) = find_problems(replace(BUSY, leaders=(gone,)), Thresholds())
    assert problem == "nobody leads, though rows wait; the last was relay-1; run: windrow relay"
    assert find_problems(replace(QUIET, leaders=(gone,)), Thresholds()) == []


@pytest.mark.parametrize("leads", [True, None])
def test_a_leader_that_cannot_be_seen_from_here_is_not_called_gone(leads: bool | None) -> None:
    other = replace(LEADING, elected_by=None, lease_remaining=None, leads=leads)
    assert find_problems(replace(BUSY, leaders=(other,)), Thresholds()) == []
