"""What a broker counts; the rows are in the table of ``windrow.telemetry.metrics``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from windrow.telemetry import Metrics

if TYPE_CHECKING:
    from prometheus_client import Counter


class BrokerMetrics:
    """The counters of one broker."""

    def __init__(self, metrics: Metrics | None = None) -> None:
        self.metrics = metrics or Metrics()
        self._counters: dict[tuple[str, ...], Counter] = {}
        self.before_exposition: list[Callable[[], None]] = []
        """Called before a scrape, to set what is cheaper to look at than to follow."""

    def on_call_started(self, operation: str) -> None:
        """A call of another process began."""
        self._counter("journal_calls_started_total", operation).inc()

    def on_call_ended(self, operation: str, outcome: str) -> None:
        """A call ended with a status of the protocol, or with an error."""
        self._counter("journal_calls_ended_total", operation, outcome).inc()

    def on_bytes_read(self, count: int) -> None:
        """Content was sent to a reader."""
        self._counter("journal_read_bytes_total").inc(count)

    def on_bytes_appended(self, count: int) -> None:
        """Content was committed on behalf of a client."""
        self._counter("journal_append_bytes_total").inc(count)

    def _counter(self, name: str, *values: str) -> Counter:
        """A counter by the values of its labels; kept, since every call asks for some."""
        found = self._counters.get((name, *values))
        if found is None:
            labels = dict(zip(("operation", "outcome"), values, strict=False))
            found = self._counters[(name, *values)] = self.metrics.counter(name, **labels)
        return found

    def exposition(self) -> bytes:
        """All of it, in Prometheus' text format."""
        for prepare in self.before_exposition:
            prepare()
        return self.metrics.exposition()
