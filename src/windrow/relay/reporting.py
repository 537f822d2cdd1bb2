"""What a relay tells, turned into log lines and metrics. Off the hot path: counts are sampled."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from windrow.relay.events import (
    DatabaseLost,
    ElectionTroubled,
    LaneHeld,
    LeaderAcquired,
    LeaderFenced,
    LeaderOverran,
    LeaderRefreshed,
    LeaderRevoked,
    MeterRead,
    RecordBuried,
    RecordFailed,
    TargetLost,
)
from windrow.telemetry import get_logger
from windrow.telemetry.events import Event, EventBus
from windrow.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from windrow.relay.service import Relay

_log = get_logger("windrow.relay")

_LEVELS = {
    LeaderFenced: "warning",
    LeaderOverran: "warning",
    DatabaseLost: "warning",
    ElectionTroubled: "warning",
    TargetLost: "warning",
    RecordFailed: "warning",
    LaneHeld: "error",
    RecordBuried: "error",
    MeterRead: "debug",
}


def log_events(bus: EventBus) -> None:
    """Write every event of a relay to the log."""
    bus.subscribe(_log_event)


def _log_event(event: Event) -> None:
    fields = {
        name: str(value) if name == "failure" else value for name, value in asdict(event).items()
    }
    if hasattr(event, "failure"):
        fields["failure"] = str(event.failure)
    getattr(_log, _LEVELS.get(type(event), "info"))(event.name.replace("_", " "), **fields)


def count_events(bus: EventBus, metrics: Metrics) -> None:
    """Count what happens, by kind."""

    def on_leadership(event: Event) -> None:
        metrics.counter("relay_leadership_total", change=event.name.removeprefix("leader_")).inc()

    def on_failed(event: RecordFailed | TargetLost) -> None:
        metrics.counter("relay_failures_total", kind=event.failure.kind.value).inc()

    leadership = (LeaderAcquired, LeaderRefreshed, LeaderRevoked, LeaderFenced, LeaderOverran)
    bus.subscribe(on_leadership, *leadership)
    bus.subscribe(on_failed, RecordFailed)
    bus.subscribe(on_failed, TargetLost)
    bus.subscribe(lambda event: metrics.counter("relay_lanes_held_total").inc(), LaneHeld)
    bus.subscribe(lambda event: metrics.counter("relay_dead_letters_total").inc(), RecordBuried)
    bus.subscribe(lambda event: metrics.counter("relay_database_errors_total").inc(), DatabaseLost)
    bus.subscribe(
        lambda event: metrics.counter("relay_election_errors_total").inc(), ElectionTroubled
    )


class Sampler:
    """Reads a relay's own counts now and then, so that the hot path need not tell them."""

    def __init__(self, relay: Relay, metrics: Metrics) -> None:
        self._relay, self._metrics = relay, metrics
        self._delivered = 0

    def sample(self) -> int:
        """Bring the metrics up to date; returns how much was delivered since the last time."""
        delivered = self._relay.delivered
        new, self._delivered = delivered - self._delivered, delivered
        self._metrics.counter("relay_delivered_total").inc(new)
        self._metrics.gauge("relay_in_flight").set(self._relay.in_flight)
        self._metrics.gauge("relay_leader").set(self._relay.is_leader)
        self._metrics.gauge("relay_shards").set(len(self._relay.shards))
        return new
