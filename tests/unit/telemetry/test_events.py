from __future__ import annotations

import logging
import threading
from dataclasses import FrozenInstanceError, dataclass

import pytest

from windrow.telemetry import Event, EventBus, Metrics


@dataclass(frozen=True, slots=True)
class LeaderAcquired(Event):
    epoch: int


@dataclass(frozen=True, slots=True)
class LeaderLost(Event):
    epoch: int


@dataclass(frozen=True, slots=True)
class HTTPRequestSent(Event):
    pass


@dataclass(frozen=True, slots=True)
class LeaderLostByFencing(LeaderLost):
    by: str


def failing(event: Event) -> None:
    raise ValueError(event.name)


def test_an_event_takes_its_name_from_its_class() -> None:
    assert (LeaderAcquired(1).name, HTTPRequestSent.name) == (
        "leader_acquired",
        "http_request_sent",
    )


def test_an_event_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        LeaderAcquired(1).epoch = 2  # type: ignore[misc]
    assert not hasattr(LeaderAcquired(1), "__dict__")


def test_a_handler_gets_the_events_of_its_types_and_no_others() -> None:
    bus, seen = EventBus(), list[Event]()
    bus.subscribe(seen.append, LeaderAcquired, HTTPRequestSent)
    for event in (LeaderAcquired(1), LeaderLost(1), HTTPRequestSent()):
        bus.emit(event)
    assert seen == [LeaderAcquired(1), HTTPRequestSent()]


def test_a_handler_of_a_base_gets_what_derives_from_it() -> None:
    bus, seen = EventBus(), list[Event]()
    bus.subscribe(seen.append, LeaderLost)
    bus.emit(LeaderLostByFencing(1, "b"))
    assert seen == [LeaderLostByFencing(1, "b")]


def test_a_handler_of_no_type_gets_every_event() -> None:
    bus, seen = EventBus(), list[Event]()
    bus.subscribe(seen.append)
    bus.emit(LeaderAcquired(1))
    bus.emit(LeaderLost(1))
    assert seen == [LeaderAcquired(1), LeaderLost(1)]


def test_an_unsubscribed_handler_hears_nothing_more() -> None:
    bus, gone, kept = EventBus(), list[Event](), list[Event]()
    unsubscribe = bus.subscribe(gone.append)
    bus.subscribe(kept.append)
    bus.emit(LeaderAcquired(1))
    unsubscribe()
    unsubscribe()
    bus.emit(LeaderAcquired(2))
    assert (gone, kept) == ([LeaderAcquired(1)], [LeaderAcquired(1), LeaderAcquired(2)])


def test_a_handler_added_after_a_type_was_first_emitted_is_heard() -> None:
    """The route of a type is remembered, and must be forgotten when somebody joins."""
    bus, seen = EventBus(), list[Event]()
    bus.emit(LeaderAcquired(1))
    bus.subscribe(seen.append, LeaderAcquired)
    bus.emit(LeaderAcquired(2))
    assert seen == [LeaderAcquired(2)]


def test_a_handler_that_raises_keeps_the_event_from_nobody() -> None:
    bus, seen = EventBus(), list[Event]()
    bus.subscribe(failing)
    bus.subscribe(seen.append)
    bus.emit(LeaderAcquired(1))
    assert seen == [LeaderAcquired(1)]


def test_each_error_of_a_handler_is_counted() -> None:
    metrics = Metrics()
    bus = EventBus(metrics)
    bus.subscribe(failing)
    for epoch in range(3):
        bus.emit(LeaderAcquired(epoch))
    bus.emit(LeaderLost(1))
    exposed = metrics.exposition().decode()
    assert 'windrow_event_handler_errors_total{event="leader_acquired"} 3.0' in exposed
    assert 'windrow_event_handler_errors_total{event="leader_lost"} 1.0' in exposed


def test_a_failing_handler_is_logged_once_per_type_of_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    errors = iter([ValueError(), ValueError(), KeyError(), ValueError()])

    def fail_variously(event: Event) -> None:
        raise next(errors)

    bus = EventBus()
    bus.subscribe(fail_variously)
    with caplog.at_level(logging.ERROR):
        for epoch in range(4):
            bus.emit(LeaderAcquired(epoch))
    logged = [record.exc_info[0] for record in caplog.records if record.exc_info]
    assert logged == [ValueError, KeyError]
    assert "fail_variously" in caplog.records[0].__dict__["handler"]


def test_an_order_to_stop_passes_through_the_bus() -> None:
    """A KeyboardInterrupt is addressed to the process, not to whoever it happens to hit."""

    def interrupted(event: Event) -> None:
        raise KeyboardInterrupt

    bus = EventBus()
    bus.subscribe(interrupted)
    with pytest.raises(KeyboardInterrupt):
        bus.emit(LeaderAcquired(1))


def test_an_event_nobody_wants_costs_one_lookup() -> None:
    class CountedDict(dict[type[Event], tuple[()]]):
        lookups = 0

        def get(self, *args: object) -> object:  # type: ignore[override]
            self.lookups += 1
            return super().get(*args)  # type: ignore[call-overload]

    bus = EventBus()
    bus.emit(LeaderAcquired(1))
    routes = CountedDict(bus._routes)  # type: ignore[arg-type]
    bus._routes = routes  # type: ignore[assignment]
    for epoch in range(100):
        bus.emit(LeaderAcquired(epoch))
    assert routes.lookups == 100


def test_no_event_is_missed_while_others_come_and_go() -> None:
    bus, seen, stop = EventBus(), list[Event](), threading.Event()
    bus.subscribe(seen.append)

    def come_and_go() -> None:
        while not stop.is_set():
            bus.subscribe(lambda event: None)()

    thread = threading.Thread(target=come_and_go)
    thread.start()
    for epoch in range(2_000):
        bus.emit(LeaderAcquired(epoch))
    stop.set()
    thread.join()
    assert seen == [LeaderAcquired(epoch) for epoch in range(2_000)]
