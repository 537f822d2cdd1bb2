"""The barrier machine, one event at a time."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from windrow.outbox.marked import Marked
from windrow.relay.errors import ImpossibleEvent
from windrow.relay.failure import Failure, FailureKind
from windrow.relay.machine import PLENTY, BarrierMachine, Lane, LaneState, Limits
from windrow.relay.policy import Policy, WhenExhausted

REFUSED = Failure(FailureKind.RETRIABLE, "refused", "not this time")
DOWN = Failure(FailureKind.TARGET_DOWN, "down", "nobody answers")
NEVER = Failure(FailureKind.PERMANENT, "too-large", "never")
UNKNOWN = Failure(FailureKind.UNKNOWN, "timed-out", "who knows")


def row(number: int, key: str | None = "k", value: bytes | None = b"", attempts: int = 0) -> Marked:
    return Marked(number, "topic", key, value, None, None, attempts=attempts)


def heads(lanes: list[Lane]) -> list[int]:
    return [lane.head.id for lane in lanes]


def deliver(machine: BarrierMachine, lanes: list[Lane]) -> list[Lane]:
    machine.on_acknowledged(lanes)
    return machine.on_purged(lanes)


# -- lanes ----------------------------------------------------------------------------------------


def test_of_ten_records_of_one_key_exactly_one_is_in_flight() -> None:
    machine = BarrierMachine()
    ready = machine.on_marked([row(n) for n in range(1, 11)])
    sent = []
    while ready:
        assert len(ready) == 1
        sent += heads(ready)
        ready = deliver(machine, ready)
    assert sent == list(range(1, 11))
    assert machine.is_idle
    assert machine.held_records == machine.held_bytes == 0


def test_a_record_waits_behind_its_own_key_only() -> None:
    machine = BarrierMachine()
    ready = machine.on_marked([row(1, "a"), row(2, "a"), row(3, "b"), row(4, "c")])
    assert heads(ready) == [1, 3, 4]
    assert heads(deliver(machine, ready[1:])) == []
    assert heads(deliver(machine, ready[:1])) == [2]


def test_the_next_record_goes_only_when_the_purge_has_committed() -> None:
    machine = BarrierMachine()
    (lane,) = machine.on_marked([row(1), row(2)])
    assert machine.on_acknowledged([lane]) == [1]
    assert lane.head.id == 1
    assert heads(machine.on_purged([lane])) == [2]


def test_records_without_a_key_do_not_wait_for_each_other() -> None:
    machine = BarrierMachine()
    assert heads(machine.on_marked([row(1, None), row(2, None)])) == [1, 2]


def test_a_later_mark_joins_the_lane_at_its_end_even_with_a_lower_id() -> None:
    """A transaction that committed late: within one leader the order of arrival counts."""
    machine = BarrierMachine()
    (lane,) = machine.on_marked([row(7), row(8)])
    assert machine.on_marked([row(5)]) == []
    sent = [7]
    ready = [lane]
    while ready := deliver(machine, ready):
        sent += heads(ready)
    assert sent == [7, 8, 5]


@pytest.mark.parametrize("event", ["acknowledged", "purged", "failed", "buried", "shed"])
def test_an_impossible_event_names_itself_and_the_lane(event: str) -> None:
    machine = BarrierMachine()
    (lane,) = machine.on_marked([row(1)])
    lane.state = LaneState.PARKED if event != "purged" else LaneState.IN_FLIGHT
    acts: dict[str, Callable[[], object]] = {
        "acknowledged": lambda: machine.on_acknowledged([lane]),
        "purged": lambda: machine.on_purged([lane]),
        "failed": lambda: machine.on_failed(lane, REFUSED, 0.0),
        "buried": lambda: machine.on_buried(lane),
        "shed": lambda: machine.on_shed(lane),
    }
    with pytest.raises(ImpossibleEvent, match=rf"{event} at <Lane 'k' \w+ head=1 waiting=0>"):
        acts[event]()


# -- limits ---------------------------------------------------------------------------------------


def test_a_mark_never_takes_more_than_there_is_room_for() -> None:
    machine = BarrierMachine(Limits(batch=100, records=150))
    assert machine.room() == 100
    machine.on_marked([row(n, str(n)) for n in range(100)])
    assert machine.room() == 50
    machine.on_marked([row(n, str(n)) for n in range(100, 150)])
    assert machine.room() == 0


def test_a_small_mark_waits_until_it_is_worth_its_scan() -> None:
    machine = BarrierMachine(Limits(batch=100, records=200))
    lanes = machine.on_marked([row(n, str(n)) for n in range(200)])
    deliver(machine, lanes[:24])
    assert machine.room() == 0
    deliver(machine, lanes[24:25])
    assert machine.room() == 25


def test_with_many_keys_on_their_way_a_mark_waits_until_half_has_gone() -> None:
    machine = BarrierMachine(Limits(batch=1_000, records=1_000))
    lanes = machine.on_marked([row(n, str(n)) for n in range(1_000)])
    deliver(machine, lanes[:499])
    assert machine.room() == 0
    deliver(machine, lanes[499:500])
    assert machine.room() == 500


def test_keys_that_wait_to_be_tried_again_do_not_keep_others_from_being_read() -> None:
    """They may stand still for long: what has room beside them is not to wait for their half."""
    machine = BarrierMachine(Limits(batch=1_000, records=1_000))
    lanes = machine.on_marked([row(n, str(n)) for n in range(700)])
    assert machine.room() == 0
    for lane in lanes[: 700 - PLENTY]:
        machine.on_failed(lane, REFUSED, 0.0)
    assert machine.room() == 0, f"{PLENTY} keys are on their way"
    machine.on_failed(lanes[-1], REFUSED, 0.0)
    assert machine.room() == 300


def test_bytes_are_limited_too() -> None:
    machine = BarrierMachine(Limits(bytes=1_000))
    lanes = machine.on_marked([row(1, value=b"x" * 2_000)])
    assert machine.room() == 0
    deliver(machine, lanes)
    assert machine.room() > 0


def test_of_large_rows_only_so_many_are_read_as_have_room() -> None:
    """Else one mark of thousands, each a megabyte, would fill the memory."""
    machine = BarrierMachine(Limits(batch=1_000, records=1_000, bytes=1_000_000))
    large = row(1, value=b"x" * 99_900)
    deliver(machine, machine.on_marked([large]))
    assert machine.room() == 10
    deliver(machine, machine.on_marked([row(2, value=b"x" * 900)]))
    assert machine.room() > 10


def test_the_first_mark_is_small_since_nobody_knows_how_large_its_rows_are() -> None:
    """A backlog of large rows would end a relay at its first mark, whenever it is started."""
    machine = BarrierMachine(Limits(batch=5_000, records=5_000))
    taken = []
    for first in range(0, 50_000, 10_000):
        taken.append(machine.room())
        deliver(machine, machine.on_marked([row(first + n, str(n)) for n in range(taken[-1])]))
    assert taken == [100, 400, 1_600, 5_000, 5_000]


def test_the_first_marks_are_not_held_up_by_what_they_brought() -> None:
    machine = BarrierMachine(Limits(batch=5_000, records=15_000))
    machine.on_marked([row(n, str(n)) for n in range(100)])
    assert machine.room() == 400


def test_large_rows_that_stand_still_leave_room_for_others() -> None:
    machine = BarrierMachine(Limits(batch=1_000, records=1_000, bytes=1_000_000))
    large = [row(n, str(n), value=b"x" * 99_900) for n in range(8)]
    for lane in machine.on_marked(large):
        machine.on_failed(lane, REFUSED, 0.0)
    assert machine.room() == 2


def test_a_hot_key_is_left_in_the_table_once_its_lane_is_full() -> None:
    """Else it would fill the memory, and every other key would wait for it."""
    machine = BarrierMachine(Limits(lane=4))
    ready = machine.on_marked([row(n) for n in range(1, 7)])
    assert machine.excluded_keys() == ["k"]
    while len(ready[0].waiting or ()) > 2:
        assert machine.excluded_keys() == ["k"]
        ready = deliver(machine, ready)
    assert machine.excluded_keys() == []


# -- failures -------------------------------------------------------------------------------------


def test_a_refused_record_is_tried_again_later_and_keeps_its_place() -> None:
    machine = BarrierMachine(jitter=lambda: 1.0)
    (lane,) = machine.on_marked([row(1), row(2)])
    setback = machine.on_failed(lane, REFUSED, now=10.0)
    assert setback is not None
    assert (setback.attempts, setback.verdict) == (1, None)
    assert machine.due(10.05) == []
    assert machine.next_due() == pytest.approx(10.1)
    assert heads(machine.due(10.1)) == [1]
    assert heads(deliver(machine, [lane])) == [2]


def test_pauses_grow_and_are_scattered() -> None:
    policy = Policy(base_delay=1.0, max_delay=10.0)
    assert [policy.delay(n, 1.0) for n in (1, 2, 3, 4, 5, 60)] == [1, 2, 4, 8, 10, 10]
    assert policy.delay(1, 0.0) == 0.5


def test_no_attempt_is_counted_while_the_target_is_down() -> None:
    machine = BarrierMachine(policy_of=lambda topic: Policy(max_attempts=2))
    lanes = machine.on_marked([row(1, "a"), row(2, "b")])
    for lane in lanes:
        setback = machine.on_failed(lane, DOWN, now=0.0)
        assert setback is not None
        assert (setback.attempts, setback.verdict) == (0, None)
    assert machine.target_down_until > 0
    ready = machine.due(machine.target_down_until)
    assert heads(ready) == [1, 2]
    deliver(machine, ready)
    assert machine.target_down_until == 0.0


def test_a_refusal_in_the_middle_of_an_outage_is_the_outages_and_not_the_records() -> None:
    machine = BarrierMachine(policy_of=lambda topic: Policy(max_attempts=1))
    first, second = machine.on_marked([row(1, "a"), row(2, "b")])
    machine.on_failed(first, DOWN, now=0.0)
    setback = machine.on_failed(second, REFUSED, now=machine.target_down_until / 2)
    assert setback is not None
    assert (setback.attempts, setback.verdict) == (0, None)


def test_an_outage_that_goes_on_is_asked_after_less_and_less_often() -> None:
    machine = BarrierMachine(jitter=lambda: 1.0)
    (lane,) = machine.on_marked([row(1)])
    pauses, now = [], 0.0
    for _ in range(4):
        machine.on_failed(lane, DOWN, now)
        pauses.append(machine.target_down_until - now)
        now = machine.target_down_until
        machine.due(now)
    assert pauses == pytest.approx([0.1, 0.2, 0.4, 0.8])


def test_an_unknown_outcome_is_sent_again_without_being_counted() -> None:
    machine = BarrierMachine(policy_of=lambda topic: Policy(max_attempts=1))
    (lane,) = machine.on_marked([row(1)])
    setback = machine.on_failed(lane, UNKNOWN, now=0.0)
    assert setback is not None
    assert (setback.attempts, setback.verdict) == (0, None)


@pytest.mark.parametrize("choice", list(WhenExhausted))
def test_patience_ends_as_the_policy_of_the_topic_says(choice: WhenExhausted) -> None:
    machine = BarrierMachine(policy_of=lambda topic: Policy(max_attempts=3, when_exhausted=choice))
    (lane,) = machine.on_marked([row(1, attempts=2), row(2)])
    setback = machine.on_failed(lane, REFUSED, now=0.0)
    assert setback is not None
    assert (setback.attempts, setback.verdict) == (3, choice)
    assert lane.state is LaneState.HELD
    assert machine.due(1e9) == []


def test_what_one_record_was_refused_is_not_held_against_the_next_of_its_key() -> None:
    machine = BarrierMachine(policy_of=lambda topic: Policy(max_attempts=3))
    (lane,) = machine.on_marked([row(1, attempts=1), row(2), row(3, attempts=2)])
    machine.on_failed(lane, REFUSED, now=0.0)
    assert (lane.attempts, heads(deliver(machine, machine.due(1e9)))) == (2, [2])
    setback = machine.on_failed(lane, REFUSED, now=0.0)
    assert setback is not None
    assert (setback.attempts, setback.verdict) == (1, None)
    deliver(machine, machine.due(1e9))
    assert lane.attempts == 2  # of an earlier leader


def test_a_record_that_can_never_pass_is_not_tried_again() -> None:
    machine = BarrierMachine()
    (lane,) = machine.on_marked([row(1)])
    setback = machine.on_failed(lane, NEVER, now=0.0)
    assert setback is not None
    assert setback.verdict is WhenExhausted.HOLD


def test_a_buried_head_lets_its_lane_go_on() -> None:
    machine = BarrierMachine()
    (lane,) = machine.on_marked([row(1), row(2)])
    machine.on_failed(lane, NEVER, now=0.0)
    assert heads(machine.on_buried(lane)) == [2]


def test_a_lane_that_was_given_back_is_forgotten_whole() -> None:
    machine = BarrierMachine()
    (lane,) = machine.on_marked([row(1), row(2)])
    machine.on_failed(lane, NEVER, now=0.0)
    assert lane.ids() == [1, 2]
    machine.on_shed(lane)
    assert machine.is_idle
    assert machine.held_records == 0


# -- the end of leadership ------------------------------------------------------------------------


def test_what_is_in_flight_stays_until_it_settles_and_all_else_is_forgotten() -> None:
    machine = BarrierMachine()
    a, b, c = machine.on_marked([row(1, "a"), row(2, "b"), row(3, "c"), row(4, "a")])
    machine.on_acknowledged([b])
    machine.on_failed(c, REFUSED, now=0.0)
    assert sorted(machine.drop_waiting()) == [3, 4]
    assert set(machine.lanes) == {"a", "b"}
    assert machine.on_purged([b]) == []
    assert deliver(machine, [a]) == []
    assert machine.is_idle
    assert machine.due(1e9) == []


def test_a_late_acknowledgement_of_a_dropped_lane_is_still_the_proof_to_purge_it() -> None:
    machine = BarrierMachine()
    lanes = machine.on_marked([row(1), row(2)])
    machine.drop_all()
    assert machine.is_idle
    assert machine.on_acknowledged(lanes) == [1]
    assert machine.on_purged(lanes) == []


def test_a_late_failure_of_a_dropped_lane_is_nobodys_business() -> None:
    machine = BarrierMachine()
    (lane,) = machine.on_marked([row(1)])
    machine.drop_all()
    assert machine.on_failed(lane, NEVER, now=0.0) is None


def test_a_head_that_may_not_go_yet_is_parked() -> None:
    machine = BarrierMachine()
    lanes = machine.on_marked([row(1)])
    machine.postpone(lanes, until=5.0)
    assert machine.due(4.9) == []
    assert heads(machine.due(5.0)) == [1]
