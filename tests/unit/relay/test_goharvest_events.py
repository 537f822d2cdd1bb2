"""What goharvest's unit tests ask of its events and its meter, asked of ours."""

from __future__ import annotations

import logging
from uuid import uuid4

import pytest

from windrow.relay.events import (
    LeaderAcquired,
    LeaderFenced,
    LeaderRefreshed,
    LeaderRevoked,
    MeterRead,
)
from windrow.relay.meter import Meter
from windrow.relay.reporting import log_events
from windrow.telemetry.events import Event, EventBus


@pytest.mark.parametrize("kind", [LeaderAcquired, LeaderRefreshed])
def test_an_event_of_leadership_names_itself_and_the_leader_in_its_text(
    kind: type[LeaderAcquired] | type[LeaderRefreshed],
) -> None:
    leader = str(uuid4())
    text = str(kind(7, leader))
    assert text.startswith(f"{kind.__name__}(")
    assert leader in text


@pytest.mark.parametrize("kind", [LeaderAcquired, LeaderRefreshed])
def test_an_event_of_leadership_gives_the_leaders_id(
    kind: type[LeaderAcquired] | type[LeaderRefreshed],
) -> None:
    leader = str(uuid4())
    assert kind(7, leader).leader_id == leader


def test_a_revoked_leader_has_a_text() -> None:
    assert str(LeaderRevoked(7)) == "LeaderRevoked(epoch=7, shard=0)"


def test_a_fenced_leader_has_a_text() -> None:
    assert str(LeaderFenced(7, 3)) == "LeaderFenced(epoch=7, records_in_flight=3, shard=0)"


def test_a_reading_of_the_meter_has_its_numbers_in_its_text() -> None:
    text = str(MeterRead(100, 12.5, 30, 15.0))
    assert text == "MeterRead(total=100, total_rate=12.5, interval=30, interval_rate=15.0)"


# -- the meter -----------------------------------------------------------------------------------


def test_a_meter_counts_since_the_start_and_since_the_last_reading() -> None:
    meter = Meter(interval=1.0, total=0, now=100.0)
    assert meter.read(1, 102.0) == MeterRead(1, 0.5, 1, 0.5)
    assert meter.read(3, 104.0) == MeterRead(3, 0.75, 2, 1.0)


def test_a_meter_made_later_begins_at_zero() -> None:
    meter = Meter(interval=1.0, total=40, now=100.0)
    assert meter.read(41, 101.0) == MeterRead(1, 1.0, 1, 1.0)


def test_a_meter_is_not_read_too_soon_nor_when_nothing_moved() -> None:
    meter = Meter(interval=5.0, total=0, now=100.0)
    assert meter.read(10, 104.9) is None
    assert meter.read(10, 105.0) is not None
    assert meter.read(10, 120.0) is None
    assert meter.read(10, 120.0) is None


def test_a_meter_without_an_interval_never_divides_by_nothing() -> None:
    meter = Meter(interval=0.0, total=0, now=100.0)
    assert meter.read(1, 100.0) is None
    assert meter.read(1, 100.5) == MeterRead(1, 2.0, 1, 2.0)


def test_a_reading_is_handed_to_whoever_asked_for_it() -> None:
    bus = EventBus()
    told: list[Event] = []
    bus.subscribe(told.append, MeterRead)
    reading = Meter(1.0, 0, 0.0).read(1, 2.0)
    assert reading is not None
    bus.emit(reading)
    assert told == [reading]


def test_a_reading_is_a_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    bus = EventBus()
    log_events(bus)
    caplog.set_level(logging.DEBUG, "windrow.relay")
    bus.emit(MeterRead(100, 12.5, 30, 15.0))
    (record,) = caplog.records
    assert record.levelname == "DEBUG"
    assert "meter read" in caplog.text
    assert "total=100" in caplog.text
