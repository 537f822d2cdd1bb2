"""One source that reads several queues by name: as a stream, and as a batch.

Its offsets are those of all inputs, by name and with their incarnations, in one value. So inputs
can be listed in another order, added or removed without one taking the offsets of another.

The object that plans lives in one process for as long as its query, and goes to every task as a
copy: it holds descriptions of places, and no connection.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from windrow.graph.planning import Available, Limits, available_now, plan, readable, spans_between
from windrow.graph.positions import SourceOffsets, Span
from windrow.spark.formats.errors import InputRemoved
from windrow.spark.formats.options import Bound, SourceSettings
from windrow.spark.places import Place
from windrow.spark.queues.journal import JournalQueue
from windrow.spark.queues.landmarks import Landmark
from windrow.spark.queues.open import cached_queue

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class SpanPartition(InputPartition):
    """What one task reads, and a place before it that the planner knows."""

    span: Span
    landmark: Landmark | None = None


def find_available(places: Mapping[str, Place]) -> list[Available]:
    """What every partition of every input holds now."""
    return [one for name in sorted(places) for one in cached_queue(places[name]).available()]


def read_span(places: Mapping[str, Place], partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """The messages of one part, in the task that reads it."""
    assert isinstance(partition, SpanPartition)
    queue = cached_queue(places[partition.span.source])
    if isinstance(queue, JournalQueue):
        return queue.read(partition.span, partition.landmark)
    return queue.read(partition.span)


def span_partitions(settings: SourceSettings, spans: Sequence[Span]) -> list[SpanPartition]:
    """Parts that are read in parallel: by partition of an input, and where fragments begin.

    Raises:
        InputRemoved: A span is of an input that is not there.
    """
    spans = [span for span in spans if span]
    gone = {span.source for span in spans} - set(settings.places)
    if gone:
        raise InputRemoved(settings.format, tuple(sorted(gone)))
    return [_located(settings, part) for span in spans for part in _parts(settings, span)]


def _located(settings: SourceSettings, span: Span) -> SpanPartition:
    queue = cached_queue(settings.places[span.source])
    landmark = queue.landmark(span) if isinstance(queue, JournalQueue) else None
    return SpanPartition(span, landmark)


def _parts(settings: SourceSettings, span: Span) -> Iterator[Span]:
    most = settings.rows_per_partition
    if len(span) <= most:
        yield span
        return
    queue = cached_queue(settings.places[span.source])
    fragments = queue.cuts(span.origin, span) if isinstance(queue, JournalQueue) else ()
    for begin, end in pairwise(merged_cuts(span, fragments, most)):
        yield span.part(begin, end)


def merged_cuts(span: Span, fragments: Sequence[int], most: int) -> list[int]:
    """Where to cut a span, its ends included: at fragments, unless parts grow too long or small."""
    edges = [span.start]
    for cut in [*sorted(cut for cut in fragments if span.start < cut < span.end), span.end]:
        while cut - edges[-1] > most:
            edges.append(edges[-1] + most)
        is_last = cut == span.end
        if is_last or cut - edges[-1] >= most // 2:
            edges.append(cut)
    return edges


def offsets_at(bound: Bound | SourceOffsets, available: Sequence[Available]) -> SourceOffsets:
    """The offsets that an option asks for; what it does not name begins with what there is."""
    if bound == "latest":
        return available_now(available)
    earliest = SourceOffsets.of({one.origin: one.first for one in available})
    if isinstance(bound, SourceOffsets):
        bound.check_incarnations(one.origin for one in available)
        return earliest.moved_to(bound)
    return earliest


class QueueStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans batches where the query lives, reads them wherever its tasks run."""

    def __init__(self, settings: SourceSettings) -> None:
        self._settings = settings
        self._until: SourceOffsets | None = None
        self._latest: SourceOffsets | None = None

    def initialOffset(self) -> dict[str, Any]:
        """Of a new query: what the option ``startingOffsets`` asks for."""
        return offsets_at(self._settings.starting, self._find_available()).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        """What the options ask for; if both do, bytes count within the rows."""
        limits = self._settings.limits
        if limits.max_rows is not None:
            return ReadMaxRows(limits.max_rows)
        if limits.max_bytes is not None:
            return ReadMaxBytes(limits.max_bytes)
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Where the next batch ends; ``start`` itself if there is nothing to read.

        Raises:
            IncarnationChanged: An input is not the one that was read.
            SourceTrimmed: What comes next is gone.
            SourceBehind: An input ends before what was read from it.
        """
        begun, available = SourceOffsets.from_json(start), self._find_available()
        readable(begun, available)  # refuses what cannot be read on
        # Whoever replays a batch sees its offsets alone, and not with what a new partition began.
        # So that is shown in them before anything is read from it.
        new = {one.origin: one.first for one in available if one.origin not in begun.by_origin}
        known = [one for one in available if one.origin not in new]
        spans = plan("alts", begun, known, self._limits(limit), self._until) or ()
        ended = begun.advanced(span for span in spans if span)
        return ended.moved_to(SourceOffsets.of(new)).to_json()

    def _limits(self, limit: ReadLimit) -> Limits:
        if isinstance(limit, ReadAllAvailable):
            return Limits()
        own = self._settings.limits
        return Limits(
            limit.max_rows if isinstance(limit, ReadMaxRows) else own.max_rows,
            limit.max_bytes if isinstance(limit, ReadMaxBytes) else own.max_bytes,
        )

    def prepareForTriggerAvailableNow(self) -> None:
        """The run ends with what is there now."""
        self._until = available_now(self._find_available())

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Where the inputs ended when they were last looked at: the backlog up to there waits."""
        return None if self._latest is None else self._latest.to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Parts of a batch, each for one task."""
        begun = SourceOffsets.from_json(start)
        spans = spans_between(begun, SourceOffsets.from_json(end))
        known = [span for span in spans if span.origin in begun.by_origin]
        return span_partitions(self._settings, known)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The messages of one part, in the task that reads it."""
        return read_span(self._settings.places, partition)

    def _find_available(self) -> list[Available]:
        available = find_available(self._settings.places)
        self._latest = available_now(available)
        return available


class QueueBatchReader(DataSourceReader):
    """Reads what lies between two offsets, once."""

    def __init__(self, settings: SourceSettings) -> None:
        self._settings = settings

    def partitions(self) -> Sequence[InputPartition]:
        """Parts of what the options ask for, each for one task.

        Raises:
            SourceTrimmed: Some of it is gone.
            SourceBehind: An input ends before it.
        """
        settings = self._settings
        available = find_available(settings.places)
        start = offsets_at(settings.starting, available)
        end = settings.ending
        until = None if end == "latest" else offsets_at(end, available)
        spans = [span for span, _ in readable(start, available, until)]
        return span_partitions(settings, spans)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The messages of one part, in the task that reads it."""
        return read_span(self._settings.places, partition)
