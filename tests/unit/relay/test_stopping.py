"""How a relay ends when the election does not answer, or says that it is over."""

from __future__ import annotations

import time

import pytest

from tests.unit.relay.scripted import ScriptedElection, Stage, wait_for
from windrow.outbox.errors import DatabaseFailed, Fenced
from windrow.relay.events import DatabaseLost, LeaderFenced


class MuteElection(ScriptedElection):
    """Cannot be resigned from the first time."""

    def resign(self) -> None:
        super().resign()
        if self.resigned == 1:
            raise DatabaseFailed("simulated")


def test_a_stop_lets_what_is_in_flight_settle_though_the_election_fails_meanwhile() -> None:
    stage = Stage()
    (row,) = stage.store.add("key")
    with stage.running(drain_timeout=10.0) as relay:
        assert stage.sent(1) == [row.id]
        stage.election.error = DatabaseFailed("simulated")
        relay.stop()
        wait_for(lambda: bool(stage.told(DatabaseLost)), "the election has failed")
        assert stage.target.closed == 0
        stage.target.acknowledge()
        assert relay.wait(10.0)
    assert stage.store.rows == {}


def test_a_stop_stops_asking_once_the_right_has_run_out() -> None:
    stage = Stage()
    stage.store.add("key")
    stage.election.valid_until = time.monotonic() + 0.3
    with stage.running(drain_timeout=1.0) as relay:
        stage.sent(1)
        stage.election.error = DatabaseFailed("simulated")
        relay.stop()
        wait_for(lambda: time.monotonic() > stage.election.valid_until, "the right is gone")
        told = len(stage.told(DatabaseLost))
        assert relay.wait(10.0)
        assert len(stage.told(DatabaseLost)) <= told + 1
    assert stage.election.resigned == 0


def test_a_resignation_that_fails_is_tried_once_more() -> None:
    stage = Stage(election=MuteElection())
    with stage.running() as relay:
        relay.stop()
        assert relay.wait(10.0)
    assert stage.election.resigned == 2


def test_an_election_that_says_another_leads_ends_the_relay_with_the_reason() -> None:
    stage = Stage()
    stage.store.add("key")
    relay = stage.relay().start()
    stage.election.acquire()
    stage.sent(1)
    stage.election.error = Fenced("outbox", 1)
    with pytest.raises(Fenced):
        relay.wait(10.0)
    assert [event.records_in_flight for event in stage.told(LeaderFenced)] == [1]
