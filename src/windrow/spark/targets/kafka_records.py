"""How do rows become records of Kafka? Numbers and identities travel as headers.

Offsets of Kafka have gaps, since the ends of transactions take some; ``windrow-seq`` has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from windrow.extras import require
from windrow.graph.sink_rows import SinkRow
from windrow.relay.targets.kafka_errors import PERMANENT
from windrow.spark.targets.kafka_writer import Refusal
from windrow.spark.targets.rows import content_of, position_text, row_uuid

SEQ_HEADER = "windrow-seq"
UUID_HEADER = "windrow-uuid"
TOPIC_HEADER = "windrow-topic"
OWN_HEADERS = frozenset({SEQ_HEADER, UUID_HEADER, TOPIC_HEADER})

Header = tuple[str, bytes | None]


def headers_of(row: SinkRow, topic: str, seq: int) -> list[Header]:
    """The headers of a row, with ours in place of those that it had from an earlier topic."""
    content = content_of(row)
    headers = [header for header in content.headers if header[0] not in OWN_HEADERS]
    headers.append((SEQ_HEADER, b"%d" % seq))
    uuid = row_uuid(content.delivery_hash, row.positions[0].ordinal)
    headers.append((UUID_HEADER, uuid.hex().encode()))
    if content.topic is not None and content.topic != topic:
        headers.append((TOPIC_HEADER, content.topic.encode()))
    return headers


def produce_rows(
    producer: Any,
    refused: list[Refusal],
    rows: Sequence[SinkRow],
    topic: str,
    partition: int,
    first_seq: int,
) -> None:
    """Hand rows to a producer, in order; those that Kafka will never take are noted."""
    kafka = require("confluent_kafka")
    produce, report = producer.produce, partial(_on_report, refused)
    for number, row in enumerate(rows):
        content = content_of(row)
        headers = headers_of(row, topic, first_seq + number)
        # Kafka has milliseconds, and takes 0 for "now".
        hints = {"headers": headers, "timestamp": content.time // 1000, "on_delivery": report}
        while True:
            try:
                produce(topic, content.value, content.key, partition, **hints)
                break
            except BufferError:
                producer.poll(0.05)
            except kafka.KafkaException as error:
                if error.args[0].name() not in PERMANENT:
                    raise
                refused.append(Refusal(number, error.args[0].str()))
                return


def _on_report(refused: list[Refusal], error: Any, message: Any) -> None:
    """Reports come of failures alone, and those that pass are the transaction's to tell."""
    if error is not None and error.name() in PERMANENT:
        # It is told of all that travelled together; which one it was nobody says.
        refused.append(Refusal(None, error.str()))


def blamed(rows: Sequence[SinkRow], refusal: Refusal) -> tuple[str, str]:
    """Where the row comes from that was refused, and why; the largest one, if nobody knows."""
    if refusal.number is not None:
        return position_text(rows[refusal.number]), refusal.reason
    largest = max(rows, key=lambda row: len(content_of(row).value or b""))
    hint = "(it is the largest of its write; see the topic's max.message.bytes)"
    return position_text(largest), f"{refusal.reason} {hint}"
