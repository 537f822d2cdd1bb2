"""Real spans, recorded in memory by OpenTelemetry's own SDK."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from windrow.telemetry import TraceContext, extract, inject, span, traces

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(traces, "_tracer", lambda: provider.get_tracer("windrow"))
    yield exporter
    provider.shutdown()


def only(exporter: InMemorySpanExporter) -> ReadableSpan:
    (finished,) = exporter.get_finished_spans()
    return finished


def test_a_span_is_recorded_with_its_kind_and_attributes(recorded: InMemorySpanExporter) -> None:
    with span("relay.publish", {"topic": "orders"}, kind="producer") as current:
        current.set_attribute("records", 3)
    finished = only(recorded)
    assert (finished.name, finished.kind) == ("relay.publish", SpanKind.PRODUCER)
    assert finished.attributes == {"topic": "orders", "records": 3}
    assert finished.status.status_code is StatusCode.UNSET


def test_a_span_is_the_child_of_the_one_around_it(recorded: InMemorySpanExporter) -> None:
    with span("outer"), span("inner"):
        pass
    inner, outer = recorded.get_finished_spans()
    assert inner.parent is not None
    assert outer.context is not None
    assert inner.parent.span_id == outer.context.span_id


def test_a_span_is_linked_to_the_messages_it_is_about(recorded: InMemorySpanExporter) -> None:
    origin = extract([("traceparent", TRACEPARENT), ("tracestate", "vendor=1")])
    assert origin is not None
    with span("relay.publish", links=[origin, TraceContext("nonsense")]):
        pass
    (link,) = only(recorded).links
    assert trace.format_trace_id(link.context.trace_id) == "0af7651916cd43dd8448eb211c80319c"
    assert trace.format_span_id(link.context.span_id) == "b7ad6b7169203331"
    assert link.context.trace_state.to_header() == "vendor=1"


def test_a_span_that_ends_in_an_error_says_so_without_its_secrets(
    recorded: InMemorySpanExporter,
) -> None:
    with pytest.raises(ValueError, match="hunter2"), span("connect"):
        raise ValueError("postgresql://me:hunter2@db/")
    finished = only(recorded)
    assert finished.status.status_code is StatusCode.ERROR
    assert finished.status.description == "ValueError: postgresql://me:***@db/"
    (event,) = finished.events
    assert event.name == "exception"
    assert "hunter2" not in finished.to_json()


def test_an_error_that_cannot_be_shown_passes_through_as_it_is(
    recorded: InMemorySpanExporter,
) -> None:
    class Unprintable(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    with pytest.raises(Unprintable), span("connect"):
        raise Unprintable
    assert only(recorded).status.status_code is StatusCode.ERROR


def test_a_span_carries_neither_payload_nor_secret(recorded: InMemorySpanExporter) -> None:
    with span("append", {"password": "hunter2", "value": "hunter2"}) as current:
        current.set_attribute("target", "http://me:hunter2@sink/")
    assert only(recorded).attributes == {
        "password": "***",
        "value": "<7 bytes>",
        "target": "http://me:***@sink/",
    }


def test_what_is_injected_is_extracted_as_the_current_span(recorded: InMemorySpanExporter) -> None:
    with span("stash"):
        headers = inject([("a", b"1"), ("Traceparent", TRACEPARENT), ("tracestate", b"old=1")])
    context = only(recorded).context
    assert context is not None
    expected = f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"
    assert headers == [("a", b"1"), ("traceparent", expected)]
    assert extract(headers) == TraceContext(expected)


@pytest.mark.usefixtures("recorded")
def test_outside_a_span_a_trace_begun_elsewhere_is_kept() -> None:
    headers: list[traces.Header] = [("traceparent", TRACEPARENT), ("tracestate", b"vendor=1")]
    assert inject(headers) == headers


def test_a_provider_set_up_after_the_first_span_is_used() -> None:
    """Modules are imported before the application sets up tracing."""
    traces._tracer.cache_clear()
    with span("before"):
        pass
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    with span("after"):
        pass
    assert only(exporter).name == "after"
    provider.shutdown()
