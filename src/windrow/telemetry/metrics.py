"""Every metric of Windrow, in one table, and the way to the objects that count.

A layer that measures something adds its row to ``METRICS`` and asks ``Metrics`` for it by name.
Names follow Prometheus: base units (``_seconds``, ``_bytes``), ``_total`` on counters, and labels
with few values only, never a record's key or id.
"""

from __future__ import annotations

import difflib
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

from windrow.telemetry.errors import UnknownMetric, WrongLabels
from windrow.version import __version__

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

PREFIX = "windrow_"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Kind = Literal["counter", "gauge", "histogram"]
Unit = Literal["seconds", "bytes", "ratio"]


@dataclass(frozen=True, slots=True)
class Metric:
    """One row of the table. The name is without the prefix; a count has no unit."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    unit: Unit | None = None

    @property
    def full_name(self) -> str:
        """The name as Prometheus sees it."""
        return PREFIX + self.name


METRICS: tuple[Metric, ...] = (
    Metric("build_info", "gauge", "Always 1; the label says what runs.", ("version",)),
    Metric(
        "event_handler_errors_total",
        "counter",
        "Events whose handler raised; the work that emitted them went on.",
        ("event",),
    ),
    Metric("health_check_up", "gauge", "1 if the health check passes, else 0.", ("check",)),
    Metric("log_events_total", "counter", "Log events, by level.", ("level",)),
    Metric("relay_delivered_total", "counter", "Records delivered and purged."),
    Metric("relay_in_flight", "gauge", "Records that the leader holds, sent or not."),
    Metric("relay_leader", "gauge", "1 if this relay leads, else 0."),
    Metric("relay_shards", "gauge", "Shards that this relay leads."),
    Metric(
        "relay_leadership_total",
        "counter",
        "Leaderships acquired, refreshed, revoked and fenced.",
        ("change",),
    ),
    Metric("relay_failures_total", "counter", "Deliveries that failed, by kind.", ("kind",)),
    Metric("relay_lanes_held_total", "counter", "Keys that were held for a person."),
    Metric("relay_dead_letters_total", "counter", "Records moved to the dead letters."),
    Metric("relay_database_errors_total", "counter", "Statements that failed."),
    Metric("relay_election_errors_total", "counter", "Times that nobody could be elected."),
    Metric("competing_claimed_total", "counter", "Messages claimed by this competing relay."),
    Metric("competing_delivered_total", "counter", "Messages delivered, and removed."),
    Metric("competing_retries_total", "counter", "Sends that failed and count as an attempt."),
    Metric("competing_outages_total", "counter", "Sends that nobody answered; none is counted."),
    Metric("competing_dead_letters_total", "counter", "Messages moved to the dead letters."),
    Metric("competing_released_total", "counter", "Messages given back without a try."),
    Metric("competing_leases_renewed_total", "counter", "Leases that were lengthened."),
    Metric(
        "competing_leases_lost_total",
        "counter",
        "Leases that ended before their messages were dealt with.",
    ),
    Metric("competing_held", "gauge", "Messages that this relay has claimed and not ended."),
    Metric("competing_sending", "gauge", "Messages on their way."),
    Metric("competing_open_circuits", "gauge", "Destinations that are left alone for now."),
    Metric(
        "competing_circuits_total",
        "counter",
        "Times that circuits opened and closed.",
        ("change",),
    ),
    Metric("competing_database_errors_total", "counter", "Times that the database was away."),
    Metric("journal_calls_started_total", "counter", "Calls of a broker begun.", ("operation",)),
    Metric(
        "journal_calls_ended_total",
        "counter",
        "Calls of a broker ended, by the protocol's status or as an error.",
        ("operation", "outcome"),
    ),
    Metric("journal_append_bytes_total", "counter", "Bytes committed for clients.", unit="bytes"),
    Metric("journal_read_bytes_total", "counter", "Bytes sent to readers.", unit="bytes"),
    Metric(
        "journal_client_appends_total",
        "counter",
        "Tries of appends by this client: committed, refused, failed or unknown.",
        ("outcome",),
    ),
    Metric(
        "journal_client_append_bytes_total",
        "counter",
        "Bytes that this client had committed.",
        unit="bytes",
    ),
    Metric(
        "journal_client_read_bytes_total", "counter", "Bytes this client has read.", unit="bytes"
    ),
    Metric(
        "journal_client_retries_total",
        "counter",
        "Calls that this client made again.",
        ("operation",),
    ),
    Metric("journal_replicas", "gauge", "Journals this broker has a replica of."),
    Metric("journal_primaries", "gauge", "Journals this broker is the primary of."),
    Metric("journal_items", "gauge", "Journals of the cluster."),
    Metric("journal_members", "gauge", "Brokers of the cluster."),
    Metric("graph_messages_total", "counter", "Messages that were taken in.", ("processor",)),
    Metric("graph_batches_total", "counter", "Batches that were delivered.", ("processor",)),
    Metric(
        "graph_batch_seconds",
        "histogram",
        "How long a batch took, from its plan to its end.",
        ("processor",),
        (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0),
        "seconds",
    ),
    Metric("graph_lag", "gauge", "Messages that wait.", ("processor", "leg")),
    Metric("graph_running", "gauge", "1 if the query of a leg runs, else 0.", ("processor", "leg")),
    Metric("graph_starts_total", "counter", "Starts of queries.", ("processor",)),
    Metric(
        "graph_failures_total",
        "counter",
        "Queries that ended with an error, by what it means for the next start.",
        ("processor", "kind"),
    ),
)


class Metrics:
    """The metrics of one process, or of one test.

    Nothing is created before it is asked for, so a process that measures nothing pays nothing.
    Calls are thread-safe; on a hot path, keep the object that an accessor returns.
    """

    def __init__(
        self, registry: CollectorRegistry | None = None, table: Iterable[Metric] = METRICS
    ) -> None:
        self._registry = registry
        self._rows = {metric.name: metric for metric in table}
        self._made: dict[str, Any] = {}
        self._making = threading.Lock()

    def counter(self, name: str, /, **labels: str) -> Counter:
        """The counter of that name, with a value for each of its labels.

        Raises:
            UnknownMetric: The table has no such counter.
            WrongLabels: The table gives it other labels.
        """
        return cast("Counter", self._get("counter", name, labels))

    def gauge(self, name: str, /, **labels: str) -> Gauge:
        """The gauge of that name; as ``counter``."""
        return cast("Gauge", self._get("gauge", name, labels))

    def histogram(self, name: str, /, **labels: str) -> Histogram:
        """The histogram of that name; as ``counter``."""
        return cast("Histogram", self._get("histogram", name, labels))

    def exposition(self) -> bytes:
        """All that was measured, in Prometheus' text format (``CONTENT_TYPE``)."""
        from prometheus_client import generate_latest

        if "build_info" in self._rows:
            self.gauge("build_info", version=__version__).set(1)
        with self._making:
            registry = self._our_registry()
        return generate_latest(registry)

    def _get(self, kind: Kind, name: str, labels: dict[str, str]) -> Any:
        row = self._rows.get(name)
        if row is None or row.kind != kind:
            raise UnknownMetric(kind, name, self._hint(name))
        if labels.keys() != set(row.labels):
            raise WrongLabels(row.full_name, labels, row.labels)
        made = self._made.get(name)
        if made is None:
            made = self._make(row)
        return made.labels(**labels) if labels else made

    def _make(self, row: Metric) -> Any:
        with self._making:
            if row.name not in self._made:
                self._made[row.name] = _maker(row)(
                    row.full_name, row.help, row.labels, registry=self._our_registry()
                )
            return self._made[row.name]

    def _our_registry(self) -> CollectorRegistry:
        if self._registry is None:
            from prometheus_client import CollectorRegistry

            # Not the library's global one: a host application's metrics are not ours to serve.
            self._registry = CollectorRegistry()
        return self._registry

    def _hint(self, name: str) -> str:
        if name in self._rows:
            return f"it is a {self._rows[name].kind}"
        bare = name.removeprefix(PREFIX)
        near = difflib.get_close_matches(bare, self._rows, n=1, cutoff=0.8)
        return f'did you mean "{near[0]}"?' if near else ""


def _maker(row: Metric) -> Callable[..., Any]:
    from functools import partial

    import prometheus_client

    match row.kind:
        case "counter":
            return prometheus_client.Counter
        case "gauge":
            return prometheus_client.Gauge
        case "histogram":
            return partial(prometheus_client.Histogram, buckets=row.buckets)
