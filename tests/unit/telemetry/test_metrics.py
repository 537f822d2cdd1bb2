from __future__ import annotations

import pickle
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from prometheus_client import REGISTRY, CollectorRegistry

from windrow import __version__
from windrow.telemetry.errors import UnknownMetric, WrongLabels
from windrow.telemetry.metrics import METRICS, PREFIX, Metric, Metrics
from windrow.telemetry.reference import metrics_page

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "metrics.md"
LATENCY = Metric(
    "append_seconds", "histogram", "Time to append.", ("journal",), (0.02, 0.2, 2.0), "seconds"
)
UNBOUNDED = {"id", "key", "uuid", "record", "topic_key", "offset", "path", "url", "error", "time"}
NOT_BASE_UNITS = {"ms", "millis", "milliseconds", "us", "minutes", "kb", "mb", "percent"}
GENERATED_SUFFIXES = ("_count", "_sum", "_bucket", "_created")


def violations(metric: Metric) -> list[str]:
    """How a row departs from Prometheus' conventions for names, units and labels."""
    found = []
    words = metric.name.split("_")
    if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", metric.name):
        found.append("name is not lower snake case")
    if metric.name.startswith(PREFIX):
        found.append("name repeats the prefix")
    if metric.name.endswith("_total") != (metric.kind == "counter"):
        found.append("_total and counters belong together")
    if metric.name.endswith(GENERATED_SUFFIXES):
        found.append("suffix is one the client adds itself")
    if NOT_BASE_UNITS & set(words):
        found.append("unit is not a base unit")
    last = words[-2] if words[-1] == "total" and len(words) > 1 else words[-1]
    named = last if last in ("seconds", "bytes", "ratio") else None
    if named != metric.unit:
        found.append(f"unit is {metric.unit}, but the name says {named}")
    if bool(metric.buckets) != (metric.kind == "histogram"):
        found.append("buckets and histograms belong together")
    if list(metric.buckets) != sorted(set(metric.buckets)):
        found.append("buckets do not rise")
    found += [f"label {label} is unbounded" for label in metric.labels if is_unbounded(label)]
    if not re.fullmatch(r"[A-Z0-9].*\.", metric.help):
        found.append("help is not a sentence")
    return found


def is_unbounded(label: str) -> bool:
    return label in UNBOUNDED or label.endswith(("_id", "_key", "_uuid"))


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_row_follows_the_conventions_of_prometheus(metric: Metric) -> None:
    assert violations(metric) == []


def test_a_row_with_a_histogram_can_follow_the_conventions() -> None:
    assert violations(LATENCY) == []


@pytest.mark.parametrize(
    ("row", "violation"),
    [
        (Metric("Sent_total", "counter", "Sent."), "snake case"),
        (Metric("windrow_sent_total", "counter", "Sent."), "prefix"),
        (Metric("sent", "counter", "Sent."), "_total"),
        (Metric("waiting_total", "gauge", "Waiting."), "_total"),
        (Metric("waiting_count", "gauge", "Waiting."), "suffix"),
        (Metric("lag_ms", "gauge", "Lag."), "base unit"),
        (Metric("lag_seconds", "gauge", "Lag."), "unit is None"),
        (Metric("lag", "gauge", "Lag.", unit="seconds"), "unit is seconds"),
        (Metric("lag_seconds", "histogram", "Lag.", unit="seconds"), "buckets and"),
        (Metric("a_seconds", "histogram", "A.", (), (2.0, 1.0), "seconds"), "do not rise"),
        (Metric("sent_total", "counter", "Sent.", ("record_key",)), "record_key is unbounded"),
        (Metric("sent_total", "counter", "Sent.", ("id",)), "id is unbounded"),
        (Metric("sent_total", "counter", "sent"), "sentence"),
    ],
)
def test_a_planted_breach_of_the_conventions_is_found(row: Metric, violation: str) -> None:
    assert any(violation in found for found in violations(row))


def test_names_are_unique() -> None:
    names = [metric.name for metric in METRICS]
    assert len(names) == len(set(names))


def test_the_reference_page_is_the_one_written_from_the_table() -> None:
    """If not: ``python -m windrow.telemetry.reference > docs/reference/metrics.md``."""
    assert PAGE.read_text(encoding="utf-8") == metrics_page()


def test_the_reference_page_tells_all_of_a_row() -> None:
    row = metrics_page([LATENCY]).splitlines()[-1]
    for told in ("`windrow_append_seconds`", "histogram", "`journal`", "seconds", "0.02, 0.2, 2"):
        assert told in row


def test_what_was_measured_is_exposed_under_its_full_name() -> None:
    metrics = Metrics(table=[*METRICS, LATENCY])
    metrics.counter("log_events_total", level="info").inc(2)
    metrics.gauge("health_check_up", check="kafka").set(1)
    metrics.histogram("append_seconds", journal="a").observe(0.05)
    exposed = metrics.exposition().decode()
    assert 'windrow_log_events_total{level="info"} 2.0' in exposed
    assert 'windrow_health_check_up{check="kafka"} 1.0' in exposed
    assert 'windrow_append_seconds_bucket{journal="a",le="0.2"} 1.0' in exposed
    assert 'windrow_append_seconds_bucket{journal="a",le="0.02"} 0.0' in exposed


def test_the_exposition_names_the_version() -> None:
    assert f'windrow_build_info{{version="{__version__}"}} 1.0' in Metrics().exposition().decode()


def test_the_same_metric_is_returned_each_time() -> None:
    metrics = Metrics()
    first = metrics.counter("log_events_total", level="info")
    assert metrics.counter("log_events_total", level="info") is first


def test_a_given_registry_is_used_and_the_global_one_is_left_alone() -> None:
    ours = CollectorRegistry()
    Metrics(ours).counter("log_events_total", level="info").inc()
    Metrics().counter("log_events_total", level="info").inc()
    assert ours.get_sample_value("windrow_log_events_total", {"level": "info"}) == 1
    assert REGISTRY.get_sample_value("windrow_log_events_total", {"level": "info"}) is None


def test_a_name_that_is_not_in_the_table_is_refused_with_the_nearest() -> None:
    with pytest.raises(UnknownMetric) as refusal:
        Metrics().counter("log_event_total", level="info")
    assert str(refusal.value) == (
        'no counter "log_event_total" in windrow.telemetry.metrics.METRICS;'
        ' did you mean "log_events_total"?'
    )


def test_a_name_with_the_prefix_is_answered_with_the_one_without() -> None:
    with pytest.raises(UnknownMetric, match='did you mean "log_events_total"'):
        Metrics().counter("windrow_log_events_total", level="info")


def test_a_metric_asked_for_as_another_kind_is_refused() -> None:
    with pytest.raises(UnknownMetric, match="it is a counter"):
        Metrics().gauge("log_events_total", level="info")


@pytest.mark.parametrize("labels", [{}, {"key": "a"}, {"level": "info", "id": "7"}])
def test_labels_other_than_the_table_gives_are_refused(labels: dict[str, str]) -> None:
    with pytest.raises(WrongLabels, match=r"has the labels \(level\)"):
        Metrics().counter("log_events_total", **labels)


@pytest.mark.parametrize(
    "error", [UnknownMetric("gauge", "x", "y"), WrongLabels("m", {"a": 1}, ())]
)
def test_errors_survive_pickling(error: Exception) -> None:
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_threads_that_ask_first_at_once_share_one_metric() -> None:
    def count(metrics: Metrics, together: threading.Barrier) -> None:
        together.wait()
        metrics.counter("log_events_total", level="info").inc()

    for _ in range(20):
        metrics, together = Metrics(), threading.Barrier(8, timeout=5)
        with ThreadPoolExecutor(8) as pool:
            counted = [pool.submit(count, metrics, together) for _ in range(8)]
        assert [future.exception() for future in counted] == [None] * 8
        assert 'level="info"} 8.0' in metrics.exposition().decode()
