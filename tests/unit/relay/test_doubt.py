"""What a relay does in doubt: of its marks, its target, its lead, or what it is just reading."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from uuid import UUID

from tests.unit.relay.scripted import POISON, ScriptedStore, Stage, wait_for
from windrow.outbox.errors import Fenced
from windrow.outbox.marked import Marked
from windrow.relay.events import DatabaseLost, LeaderFenced, RecordFailed
from windrow.relay.failure import Failure, FailureKind
from windrow.relay.policy import Policy

DOWN = Failure(FailureKind.TARGET_DOWN, "no-broker", "nobody answers")


def test_nothing_is_read_anew_before_all_that_was_sent_has_settled() -> None:
    """Its row may have lost its mark with the connection: it would be taken up behind itself."""
    stage = Stage()
    stage.store.add("a", "a")
    with stage.running() as relay:
        assert stage.sent(1) == [1]
        stage.store.fail("read")
        wait_for(lambda: bool(stage.told(DatabaseLost)), "the marks are in doubt")
        stage.store.mend()
        stage.store.add("b")
        looks, reads = stage.store.calls["forget"], stage.store.calls["read"]
        wait_for(lambda: stage.store.calls["forget"] > looks + 5, "it looks whether all is settled")
        assert stage.store.calls["read"] == reads
        assert stage.sent(1) == [1]
        stage.target.acknowledge()
        assert stage.sent(3) == [1, 2, 3]
        stage.target.acknowledge(2)
        wait_for(lambda: relay.delivered == 3, "all are purged")


def test_what_is_found_during_an_outage_of_the_target_waits_for_its_end() -> None:
    """Else every key would knock at a broker that is down, each with a time-out of its own."""
    stage = Stage()
    stage.store.add("a")
    with stage.running(policy=Policy(base_delay=60.0, max_delay=60.0)) as relay:
        stage.sent(1)
        stage.target.fail(DOWN)
        wait_for(lambda: bool(stage.told(RecordFailed)), "the target is found to be down")
        stage.store.add("b")
        wait_for(lambda: relay.in_flight == 2, "the other is found")
        reads = stage.store.calls["read"]
        wait_for(lambda: stage.store.calls["read"] > reads + 1, "it was dealt with")
        assert stage.sent(1) == [1]


class SlowStore(ScriptedStore):
    """Keeps the answer to a read that found something until a key is held, or for a while."""

    def __init__(self) -> None:
        super().__init__()
        self.is_slow = False
        self.has_marked, self.has_held = threading.Event(), threading.Event()

    def read(self, leader: UUID, limit: int, excluded_keys: Sequence[str] = ()) -> list[Marked]:
        found = super().read(leader, limit, excluded_keys)
        if found and self.is_slow:
            self.has_marked.set()
            self.has_held.wait(0.3)
        return found

    def hold(self, key: str, ids: Sequence[int], reason: str, note: str) -> None:
        super().hold(key, ids, reason, note)
        self.has_held.set()


def test_a_lane_is_given_back_with_what_a_read_is_just_bringing() -> None:
    """Else that row would find no lane, and go before those that were given back."""
    store = SlowStore()
    stage = Stage(store=store)
    store.add("a")
    with stage.running() as relay:
        stage.sent(1)
        store.is_slow = True
        store.add("a")
        assert store.has_marked.wait(10.0)
        stage.target.fail(POISON)
        wait_for(lambda: store.held == {"a": "held"}, "the key is held")
        wait_for(lambda: relay.in_flight == 0, "its rows are forgotten")
        assert stage.sent(1) == [1]
        assert store.marks == {}


def test_an_idle_leader_finds_out_that_it_was_fenced() -> None:
    """To it every outbox looks empty, since a stale epoch marks nothing."""
    stage = Stage()
    stage.store.fail("check_fence", error=Fenced("outbox", 1))
    with stage.running():
        wait_for(lambda: bool(stage.told(LeaderFenced)), "it is told")


def test_a_stop_in_good_order_waits_for_what_a_read_is_just_bringing() -> None:
    """Else it would be sent after the end, and be sent again by whoever leads next."""
    store = SlowStore()
    stage = Stage(store=store)
    with stage.running() as relay:
        store.is_slow = True
        store.add("a")
        assert store.has_marked.wait(10.0)
        relay.stop(10.0)
        stage.sent(1)
        stage.target.acknowledge()
        assert relay.wait(10.0)
        assert store.rows == {}
