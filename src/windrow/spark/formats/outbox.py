"""The format ``windrow-outbox``: an outbox as a stream, without a relay between.

Offsets are those of a graph's sources: the next index, under the incarnation. What a query has in
its commit log is purged when the next batch is planned, which is also asked while nothing happens.
The reader lives in one process that plans, and goes to every task as a copy without connections.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from windrow.graph.planning import Available, Limits, plan, spans_between
from windrow.graph.positions import SourceOffsets, SourcePartition, Span
from windrow.spark.columns import MESSAGE_DDL
from windrow.spark.outbox.ledger import Indices
from windrow.spark.outbox.queue import OutboxQueue
from windrow.spark.outbox.settings import NAME, Settings, settings_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

BACKLOG_ROWS: Final = 10_000
"""Up to how many waiting rows are counted for every report."""
ROWS_OF_A_PART: Final = 500
"""A part of fewer rows would cost more than it saves."""


@dataclass(frozen=True)
class OutboxPartition(InputPartition):
    """What one task reads: the messages of a span whose keys fall to its part."""

    span: Span
    part: int
    parts: int


class OutboxSource(DataSource):
    """``spark.readStream.format("windrow-outbox")``."""

    @classmethod
    def name(cls) -> str:
        """What it is called in ``format``."""
        return NAME

    def schema(self) -> str:
        """Where a message stands, and what it says."""
        return MESSAGE_DDL

    def streamReader(self, schema: StructType) -> OutboxStreamReader:
        """A stream; the outbox is taken over when its first batch is planned."""
        return OutboxStreamReader(settings_of(self.options))


class OutboxStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans batches where the query lives, reads them wherever its tasks run."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._queue: OutboxQueue | None = None
        self._until: SourceOffsets | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Without what cannot leave the process that plans."""
        return self.__dict__ | {"_queue": None}

    # -- where the query lives -------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:
        """Of a new query: the first row that no query has settled."""
        indices = self._leading().indices()
        return self._offsets(indices, indices.first).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        """As many rows as the option ``maxRowsPerBatch`` says."""
        return ReadMaxRows(self._settings.max_rows)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Where the next batch ends; rows up to there are marked, those before ``start`` purged.

        Raises:
            Fenced: A later source or relay has taken the outbox over.
            Refused: The checkpoint is not of this outbox, or of an earlier state of it.
        """
        offsets, queue = SourceOffsets.from_json(start), self._leading()
        queue.settled(offsets)  # what a batch begins with is in the commit log
        if isinstance(limit, ReadAllAvailable):
            indices, limits = queue.reach_all(), Limits()
        else:
            limits = Limits(getattr(limit, "max_rows", self._settings.max_rows))
            begun = offsets.get(self._origin(queue.indices()))
            indices = queue.reach(begun + (limits.max_rows or 0))
        spans = plan("alts", offsets, [self._available(indices)], limits, self._until)
        return (offsets if spans is None else offsets.advanced(spans)).to_json()

    def prepareForTriggerAvailableNow(self) -> None:
        """The run ends with as many rows as are visible now."""
        queue = self._leading()
        waiting = queue.waiting()
        indices = queue.indices()
        self._until = self._offsets(indices, indices.end + waiting)

    def reportLatestOffset(self) -> dict[str, Any]:
        """Where reading would end if all that waits had an index: for the backlog in progress."""
        queue = self._leading()
        indices = queue.indices()
        return self._offsets(indices, indices.end + queue.waiting(BACKLOG_ROWS)).to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Parts by the hash of the key, so that each key stays in order."""
        spans = spans_between(SourceOffsets.from_json(start), SourceOffsets.from_json(end))
        return [
            OutboxPartition(span, part, parts)
            for span in spans
            for parts in [min(self._settings.parts, -(-len(span) // ROWS_OF_A_PART))]
            for part in range(parts)
        ]

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing: this is not called for the last batch of a run."""

    def stop(self) -> None:
        """Leave the outbox to whoever wants it."""
        if self._queue is not None:
            self._queue.close()

    # -- in every task ---------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The messages of one part, in order."""
        assert isinstance(partition, OutboxPartition)
        queue = self._settings.open()
        try:
            yield from queue.read(partition.span, partition.part, partition.parts)
        finally:
            queue.close()

    def _leading(self) -> OutboxQueue:
        if self._queue is None:
            queue = self._settings.open()
            queue.lead(NAME)
            self._queue = queue
        return self._queue

    def _origin(self, indices: Indices) -> SourcePartition:
        return SourcePartition(self._settings.source, indices.incarnation, 0)

    def _offsets(self, indices: Indices, index: int) -> SourceOffsets:
        return SourceOffsets.of({self._origin(indices): index})

    def _available(self, indices: Indices) -> Available:
        return Available(self._settings.source, indices.incarnation, 0, indices.first, indices.end)
