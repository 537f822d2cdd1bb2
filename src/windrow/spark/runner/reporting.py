"""What a runner tells, turned into log lines and metrics."""

from __future__ import annotations

from dataclasses import fields

from windrow.spark.runner.events import (
    BatchDelivered,
    ProcessorFailed,
    ProcessorGivenUp,
    ProcessorStarted,
    TopologyAccepted,
)
from windrow.telemetry import get_logger
from windrow.telemetry.events import Event, EventBus
from windrow.telemetry.metrics import Metrics

_log = get_logger("windrow.graph")

_LEVELS = {
    BatchDelivered: "debug",
    ProcessorFailed: "warning",
    ProcessorGivenUp: "error",
    TopologyAccepted: "warning",
}


def log_events(bus: EventBus) -> None:
    """Write every event of a runner to the log."""
    bus.subscribe(_log_event)


def count_events(bus: EventBus, metrics: Metrics) -> None:
    """Count what happens, by processor."""

    def on_batch(event: BatchDelivered) -> None:
        metrics.counter("graph_messages_total", processor=event.processor).inc(event.rows)
        metrics.counter("graph_batches_total", processor=event.processor).inc()
        metrics.histogram("graph_batch_seconds", processor=event.processor).observe(event.seconds)
        metrics.gauge("graph_lag", processor=event.processor, leg=event.leg).set(event.lag)

    def on_failure(event: ProcessorFailed | ProcessorGivenUp) -> None:
        kind = event.cause.kind.value
        metrics.counter("graph_failures_total", processor=event.processor, kind=kind).inc()
        metrics.gauge("graph_running", processor=event.processor, leg=event.leg).set(0)

    def on_start(event: ProcessorStarted) -> None:
        metrics.counter("graph_starts_total", processor=event.processor).inc()
        metrics.gauge("graph_running", processor=event.processor, leg=event.leg).set(1)

    bus.subscribe(on_batch, BatchDelivered)
    bus.subscribe(on_failure, ProcessorFailed)
    bus.subscribe(on_failure, ProcessorGivenUp)
    bus.subscribe(on_start, ProcessorStarted)


def _log_event(event: Event) -> None:
    told = {field.name: getattr(event, field.name) for field in fields(event)}
    if "cause" in told:
        told["cause"] = str(told["cause"])
    getattr(_log, _LEVELS.get(type(event), "info"))(event.name.replace("_", " "), **told)
