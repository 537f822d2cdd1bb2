"""What a competing relay tells, turned into log lines and metrics. Counts are sampled."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from windrow.relay.competing.events import (
    CircuitClosed,
    CircuitOpened,
    LeasesLost,
    MessageBuried,
    MessageFailed,
)
from windrow.relay.events import DatabaseLost
from windrow.telemetry import get_logger
from windrow.telemetry.events import Event, EventBus
from windrow.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from windrow.relay.competing.service import CompetingRelay

_log = get_logger("windrow.relay")

_LEVELS = {
    CircuitOpened: "warning",
    DatabaseLost: "warning",
    LeasesLost: "warning",
    MessageFailed: "warning",
    MessageBuried: "error",
}
_COUNTERS = {
    "claimed": "competing_claimed_total",
    "delivered": "competing_delivered_total",
    "retried": "competing_retries_total",
    "outages": "competing_outages_total",
    "buried": "competing_dead_letters_total",
    "released": "competing_released_total",
    "renewed": "competing_leases_renewed_total",
    "lost": "competing_leases_lost_total",
}


def log_events(bus: EventBus) -> None:
    """Write every event of a competing relay to the log."""
    bus.subscribe(_log_event)


def _log_event(event: Event) -> None:
    getattr(_log, _LEVELS.get(type(event), "info"))(event.name.replace("_", " "), **asdict(event))


def count_events(bus: EventBus, metrics: Metrics) -> None:
    """Count what happens seldom, as it happens."""

    def on_circuit(event: Event) -> None:
        metrics.counter(
            "competing_circuits_total", change=event.name.removeprefix("circuit_")
        ).inc()

    bus.subscribe(on_circuit, CircuitOpened, CircuitClosed)
    bus.subscribe(
        lambda event: metrics.counter("competing_database_errors_total").inc(), DatabaseLost
    )


class CompetingSampler:
    """Reads a relay's own counts now and then, so that the hot path need not tell them."""

    def __init__(self, relay: CompetingRelay, metrics: Metrics) -> None:
        self._relay, self._metrics = relay, metrics
        self._seen = asdict(relay.counts)

    def sample(self) -> int:
        """Bring the metrics up to date; returns how many messages moved since the last time."""
        counts = asdict(self._relay.counts)
        for name, metric in _COUNTERS.items():
            self._metrics.counter(metric).inc(counts[name] - self._seen[name])
        moved = counts["claimed"] - self._seen["claimed"]
        self._seen = counts
        self._metrics.gauge("competing_held").set(self._relay.in_flight)
        self._metrics.gauge("competing_sending").set(self._relay.sending)
        self._metrics.gauge("competing_open_circuits").set(self._relay.open_circuits)
        return int(moved)
