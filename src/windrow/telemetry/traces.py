"""Spans for whoever traces with OpenTelemetry, and nothing at all for whoever does not.

With ``opentelemetry`` installed (the extra ``otel``) spans go to the tracer provider that the
application set up. Without it a span is one shared object that does nothing, and trace headers
pass through untouched. What a span carries is scrubbed as a log line is: no payload, no secret.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from windrow.errors import MissingExtra
from windrow.extras import require
from windrow.version import __version__

if TYPE_CHECKING:
    import opentelemetry.trace as otel

Attribute: TypeAlias = str | bool | int | float
Header: TypeAlias = tuple[str, str | bytes | None]
SpanKind: TypeAlias = Literal["internal", "server", "client", "producer", "consumer"]

_IDS_AND_FLAGS = r"-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
# Versions to come may append fields; 00 has none and ff is invalid.
_TRACEPARENT = re.compile(rf"00{_IDS_AND_FLAGS}|(?!00|ff)[0-9a-f]{{2}}{_IDS_AND_FLAGS}(?:-.*)?")
_HEADER_NAMES = ("traceparent", "tracestate")


@dataclass(frozen=True, slots=True)
class TraceContext:
    """Where a message comes from: the W3C headers, as they travelled with it."""

    traceparent: str
    tracestate: str = ""


class Span(Protocol):
    """What the body of a ``with span(...)`` may do with its span."""

    def set_attribute(self, key: str, value: Attribute) -> None:
        """Add a fact that was not known when the span began."""


class _NoSpan:
    """The span of a process without OpenTelemetry."""

    __slots__ = ()

    def __enter__(self) -> Span:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass

    def set_attribute(self, key: str, value: Attribute) -> None:
        pass


_NO_SPAN = _NoSpan()


def span(
    name: str,
    attributes: Mapping[str, Attribute] | None = None,
    links: Iterable[TraceContext] | None = None,
    kind: SpanKind = "internal",
) -> AbstractContextManager[Span]:
    """A span around the body of a ``with``, child of the span around it.

    ``links`` name the messages that the work is about, as ``extract`` found them. An exception
    passes through, and marks the span as failed.
    """
    tracer = _tracer()
    if tracer is None:
        return _NO_SPAN
    return _recorded(tracer, name, attributes or {}, links or (), kind)


def inject(headers: Iterable[Header]) -> list[Header]:
    """The headers, with those of the current span in place of any trace headers before.

    Outside a span they are returned as they are, so that a trace begun elsewhere goes on.
    """
    current = _current_context()
    if current is None:
        return list(headers)
    kept = [header for header in headers if header[0].lower() not in _HEADER_NAMES]
    kept.append(("traceparent", current.traceparent))
    if current.tracestate:
        kept.append(("tracestate", current.tracestate))
    return kept


def extract(headers: Iterable[Header]) -> TraceContext | None:
    """The trace that the headers speak of, or None if they name none or not a valid one."""
    found = {
        name.lower(): value.decode("latin-1") if isinstance(value, bytes) else value or ""
        for name, value in headers
        if name.lower() in _HEADER_NAMES
    }
    traceparent = found.get("traceparent", "").strip()
    if not _TRACEPARENT.fullmatch(traceparent):
        return None
    return TraceContext(traceparent, found.get("tracestate", "").strip())


def _current_context() -> TraceContext | None:
    if _tracer() is None:
        return None
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier)
    return TraceContext(**carrier) if carrier else None


@functools.cache
def _tracer() -> otel.Tracer | None:
    """Our tracer, looked for once. Its provider may still be set up later."""
    try:
        require("opentelemetry.trace")
    except MissingExtra:
        return None
    from opentelemetry import trace

    return trace.get_tracer("windrow", __version__)


@contextmanager
def _recorded(
    tracer: otel.Tracer,
    name: str,
    attributes: Mapping[str, Attribute],
    links: Iterable[TraceContext],
    kind: SpanKind,
) -> Iterator[Span]:
    from opentelemetry import trace

    with tracer.start_as_current_span(
        name,
        kind=trace.SpanKind[kind.upper()],
        attributes=_scrubbed(attributes),
        links=[link for context in links for link in _links(context)],
        # By our own hand below: the library would record the text of the error as it is.
        record_exception=False,
        set_status_on_exception=False,
    ) as otel_span:
        try:
            yield _ScrubbedSpan(otel_span)
        except Exception as error:
            _mark_failed(otel_span, error)
            raise


class _ScrubbedSpan:
    __slots__ = ("_span",)

    def __init__(self, otel_span: otel.Span) -> None:
        self._span = otel_span

    def set_attribute(self, key: str, value: Attribute) -> None:
        self._span.set_attributes(_scrubbed({key: value}))


def _scrubbed(attributes: Mapping[str, Attribute]) -> dict[str, Any]:
    from windrow.telemetry.scrubbing import scrub  # brings the whole of config with it

    return scrub(attributes)


def _mark_failed(otel_span: otel.Span, error: Exception) -> None:
    import traceback

    from opentelemetry.trace import Status, StatusCode

    from windrow.telemetry.scrubbing import scrub_text

    if not otel_span.is_recording():
        return
    message = scrub_text("".join(traceback.format_exception_only(error)).strip())
    otel_span.set_status(Status(StatusCode.ERROR, message))
    otel_span.add_event(
        "exception",
        {
            "exception.type": type(error).__qualname__,
            "exception.message": message,
            "exception.stacktrace": scrub_text("".join(traceback.format_exception(error))),
        },
    )


def _links(context: TraceContext) -> Iterator[otel.Link]:
    from opentelemetry import trace
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carrier = {"traceparent": context.traceparent, "tracestate": context.tracestate}
    found = TraceContextTextMapPropagator().extract(carrier)
    remote = trace.get_current_span(found).get_span_context()
    if remote.is_valid:
        yield trace.Link(remote)
