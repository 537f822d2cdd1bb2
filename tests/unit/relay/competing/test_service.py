"""The loop and the thread of a competing relay, with both its ends in memory."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.relay.competing.memory import MemoryClaims, MemoryTarget
from windrow.config.competing import Competing
from windrow.errors import Unreachable
from windrow.outbox.errors import DatabaseFailed, WrongSchema
from windrow.relay.competing.contract import Claim, Later, Outcome, Refused
from windrow.relay.competing.events import CircuitClosed, CircuitOpened
from windrow.relay.competing.reporting import CompetingSampler, count_events, log_events
from windrow.relay.competing.service import CompetingRelay
from windrow.relay.events import DatabaseLost
from windrow.relay.service import RelayState
from windrow.telemetry import EventBus, Metrics
from windrow.telemetry.events import Event


def wait_for(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, f"not within 30 s: {what}"
        threading.Event().wait(0.002)


class Bench:
    def __init__(self, **settings: Any) -> None:
        self.store = MemoryClaims(time.monotonic)
        self.target = MemoryTarget()
        self.told: list[Event] = []
        self.bus = EventBus()
        self.bus.subscribe(self.told.append)
        self.settings = {"retry_delay": 0.001, "max_retry_delay": 0.01, "batch": 10} | settings

    def relay(self, drain_timeout: float = 10.0) -> CompetingRelay:
        settings = Competing.model_validate(self.settings)
        return CompetingRelay(
            self.store, self.target, settings, events=self.bus, drain_timeout=drain_timeout
        )

    def wait_until_empty(self) -> None:
        wait_for(lambda: not self.store.rows, "the outbox is empty")

    def has_told(self, kind: type[Event]) -> bool:
        return any(isinstance(event, kind) for event in self.told)


def test_messages_are_sent_once_each_and_removed_in_batches() -> None:
    bench = Bench(batch=100)
    bench.store.put(*range(1000))
    with bench.relay() as relay:
        bench.wait_until_empty()
    assert sorted(bench.target.arrived) == sorted(f"message-{row}" for row in range(1000))
    assert bench.store.calls.count("finish") < 200
    assert relay.delivered == 1000
    assert relay.state is RelayState.STOPPED


def test_no_more_messages_are_on_their_way_than_allowed() -> None:
    bench = Bench(concurrency=7)
    bench.store.put(*range(100))
    with bench.relay():
        bench.wait_until_empty()
    assert bench.target.most_at_once == 7


def test_two_relays_share_the_work_and_send_nothing_twice() -> None:
    bench = Bench()
    bench.store.put(*range(500))
    with bench.relay(), bench.relay():
        bench.wait_until_empty()
    assert len(bench.target.arrived) == len(set(bench.target.arrived)) == 500


def test_refusals_are_buried_and_failures_retried_until_their_last_attempt() -> None:
    bench = Bench(max_attempts=3)

    def answer(claim: Claim) -> Outcome:
        return Refused("400") if claim.id == 1 else Later("500")

    bench.target.answer = answer
    bench.store.put(1, 2)
    with bench.relay():
        bench.wait_until_empty()
    assert bench.store.dead == {1: "400", 2: "500"}
    assert bench.target.arrived.count("message-2") == 3


def test_target_that_breaks_counts_as_a_failure_of_the_message() -> None:
    bench = Bench(max_attempts=2)

    def answer(claim: Claim) -> Outcome:
        raise ZeroDivisionError("a mistake")

    bench.target.answer = answer
    bench.store.put(1)
    with bench.relay():
        bench.wait_until_empty()
    assert bench.store.dead == {1: "the target failed: ZeroDivisionError: a mistake"}


def test_circuit_opens_when_nobody_answers_and_closes_again() -> None:
    bench = Bench(circuit={"failures": 2, "open_for": 0.05})
    bench.target.answer = lambda claim: Later("refused", is_outage=True)
    bench.store.put(*range(20))
    with bench.relay() as relay:
        wait_for(lambda: bench.has_told(CircuitOpened), "it opens")
        assert relay.open_circuits == 1
        bench.target.answer = MemoryTarget().answer
        bench.wait_until_empty()
    assert bench.has_told(CircuitClosed)
    assert not bench.store.dead


def test_stop_waits_for_what_is_on_its_way_and_gives_the_rest_back() -> None:
    bench = Bench(concurrency=3)
    bench.target.is_held = True
    bench.store.put(*range(10))
    relay = bench.relay().start()
    wait_for(lambda: len(bench.target.arrived) == 3, "three are on their way")
    relay.stop()
    wait_for(lambda: "release" in bench.store.calls, "the rest goes back")
    assert not relay.wait(0.0)
    bench.target.is_held = False
    assert relay.wait(30)
    assert len(bench.store.rows) == 7
    assert all(row.token is None for row in bench.store.rows.values())
    assert not bench.target.is_open


def test_stop_that_waited_long_enough_gives_back_what_was_not_answered() -> None:
    bench = Bench(concurrency=3)
    bench.target.is_held = True
    bench.store.put(*range(10))
    relay = bench.relay(drain_timeout=0.01).start()
    wait_for(lambda: len(bench.target.arrived) == 3, "three are on their way")
    relay.stop()
    assert relay.wait(30)
    assert len(bench.store.rows) == 10
    assert all(row.token is None for row in bench.store.rows.values())


def test_second_stop_does_not_wait() -> None:
    bench = Bench()
    bench.target.is_held = True
    bench.store.put(1)
    relay = bench.relay(drain_timeout=1000.0).start()
    wait_for(lambda: bench.target.arrived, "it is on its way")
    relay.stop()
    relay.stop(0.0)
    assert relay.wait(30)


@pytest.mark.parametrize("error", [DatabaseFailed("link broke"), Unreachable("db", "h", "no")])
def test_database_that_goes_away_is_asked_again_until_it_is_back(error: Exception) -> None:
    bench = Bench()
    with bench.relay() as relay:
        bench.store.put(*range(20))
        bench.wait_until_empty()
        bench.store.error = error
        wait_for(lambda: bench.has_told(DatabaseLost), "the loss is told")
        assert not relay.has_database
        bench.store.put(*range(20, 40))
        bench.store.error = None
        bench.wait_until_empty()
        wait_for(lambda: relay.has_database, "it is back")
    assert len(bench.target.arrived) == 40


def test_outcome_that_could_not_be_written_down_is_kept_until_the_database_is_back() -> None:
    bench = Bench()
    bench.target.is_held = True
    bench.store.put(1)
    with bench.relay() as relay:
        wait_for(lambda: bench.target.arrived, "it is on its way")
        bench.store.error = DatabaseFailed("link broke")
        bench.target.is_held = False
        wait_for(lambda: relay.sending == 0, "it was answered")
        wait_for(lambda: not relay.has_database, "nothing can be written down")
        bench.store.error = None
        bench.wait_until_empty()
    assert bench.target.arrived == ["message-1"]


def test_stop_without_a_database_takes_no_longer_than_it_may() -> None:
    bench = Bench()
    relay = bench.relay(drain_timeout=0.05).start()
    bench.store.error = DatabaseFailed("link broke")
    wait_for(lambda: not relay.has_database, "it is away")
    relay.stop()
    assert relay.wait(30)


def test_error_that_cannot_be_mended_ends_the_relay_and_is_raised_by_wait() -> None:
    bench = Bench()
    relay = bench.relay().start()
    bench.store.error = WrongSchema("outbox", "does not exist")
    with pytest.raises(WrongSchema):
        relay.wait(30)
    assert relay.state is RelayState.STOPPED


def test_database_that_is_away_at_the_start_is_an_error_of_the_start() -> None:
    bench = Bench()
    bench.store.error = Unreachable("PostgreSQL", "db:5432", "refused")
    relay = bench.relay()
    with pytest.raises(Unreachable):
        relay.start()
    assert relay.state is RelayState.STOPPED


def test_relay_starts_once() -> None:
    with Bench().relay() as relay, pytest.raises(RuntimeError, match="starts once"):
        relay.start()


def test_what_happened_is_counted_and_logged() -> None:
    bench = Bench(max_attempts=2, circuit={"failures": 1, "open_for": 0.01})
    metrics = Metrics()
    count_events(bench.bus, metrics)
    log_events(bench.bus)
    outcomes: dict[int, list[Outcome]] = {1: [Later("x", is_outage=True)], 2: [Refused("400")]}
    bench.target.answer = lambda claim: (
        outcomes[claim.id].pop() if outcomes.get(claim.id) else MemoryTarget().answer(claim)
    )
    bench.store.put(1, topic="a")
    bench.store.put(2, topic="b")
    relay = bench.relay()
    sampler = CompetingSampler(relay, metrics)
    with relay:
        bench.wait_until_empty()
    sampler.sample()
    text = metrics.exposition().decode()
    for line in (
        "windrow_competing_delivered_total 1.0",
        "windrow_competing_outages_total 1.0",
        "windrow_competing_dead_letters_total 1.0",
        'windrow_competing_circuits_total{change="opened"} 1.0',
        'windrow_competing_circuits_total{change="closed"} 1.0',
        "windrow_competing_held 0.0",
    ):
        assert line in text
