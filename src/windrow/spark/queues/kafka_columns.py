"""Messages of Kafka to columns; what a graph wrote as headers becomes fields again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from windrow.graph.positions import Span
from windrow.spark.columns import message_schema

SEQ_HEADER: Final = "windrow-seq"
TOPIC_HEADER: Final = "windrow-topic"
_OWN: Final = "windrow-"
_OWN_HEADERS: Final = frozenset({SEQ_HEADER, TOPIC_HEADER, "windrow-uuid"})


def message_batch(span: Span, messages: Sequence[Any], indices: Sequence[int]) -> pa.RecordBatch:
    """The messages in the columns of ``message_schema``."""
    count = len(messages)
    headers, topics = _headers_and_topics(messages)
    schema = message_schema()
    values: dict[str, Any] = {
        "key": [message.key() for message in messages],
        "value": [message.value() for message in messages],
        "headers": headers,
        "topic": topics,
        # Kafka counts milliseconds, and answers -1 if it has no time.
        "time": [max(0, message.timestamp()[1]) * 1000 for message in messages],
    }
    columns = [
        pa.repeat(pa.scalar(span.source, pa.string()), count),
        pa.repeat(pa.scalar(span.incarnation, pa.string()), count),
        pa.repeat(pa.scalar(span.partition, pa.int32()), count),
        pa.array(indices, pa.int64()),
        *(pa.array(column, schema.field(name).type) for name, column in values.items()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def sequence_of(message: Any) -> int | None:
    """The contiguous number that a graph gave a message; ``None`` if it has none."""
    for name, value in message.headers() or ():
        if name == SEQ_HEADER and value is not None and value.isdigit():
            return int(value)
    return None


def _headers_and_topics(messages: Sequence[Any]) -> tuple[list[Any], list[str | None]]:
    headers: list[Any] = []
    topics: list[str | None] = []
    for message in messages:
        given, topic = message.headers(), message.topic()
        if given and any(name.startswith(_OWN) for name, _ in given):
            for name, value in given:
                if name == TOPIC_HEADER and value is not None:
                    topic = value.decode(errors="replace")
            given = [header for header in given if header[0] not in _OWN_HEADERS]
        headers.append(given or [])
        topics.append(topic)
    return headers, topics
