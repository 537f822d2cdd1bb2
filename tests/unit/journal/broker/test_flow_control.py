"""The arithmetic of a journal's rates."""

from __future__ import annotations

import pytest

from windrow.journal.broker.flow_control import QUANTUM, ClientTooSlow, FlowControl


def ticks(flow: FlowControl, count: int, start: float = 0.0) -> float:
    for number in range(1, count + 1):
        flow.on_tick(start + number * QUANTUM)
    return start + count * QUANTUM


def test_a_client_that_sends_nothing_is_aborted_after_a_second_of_credit() -> None:
    flow = FlowControl(1000, now=0.0)
    flow.begin(0.0, 0)
    now = ticks(flow, 19)
    with pytest.raises(ClientTooSlow, match="didn't sustain the minimum append data rate"):
        ticks(flow, 2, now)


def test_accepted_bytes_refill_the_credit_but_no_further_than_a_second() -> None:
    flow = FlowControl(1000, now=0.0)
    flow.begin(0.0, 0)
    now = ticks(flow, 19)
    assert flow.on_chunk(1_000_000)
    now = ticks(flow, 19, now)
    with pytest.raises(ClientTooSlow):
        ticks(flow, 2, now)


def test_a_late_tick_is_not_held_against_the_client() -> None:
    flow = FlowControl(1000, now=0.0)
    flow.begin(0.0, 0)
    flow.on_tick(60.0)
    assert ticks(flow, 18, 60.0) > 60


def test_a_chunk_waits_until_it_is_paid_for_in_full() -> None:
    flow = FlowControl(0, now=0.0)
    flow.begin(0.0, 1000)
    assert flow.on_chunk(1000)
    assert not flow.on_chunk(100)
    assert not flow.on_tick(0.05)
    assert flow.on_tick(0.1)
    assert (flow.total_chunks, flow.delayed_chunks) == (2, 1)


def test_a_chunk_that_is_held_back_costs_the_client_no_credit() -> None:
    flow = FlowControl(1000, now=0.0)
    flow.begin(0.0, 10)
    assert not flow.on_chunk(1000)
    ticks(flow, 200)
    assert flow.is_held_back


def test_the_balance_carries_over_to_the_next_append_up_to_ten_seconds() -> None:
    flow = FlowControl(0, now=0.0)
    flow.begin(0.0, 1000)
    flow.on_chunk(1000)
    flow.begin(3.0, 1000)
    assert flow.balance == 3000
    flow.begin(60.0, 1000)
    assert flow.balance == 10_000


def test_an_invalidated_route_lifts_the_maximum_for_the_rest_of_the_append() -> None:
    flow = FlowControl(0, now=0.0)
    flow.begin(0.0, 10)
    assert not flow.on_chunk(10_000)
    flow.on_invalidated()
    assert not flow.is_held_back
    assert flow.on_chunk(10_000)
    flow.begin(1.0, 10)
    assert not flow.on_chunk(10_000)


def test_no_maximum_lets_everything_pass() -> None:
    flow = FlowControl(0, now=0.0)
    flow.begin(0.0, 0)
    assert flow.on_chunk(1 << 40)
    assert flow.delayed_chunks == 0


def test_a_client_at_just_the_minimum_rate_goes_on_for_ever() -> None:
    flow = FlowControl(1000, now=0.0)
    flow.begin(0.0, 0)
    now = 0.0
    for _ in range(2_000):
        now = ticks(flow, 1, now)
        assert flow.on_chunk(50)
