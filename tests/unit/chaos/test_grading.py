from __future__ import annotations

from dataclasses import replace

import pytest

from windrow.chaos.accounts import Account
from windrow.chaos.grading import Grade, Promise, grade

CLEAN = Account(
    written=100,
    delivered=100,
    lost=0,
    waiting=0,
    doubled=0,
    doubled_behind_inbox=0,
    unexpected=0,
    p50=0.01,
    p99=0.1,
    recovery=1.0,
)
LOSES = replace(CLEAN, delivered=60, lost=40, recovery=None)


def test_a_scenario_that_bit_and_lost_nothing_passes() -> None:
    promise = Promise(control_must_lose=True)
    assert grade(promise, CLEAN, LOSES, strikes=1) == Grade("pass")


@pytest.mark.parametrize(
    ("outbox", "reason"),
    [
        (replace(CLEAN, lost=1, delivered=99), "lost 1 of 100"),
        (replace(CLEAN, doubled=2), "2 came again, which this fault cannot cause"),
        (replace(CLEAN, unexpected=3), "3 arrived that were never committed"),
        (replace(CLEAN, waiting=4), "4 still wait"),
    ],
)
def test_whatever_breaks_the_promise_fails(outbox: Account, reason: str) -> None:
    judged = grade(Promise(), outbox, LOSES, strikes=1)
    assert judged.result == "fail"
    assert not judged.holds
    assert reason in judged.reasons[0]


def test_doubles_pass_where_the_fault_may_cause_them() -> None:
    doubled = replace(CLEAN, doubled=2)
    assert grade(Promise(may_double=True), doubled, CLEAN, strikes=1).holds


def test_a_double_that_an_inbox_lets_through_fails_everywhere() -> None:
    doubled = replace(CLEAN, doubled=1, doubled_behind_inbox=1)
    judged = grade(Promise(may_double=True), doubled, CLEAN, strikes=1)
    assert judged.result == "fail"
    assert "under another id" in judged.reasons[0]


def test_a_control_that_lost_nothing_though_it_had_to_is_no_pass() -> None:
    judged = grade(Promise(control_must_lose=True), CLEAN, CLEAN, strikes=1)
    assert judged.result == "inconclusive"
    assert not judged.holds
    assert judged.reasons == ("the control lost nothing though it had to",)


def test_without_a_control_none_has_to_lose() -> None:
    assert grade(Promise(control_must_lose=True), CLEAN, None, strikes=1).holds


def test_a_fault_that_never_struck_proves_nothing() -> None:
    assert grade(Promise(), CLEAN, CLEAN, strikes=0).result == "inconclusive"
    empty = replace(CLEAN, written=0, delivered=0)
    assert grade(Promise(), empty, CLEAN, strikes=1).result == "inconclusive"


def test_refusals_that_were_not_buried_prove_nothing() -> None:
    promise = Promise(must_bury=True)
    assert grade(promise, CLEAN, LOSES, strikes=1, buried=0).result == "inconclusive"
    assert grade(promise, CLEAN, LOSES, strikes=1, buried=7).result == "pass"


def test_a_scenario_that_came_to_no_end_fails_even_if_all_arrived() -> None:
    judged = grade(Promise(), CLEAN, CLEAN, strikes=1, stuck="a relay at competing.sent")
    assert judged.result == "fail"
    assert "a relay at competing.sent" in judged.reasons[0]


def test_loss_is_told_before_the_toothless() -> None:
    """What is broken is broken, whatever the control did."""
    lost = replace(CLEAN, lost=1, delivered=99)
    assert grade(Promise(control_must_lose=True), lost, CLEAN, strikes=0).result == "fail"


def test_what_was_not_run_does_not_make_the_run_fail() -> None:
    assert Grade("not run", ("Kafka is not installed",)).holds
