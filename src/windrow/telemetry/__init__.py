"""Telemetry: events, metrics, logs, traces and health."""

from windrow.telemetry.events import Event, EventBus
from windrow.telemetry.health import CheckKind, Health, HealthReport
from windrow.telemetry.logs import get_logger
from windrow.telemetry.metrics import Metric, Metrics
from windrow.telemetry.traces import TraceContext, extract, inject, span

__all__ = [
    "CheckKind",
    "Event",
    "EventBus",
    "Health",
    "HealthReport",
    "Metric",
    "Metrics",
    "TraceContext",
    "extract",
    "get_logger",
    "inject",
    "span",
]
