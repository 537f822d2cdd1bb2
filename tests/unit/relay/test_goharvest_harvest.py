"""What goharvest's own unit tests ask of a harvester, asked of a relay."""

from __future__ import annotations

import logging
import math
import time

import pytest

from tests.unit.relay.scripted import (
    POISON,
    OpeningElection,
    ScriptedStore,
    Stage,
    wait_for,
)
from windrow.errors import Unreachable
from windrow.outbox.errors import DatabaseFailed, WrongSchema
from windrow.relay.election.errors import LeaderTopicUnusable
from windrow.relay.events import (
    DatabaseLost,
    ElectionTroubled,
    LeaderAcquired,
    LeaderFenced,
    LeaderRefreshed,
    LeaderRevoked,
    MeterRead,
    RecordBuried,
    RecordFailed,
)
from windrow.relay.policy import Policy, WhenExhausted
from windrow.relay.reporting import log_events
from windrow.relay.service import RelayState
from windrow.telemetry.events import Event


class Simulated(Exception):
    """What nobody expected."""


@pytest.fixture
def stage() -> Stage:
    return Stage()


# -- start and stop ------------------------------------------------------------------------------


def test_a_relay_is_created_runs_and_stops_and_lets_go_of_both_ends(stage: Stage) -> None:
    relay = stage.relay()
    states = [relay.state]
    relay.start()
    states.append(relay.state)
    relay.stop()
    relay.stop()  # any number of times
    assert relay.wait(5.0)
    assert [*states, relay.state] == [RelayState.CREATED, RelayState.RUNNING, RelayState.STOPPED]
    assert stage.store.calls["close"] == 1
    assert (stage.target.closed, stage.election.closed) == (1, 1)


def test_a_relay_starts_once(stage: Stage) -> None:
    with stage.running() as relay, pytest.raises(RuntimeError, match="this one is running"):
        relay.start()


def test_a_store_that_cannot_be_opened_fails_the_start_which_may_be_tried_again(
    stage: Stage,
) -> None:
    stage.store.fail("open", error=WrongSchema("outbox", "does not exist", "windrow init"))
    relay = stage.relay()
    with pytest.raises(WrongSchema):
        relay.start()
    assert relay.state is RelayState.CREATED
    stage.store.mend()
    relay.start()
    relay.stop()
    assert relay.wait(5.0)


def test_an_election_that_can_never_elect_fails_the_start_and_lets_go_of_the_database(
    stage: Stage,
) -> None:
    stage.election = OpeningElection(LeaderTopicUnusable("neli", "is Kafka's own", "name another"))
    relay = stage.relay()
    with pytest.raises(LeaderTopicUnusable):
        relay.start()
    assert relay.state is RelayState.CREATED
    assert stage.store.calls["close"] == 1


def test_an_arbiter_that_gives_no_answer_yet_does_not_fail_the_start(stage: Stage) -> None:
    """As when it goes away later: the pulses ask again."""
    stage.election = OpeningElection(Unreachable("Kafka", "nowhere:1", "nobody there"))
    with stage.running():
        assert len(stage.told(ElectionTroubled)) == 1
        assert not stage.told(DatabaseLost)


def test_a_producer_that_cannot_be_made_fails_the_start_and_lets_go_of_the_database(
    stage: Stage,
) -> None:
    stage.target.open_error = Simulated("no such property")
    relay = stage.relay()
    with pytest.raises(Simulated):
        relay.start()
    assert relay.state is RelayState.CREATED
    assert stage.store.calls["close"] == 1


# -- what nobody expected ------------------------------------------------------------------------


def test_an_unexpected_error_of_the_election_ends_the_relay_with_its_cause(stage: Stage) -> None:
    relay = stage.relay().start()
    stage.election.error = Simulated("simulated")
    with pytest.raises(Simulated, match="simulated"):
        relay.wait(5.0)
    assert relay.state is RelayState.STOPPED
    assert stage.events == []
    assert stage.store.calls["close"] == 1


def test_an_unexpected_error_while_reports_are_handled_ends_the_relay_with_its_cause(
    stage: Stage,
) -> None:
    stage.store.fail("note", error=Simulated("simulated"))
    stage.store.add("a")
    relay = stage.relay().start()
    stage.election.acquire()
    stage.sent(1)
    stage.target.fail()
    with pytest.raises(Simulated, match="simulated"):
        relay.wait(5.0)
    assert not relay.is_leader


# -- leadership ----------------------------------------------------------------------------------


def test_leadership_comes_and_goes_with_an_event_for_each_change(stage: Stage) -> None:
    relay = stage.relay().start()
    assert (relay.is_leader, relay.leader_id) == (False, None)
    kinds = [LeaderAcquired, LeaderRevoked, LeaderAcquired, LeaderFenced]
    acts = [
        stage.election.acquire,
        stage.election.revoke,
        stage.election.acquire,
        stage.election.fence,
    ]
    for count, act in enumerate(acts, start=1):
        act()
        wait_for(lambda count=count: len(stage.events) == count, f"event {count}")  # type: ignore[misc]
        assert relay.is_leader is (kinds[count - 1] is LeaderAcquired)
        if relay.is_leader:
            assert stage.told(LeaderAcquired)[-1].leader_id == relay.leader_id
        else:
            assert relay.leader_id is None
    assert [type(event) for event in stage.events] == kinds
    first, second = stage.told(LeaderAcquired)
    assert first.leader_id != second.leader_id
    assert second.epoch > first.epoch
    relay.stop()
    assert relay.wait(5.0)


def test_a_fenced_leader_is_a_warning_in_the_log_and_a_new_one_is_not(
    caplog: pytest.LogCaptureFixture, stage: Stage
) -> None:
    log_events(stage.bus)
    caplog.set_level(logging.DEBUG, "windrow.relay")
    stage.bus.emit(LeaderAcquired(1, "an-id"))
    stage.bus.emit(LeaderFenced(1, 12))
    stage.bus.emit(MeterRead(10, 1.0, 5, 2.0))
    levels = [record.levelname for record in caplog.records]
    assert levels == ["INFO", "WARNING", "DEBUG"]
    assert "an-id" in caplog.text
    assert "meter read" in caplog.text


def test_the_meter_is_read_after_acknowledgements(stage: Stage) -> None:
    stage.store.add(*(f"key-{n}" for n in range(5)))
    with stage.running(meter_interval=0.0):
        stage.sent(5)
        assert stage.told(MeterRead) == []
        stage.target.acknowledge(5)
        wait_for(lambda: bool(stage.told(MeterRead)), "the meter is read")
        reading = stage.told(MeterRead)[-1]
        assert reading.total <= 5
        assert reading.total_rate > 0


def test_an_idle_relay_reads_no_meter(stage: Stage) -> None:
    with stage.running(meter_interval=0.0):
        wait_for(lambda: stage.store.calls["read"] > 5, "it looks at the outbox")
        assert stage.told(MeterRead) == []


# -- keys ----------------------------------------------------------------------------------------


def test_ten_records_of_one_key_are_sent_one_at_a_time_and_in_their_order(stage: Stage) -> None:
    rows = stage.store.add(*["key"] * 10)
    with stage.running() as relay:
        for count in range(1, 11):
            assert stage.sent(count) == [row.id for row in rows[:count]]
            assert relay.in_flight_keys == ["key"]
            assert relay.in_flight == 11 - count
            stage.target.acknowledge()
        wait_for(lambda: relay.in_flight == 0, "all is purged")
        assert relay.in_flight_keys == []
        assert stage.store.rows == {}
        assert relay.delivered == 10


def test_records_of_different_keys_are_sent_at_once(stage: Stage) -> None:
    stage.store.add("a", "b", "c")
    with stage.running() as relay:
        stage.sent(3)
        assert sorted(relay.in_flight_keys) == ["a", "b", "c"]


def test_a_key_that_waits_for_ever_blocks_no_other_and_restarts_nothing(stage: Stage) -> None:
    stage.store.add("slow", "slow", "quick")
    with stage.running() as relay:
        stage.sent(2)
        stage.target.waiting.reverse()  # the quick one is acknowledged, the slow one never is
        stage.target.acknowledge()
        for _ in range(3):
            stage.store.add("quick")
            wait_for(lambda: len(stage.target.waiting) == 2, "the next is sent")
            stage.target.waiting.reverse()
            stage.target.acknowledge()
        wait_for(lambda: relay.delivered == 4, "the quick ones are purged")
        assert stage.target.opened == 1
        assert stage.told(LeaderRefreshed) == []


def test_nothing_is_sent_once_the_right_to_lead_has_run_out(stage: Stage) -> None:
    stage.election.valid_until = time.monotonic() - 1.0
    stage.store.add("a")
    with stage.running():
        wait_for(lambda: stage.store.calls["read"] > 1, "it looks at the outbox")
        wait_for(lambda: stage.store.marks != {}, "it has taken the row")
        assert stage.target.sent == []
        stage.election.valid_until = math.inf
        stage.sent(1)


def test_after_the_end_nothing_more_is_sent(stage: Stage) -> None:
    with stage.running() as relay:
        wait_for(lambda: stage.store.calls["read"] > 1, "it looks at the outbox")
    assert relay.state is RelayState.STOPPED
    reads = stage.store.calls["read"]
    stage.store.add("a")
    time.sleep(0.05)  # longer than it would have waited between two reads
    assert stage.target.sent == []
    assert stage.store.calls["read"] == reads


# -- revocation ----------------------------------------------------------------------------------


def test_a_revocation_with_ten_unacknowledged_records_ends_with_nothing_in_flight(
    stage: Stage,
) -> None:
    stage.store.add(*(f"key-{n}" for n in range(10)))
    with stage.running(drain_timeout=0.1) as relay:
        stage.sent(10)
        stage.election.revoke()
        wait_for(lambda: not relay.is_leader, "it has handed over")
        assert relay.in_flight == 0
        assert relay.leader_id is None
        wait_for(lambda: len(stage.told(LeaderRevoked)) == 1, "it says so")
    assert len(stage.store.rows) == 10  # the next leader's


def test_what_is_acknowledged_during_a_revocation_is_purged_before_it_ends(stage: Stage) -> None:
    """Abandoned instead, it would be sent twice by whoever leads next."""
    stage.store.add("a", "b")
    with stage.running(drain_timeout=5.0) as relay:
        stage.sent(2)
        stage.election.revoke()
        stage.target.acknowledge(2)
        wait_for(lambda: not relay.is_leader, "it has handed over")
        assert stage.store.rows == {}


# -- failures ------------------------------------------------------------------------------------


def test_a_mark_that_fails_is_told_and_made_again_under_a_new_id(stage: Stage) -> None:
    stage.store.fail("read")
    with stage.running() as relay:
        wait_for(lambda: bool(stage.told(LeaderRefreshed)), "it takes a new id")
        assert relay.state is RelayState.RUNNING
        lost = stage.told(DatabaseLost)
        assert "simulated" in lost[0].reason
        kinds = [type(e) for e in stage.told(LeaderAcquired, LeaderRefreshed)]
        assert kinds[:2] == [LeaderAcquired, LeaderRefreshed]
        stage.store.mend()
        stage.store.add("a")
        stage.sent(1)
        assert stage.told(LeaderRefreshed)[-1].leader_id == relay.leader_id


def test_a_record_refused_at_once_is_sent_again_by_the_same_producer(stage: Stage) -> None:
    stage.target.refusals = 3
    (row,) = stage.store.add("a")
    with stage.running() as relay:
        assert stage.sent(1) == [row.id]
        assert relay.in_flight_keys == ["a"]
        assert [event.attempts for event in stage.told(RecordFailed)] == [1, 2, 3]
        assert stage.target.opened == 1
        stage.target.acknowledge()
        wait_for(lambda: relay.in_flight == 0, "it is purged")


def test_a_failed_delivery_is_repeated_before_its_successor_goes(stage: Stage) -> None:
    first, second = stage.store.add("a", "a")
    with stage.running() as relay:
        stage.sent(1)
        stage.target.fail()
        assert stage.sent(2) == [first.id, first.id]
        stage.target.acknowledge()
        assert stage.sent(3) == [first.id, first.id, second.id]
        assert relay.state is RelayState.RUNNING
        (failed,) = stage.told(RecordFailed)
        assert (failed.record, str(failed.failure)) == (first.id, "refused: simulated")
        assert stage.store.notes == [(first.id, 1, "refused: simulated")]


def test_a_purge_that_fails_is_repeated_and_its_key_waits_until_then(stage: Stage) -> None:
    stage.store.add("a", "a", "b")
    with stage.running() as relay:
        stage.sent(2)
        stage.store.fail("purge")
        stage.target.acknowledge()
        wait_for(lambda: stage.store.calls["purge"] >= 2, "it is repeated")
        assert relay.state is RelayState.RUNNING
        assert "a" in relay.in_flight_keys
        assert len(stage.store.rows) == 3
        stage.store.mend()
        wait_for(lambda: len(stage.store.rows) == 2, "it is purged")
        assert stage.told(DatabaseLost)


def test_a_note_that_fails_is_repeated_and_the_record_is_sent_again(stage: Stage) -> None:
    (row,) = stage.store.add("a")
    with stage.running() as relay:
        stage.sent(1)
        stage.store.fail("note")
        stage.target.fail()
        wait_for(lambda: stage.store.calls["note"] >= 2, "it is repeated")
        assert relay.state is RelayState.RUNNING
        stage.store.mend()
        assert stage.sent(2) == [row.id, row.id]


def test_a_purge_that_finds_nothing_still_lets_the_key_go_on(stage: Stage) -> None:
    """A purge of unknown outcome is repeated, and then there is nothing left to purge."""
    first, second = stage.store.add("a", "a")
    with stage.running() as relay:
        stage.sent(1)
        del stage.store.rows[first.id]
        stage.target.acknowledge()
        assert stage.sent(2) == [first.id, second.id]
        assert relay.state is RelayState.RUNNING


# -- burials -------------------------------------------------------------------------------------


def test_a_lane_is_named_before_its_head_is_buried(stage: Stage) -> None:
    """After a crash in between, the rest of the key must not pass."""
    stage.store.add("a", "a", "b")
    lane = Policy(when_exhausted=WhenExhausted.DEAD_LETTER_LANE)
    with stage.running(policy=lane):
        stage.sent(2)
        stage.target.fail(POISON)
        wait_for(lambda: stage.store.dead == [1, 2], "the lane is buried")
        assert stage.store.order.index("hold") < stage.store.order.index("bury")
        assert stage.store.held == {"a": "buried"}


def test_a_record_without_a_key_is_buried_and_leaves_its_room_to_others(stage: Stage) -> None:
    stage.store.add(None, None)
    with stage.running() as relay:
        stage.sent(2)
        stage.target.fail(POISON)
        stage.target.fail(POISON)
        wait_for(lambda: stage.store.dead == [1, 2], "they are buried")
        assert relay.in_flight == 0
        assert len(stage.told(RecordBuried)) == 2


def test_a_database_that_goes_away_during_a_burial_does_not_end_the_relay(stage: Stage) -> None:
    """The reader forgets the lane meanwhile; the burial that succeeds then finds no lane."""
    stage.store.add("a", "b")
    record = Policy(when_exhausted=WhenExhausted.DEAD_LETTER_RECORD)
    with stage.running(policy=record) as relay:
        stage.sent(2)
        stage.target.waiting.reverse()
        stage.target.acknowledge()
        stage.store.fail("bury", "read")
        stage.target.fail(POISON)
        wait_for(lambda: stage.store.calls["bury"] >= 2, "it is repeated")
        wait_for(lambda: relay.in_flight == 0, "the lane is forgotten")
        stage.store.mend()
        wait_for(lambda: stage.store.dead == [1], "it is buried")
        stage.store.add("a")
        stage.sent(3)
        assert relay.state is RelayState.RUNNING


# -- trouble is told, not shouted ----------------------------------------------------------------


def test_an_arbiter_that_stays_away_is_told_of_once_and_not_at_every_pulse(stage: Stage) -> None:
    relay = stage.relay().start()
    pulses = 0

    def count(event: Event) -> None:
        nonlocal pulses
        pulses += 1

    stage.bus.subscribe(count, DatabaseLost)
    stage.election.error = DatabaseFailed("no answer")
    wait_for(lambda: pulses > 0, "it is told")
    time.sleep(0.1)  # some fifty pulses
    assert pulses == 1
    stage.election.error = DatabaseFailed("another reason")
    wait_for(lambda: pulses == 2, "a new reason is told at once")
    stage.election.error = None
    relay.stop()
    assert relay.wait(5.0)


def test_the_scripted_store_marks_as_the_real_one_does() -> None:
    from uuid import uuid4

    store, leader = ScriptedStore(), uuid4()
    store.add("a", "b", "a")
    assert [row.id for row in store.read(leader, 2)] == [1, 2]
    assert [row.id for row in store.read(leader, 10)] == [3]
    assert store.read(leader, 10) == []
    assert [row.id for row in store.read(uuid4(), 10, ["b"])] == [1, 3]
