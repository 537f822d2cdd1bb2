"""What holds without OpenTelemetry; ``test_traces_otel`` has the rest."""

from __future__ import annotations

import sys
import timeit
from collections.abc import Iterator

import pytest

from windrow.telemetry import TraceContext, extract, inject, span, traces

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def _without_opentelemetry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for module in ("opentelemetry", "opentelemetry.trace"):
        monkeypatch.setitem(sys.modules, module, None)
    traces._tracer.cache_clear()
    yield
    traces._tracer.cache_clear()


@pytest.mark.usefixtures("_without_opentelemetry")
def test_without_opentelemetry_every_span_is_the_same_one_that_does_nothing() -> None:
    with span("relay", {"topic": "orders"}, kind="producer") as outer, span("send") as inner:
        outer.set_attribute("records", 3)
    assert outer is inner


@pytest.mark.usefixtures("_without_opentelemetry")
def test_without_opentelemetry_an_exception_passes_through_a_span() -> None:
    with pytest.raises(ValueError, match="mine"), span("relay"):
        raise ValueError("mine")


@pytest.mark.usefixtures("_without_opentelemetry")
def test_without_opentelemetry_a_span_costs_next_to_nothing() -> None:
    def enter_a_span() -> None:
        with span("relay"):
            pass

    enter_a_span()
    best = min(timeit.repeat(enter_a_span, number=10_000, repeat=7)) / 10_000
    assert best < 5e-6  # measured 0.3 µs; the rest is for slow machines


@pytest.mark.usefixtures("_without_opentelemetry")
def test_without_opentelemetry_headers_pass_through_untouched() -> None:
    headers: list[traces.Header] = [("traceparent", TRACEPARENT), ("a", b"1"), ("b", None)]
    with span("relay"):
        assert inject(headers) == headers


@pytest.mark.parametrize("name", ["traceparent", "Traceparent"])
@pytest.mark.parametrize("value", [TRACEPARENT, TRACEPARENT.encode(), f" {TRACEPARENT} "])
def test_a_trace_is_found_in_headers_of_text_or_bytes(name: str, value: str | bytes) -> None:
    headers: list[traces.Header] = [("a", b"\xff"), (name, value), ("tracestate", b"vendor=1")]
    assert extract(headers) == TraceContext(TRACEPARENT, "vendor=1")


def test_a_trace_of_a_later_version_is_found() -> None:
    later = TRACEPARENT.replace("00-", "cc-", 1) + "-what-the-future-holds"
    assert extract([("traceparent", later)]) == TraceContext(later)


@pytest.mark.parametrize(
    "value",
    [
        None,
        "",
        b"\xff\xfe",
        "not a trace",
        TRACEPARENT.upper(),
        TRACEPARENT + "-more",
        TRACEPARENT.replace("00-", "ff-", 1),
        TRACEPARENT.replace("0af7651916cd43dd8448eb211c80319c", "0" * 32),
        TRACEPARENT.replace("b7ad6b7169203331", "0" * 16),
    ],
)
def test_headers_without_a_valid_trace_name_none(value: str | bytes | None) -> None:
    assert extract([("traceparent", value), ("tracestate", "vendor=1")]) is None
    assert extract([]) is None
