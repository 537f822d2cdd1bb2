"""A queue on a Kafka topic.

The index of a message is its offset. Offsets have gaps, where transactions ended or a compaction
took something away: a span may hold fewer messages than its length. A join by position cannot have
that. It reads ``by sequence``: the index is then the header ``windrow-seq``, which whoever writes
for a graph numbers without a gap in each partition.

Only what was committed is read. The incarnation is the topic's id.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from windrow.errors import WindrowError
from windrow.extras import require
from windrow.graph.delivery_errors import IncarnationChanged, SourceTrimmed
from windrow.graph.planning import Available
from windrow.graph.positions import SourcePartition, Span
from windrow.spark.places import Place
from windrow.spark.queues.errors import NoSequence, ReadTimedOut, SequenceBroken
from windrow.spark.queues.kafka_clients import (
    Topic,
    consumer,
    describe_topic,
    list_offsets,
    unreachable,
)
from windrow.spark.queues.kafka_columns import SEQ_HEADER, message_batch, sequence_of

if TYPE_CHECKING:
    import pyarrow as pa

BATCH: Final = 10_000
SAMPLE: Final = 200
READ_TIMEOUT: Final = 30.0
_PASSING: Final = frozenset(
    {"_ALL_BROKERS_DOWN", "_TRANSPORT", "_RESOLVE", "_TIMED_OUT", "_MAX_POLL_EXCEEDED"}
    | {"LEADER_NOT_AVAILABLE", "NOT_LEADER_FOR_PARTITION", "REQUEST_TIMED_OUT"}
)
"""Brokers may come back while a read still has time."""
_SILENCE: Final = 0.5
POSITIONS: Final = "positions"
SEQUENCE: Final = "sequence"
"""``options={"positions": "sequence"}`` reads by ``windrow-seq`` instead of by offset."""


class KafkaQueue:
    """Reads the messages of one topic by their offsets or numbers; a ``QueueReader``."""

    def __init__(self, place: Place, read_timeout: float = READ_TIMEOUT) -> None:
        self.place = place
        self.read_timeout = read_timeout
        self.by_sequence = place.options.get(POSITIONS) == SEQUENCE
        self._properties = place.connections.kafka
        self._idle: list[Any] = []
        self._means: dict[int, tuple[int, float]] = {}
        self._ends: dict[tuple[str, int, int], int] = {}

    def available(self) -> Sequence[Available]:
        """What every partition holds now, of what was committed.

        Raises:
            QueueMissing: There is no such topic.
            NoSequence: It is to be read by sequence, and a message has no number.
            Unreachable: No broker answered.
        """
        topic = describe_topic(self._properties, self.place)
        bounds = list_offsets(self._properties, self.place.address, topic.partitions)
        found = []
        for partition, (first, end) in enumerate(bounds):
            mean = self._mean_bytes(topic, partition, first, end)
            if self.by_sequence:
                first, end = self._sequences(topic, partition, first, end)
            found.append(Available(self.place.queue, topic.id, partition, first, end, mean))
        return found

    def cuts(self, origin: SourcePartition, within: Span | None = None) -> Sequence[int]:
        """None: a topic can be read from anywhere."""
        return ()

    def read(self, span: Span) -> Iterator[pa.RecordBatch]:
        """All messages of a span in order, in the columns of ``message_schema``.

        Raises:
            SourceTrimmed: Some of them are gone.
            IncarnationChanged: The topic is another one by now.
            NoSequence: It is to be read by sequence, and a message has no number.
            ReadTimedOut: They did not come in time.
            Unreachable: No broker answered.
        """
        if not span:
            return
        try:
            if self.by_sequence:
                yield from self._read_by_sequence(span)
            else:
                for messages in self._messages(span, span.start, span.end):
                    yield message_batch(span, messages, [each.offset() for each in messages])
        except WindrowError:
            self._check_incarnation(span)  # if it is another one, that is where trouble comes from
            raise
        # A topic's id never comes again: if it is the one of the span now, it was all along.
        self._check_incarnation(span)

    def close(self) -> None:
        """End all connections; does nothing the second time."""
        while self._idle:
            self._idle.pop().close()

    def _check_incarnation(self, span: Span) -> None:
        topic = describe_topic(self._properties, self.place)
        if topic.id != span.incarnation:
            raise IncarnationChanged(
                span.source, span.partition, span.incarnation, topic.id, span.start
            )

    # -- by offset -------------------------------------------------------------------------------

    def _messages(self, span: Span, start: int, end: int) -> Iterator[list[Any]]:
        """The messages between two offsets, in batches; none is empty."""
        kafka = require("confluent_kafka")
        partition = kafka.TopicPartition(self.place.address, span.partition, start)
        with self._consumer() as reader:
            reader.assign([partition])
            at, came_last, is_checked = start, time.monotonic(), False
            while at < end:
                polled = _polled(reader, min(BATCH, end - at))
                messages, at = self._sorted_out(kafka, span, polled, at, end)
                waited = time.monotonic() - came_last
                if messages:
                    yield messages
                    came_last, is_checked = time.monotonic(), False
                elif waited > self.read_timeout:
                    raise ReadTimedOut(span.source, self._told(span), at, end, self.read_timeout)
                elif waited > _SILENCE and not is_checked:
                    self._check_incarnation(span)  # of a topic that is gone nothing is heard
                    is_checked = True

    def _sorted_out(
        self, kafka: Any, span: Span, polled: Sequence[Any], at: int, end: int
    ) -> tuple[list[Any], int]:
        """The messages before the end, and up to which offset all is known."""
        messages = []
        for message in polled:
            error = message.error()
            if error is None:
                at = message.offset() + 1
                if message.offset() < end:
                    messages.append(message)
            elif error.code() == kafka.KafkaError._PARTITION_EOF:
                at = max(at, message.offset())
            elif error.name() in ("_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE"):
                raise self._out_of_range(span, at, end)
            elif error.name() not in _PASSING:
                raise unreachable(self._properties, kafka.KafkaException(error))
        return messages, at

    def _out_of_range(self, span: Span, at: int, end: int) -> Exception:
        bounds = list_offsets(self._properties, self.place.address, span.partition + 1)
        first = bounds[span.partition][0]
        if first > at:
            return SourceTrimmed(span.source, span.partition, at, first)
        return ReadTimedOut(span.source, self._told(span), at, end, 0.0)

    def _told(self, span: Span) -> str:
        return f"topic {self.place.address!r} partition {span.partition}"

    @contextmanager
    def _consumer(self) -> Iterator[Any]:
        """A consumer of its own for each read in progress, kept for the next."""
        reader = self._idle.pop() if self._idle else consumer(self._properties)
        try:
            yield reader
        except BaseException:
            reader.close()
            raise
        reader.unassign()
        self._idle.append(reader)

    def _mean_bytes(self, topic: Topic, partition: int, first: int, end: int) -> float:
        """Of a message, by a few of the last; looked at again when there are twice as many."""
        looked_at, mean = self._means.get(partition, (0, 0.0))
        if end > first and end >= 2 * looked_at:
            sample = self._span(topic, partition, max(first, end - SAMPLE), end)
            sizes = [
                len(message) + len(message.key() or b"")
                for messages in self._messages(sample, sample.start, sample.end)
                for message in messages
            ]
            mean = sum(sizes) / len(sample)
            self._means[partition] = end, mean
        return mean

    def _span(self, topic: Topic, partition: int, start: int, end: int) -> Span:
        return Span(self.place.queue, topic.id, partition, start, end)

    # -- by sequence -----------------------------------------------------------------------------

    def _sequences(self, topic: Topic, partition: int, low: int, high: int) -> tuple[int, int]:
        """The number of the first message, and the one that the next will have."""
        whole = self._span(topic, partition, low, high)
        first = self._first_sequence(whole, low, high)
        if first is None:
            return 0, 0
        key = topic.id, partition, high
        if key not in self._ends:
            self._ends = {known: end for known, end in self._ends.items() if known[1] != partition}
            self._ends[key] = self._last_sequence(whole, low, high) + 1
        return first[0], self._ends[key]

    def _first_sequence(self, span: Span, start: int, end: int) -> tuple[int, int] | None:
        """Number and offset of the first message between two offsets."""
        for messages in self._messages(span, start, end):
            return self._number(span, messages[0]), messages[0].offset()
        return None

    def _last_sequence(self, span: Span, low: int, high: int) -> int:
        reach = 16
        while True:
            last = None
            for messages in self._messages(span, max(low, high - reach), high):
                last = messages[-1]
            if last is not None:
                return self._number(span, last)
            reach *= 16

    def _number(self, span: Span, message: Any) -> int:
        number = sequence_of(message)
        if number is None:
            topic = self.place.address
            raise NoSequence(span.source, topic, span.partition, message.offset(), SEQ_HEADER)
        return number

    def _read_by_sequence(self, span: Span) -> Iterator[pa.RecordBatch]:
        bounds = list_offsets(self._properties, self.place.address, span.partition + 1)
        low, high = bounds[span.partition]
        at = self._offset_of(span, low, high)
        following = span.start
        for messages in self._messages(span, at, high):
            numbered = [(self._number(span, message), message) for message in messages]
            wanted = [pair for pair in numbered if span.start <= pair[0] < span.end]
            for number, message in wanted:
                if number != following:
                    told = self._told(span)
                    raise SequenceBroken(span.source, told, following, number, message.offset())
                following += 1
            if wanted:
                indices, rows = zip(*wanted, strict=True)
                yield message_batch(span, rows, indices)
            if following >= span.end:
                return
        raise ReadTimedOut(span.source, self._told(span), following, span.end, 0.0)

    def _offset_of(self, span: Span, low: int, high: int) -> int:
        """An offset at or a little before the first message of a span.

        Between two numbers lie at least as many offsets. So whoever goes as many offsets forward as
        numbers are missing never goes too far, and is soon there.
        """
        at, number = low, -1
        while True:
            found = self._first_sequence(span, at, high)
            if found is None:
                return at
            if number < 0 and found[0] > span.start:
                raise SourceTrimmed(span.source, span.partition, span.start, found[0])
            number, offset = found
            if span.start - number < BATCH:
                return offset
            at = offset + (span.start - number)


def _polled(reader: Any, most: int) -> list[Any]:
    """What has come: waits for the first, and for no other."""
    first = reader.poll(0.1)
    return [] if first is None else [first, *reader.consume(most, 0)]
