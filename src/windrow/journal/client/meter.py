"""What a client counts; the rows are in the table of ``windrow.telemetry.metrics``."""

from __future__ import annotations

from windrow.errors import OutcomeUnknown
from windrow.journal.errors import JournalStatusError
from windrow.telemetry import Metrics


class Meter:
    """The counters of one client; without metrics it counts nothing."""

    def __init__(self, metrics: Metrics | None = None) -> None:
        self._metrics = metrics

    def on_appended(self, size: int) -> None:
        """A try of an append was committed."""
        self._count_append("committed")
        if self._metrics is not None:
            self._metrics.counter("journal_client_append_bytes_total").inc(size)

    def on_append_failed(self, error: BaseException) -> None:
        """A try of an append was not, as far as we know."""
        if isinstance(error, OutcomeUnknown):
            self._count_append("unknown")
        elif isinstance(error, JournalStatusError):
            self._count_append("refused")
        else:
            self._count_append("failed")

    def on_retry(self, operation: str) -> None:
        """A call is made again."""
        if self._metrics is not None:
            self._metrics.counter("journal_client_retries_total", operation=operation).inc()

    def on_read(self, size: int) -> None:
        """Content was received."""
        if self._metrics is not None:
            self._metrics.counter("journal_client_read_bytes_total").inc(size)

    def _count_append(self, outcome: str) -> None:
        if self._metrics is not None:
            self._metrics.counter("journal_client_appends_total", outcome=outcome).inc()
