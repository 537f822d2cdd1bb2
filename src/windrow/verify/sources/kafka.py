"""A topic, from its first record to where it ended when the reading began."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pyarrow as pa

from windrow.errors import Unreachable
from windrow.extras import require
from windrow.verify.errors import BadQuery, UnreadableSource
from windrow.verify.picking import Pick
from windrow.verify.sources.messages import Picker

BATCH: Final = 10_000
ANSWER_TIMEOUT: Final = 10.0
STALL_TIMEOUT: Final = 30.0
"""Nothing came for so long, though there is more: the broker is gone."""


class KafkaTopic:
    """Reads what was committed; the partitions in turn, each in its order."""

    def __init__(
        self, properties: Mapping[str, Any], topic: str, key: Pick, id: Pick, name: str
    ) -> None:
        self._properties, self._topic, self._name = properties, topic, name
        self._key, self._id = key, id

    def __str__(self) -> str:
        return self._name

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The records, as they are fetched.

        Raises:
            BadQuery: There is no such topic.
            Unreachable: No broker answered.
            UnreadableSource: A value is not JSON, or nothing came any more.
        """
        kafka = require("confluent_kafka")
        consumer = kafka.Consumer(
            {
                **self._properties,
                "log_level": 0,
                "group.id": "windrow-verify",
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
                # To go on elsewhere would be to leave out what lies between.
                "auto.offset.reset": "error",
            }
        )
        try:
            yield from self._read(kafka, consumer)
        except kafka.KafkaException as error:
            raise self._unreachable(error) from error
        finally:
            consumer.close()

    def _read(self, kafka: Any, consumer: Any) -> Iterator[pa.RecordBatch]:
        left = self._assign(kafka, consumer)
        picker = Picker(self._name, self._key, self._id)
        stalled_at = time.monotonic() + STALL_TIMEOUT
        while left:
            messages = consumer.consume(BATCH, 0.2)
            records = [m for m in messages if self._is_record(kafka, m, left)]
            if records:
                yield _batch(picker, records)
            if messages:
                stalled_at = time.monotonic() + STALL_TIMEOUT
            elif time.monotonic() > stalled_at:
                raise UnreadableSource(self._name, f"nothing came for {STALL_TIMEOUT:g} s")

    def _assign(self, kafka: Any, consumer: Any) -> dict[int, int]:
        """Begin; returns where each partition that holds something ends."""
        found = consumer.list_topics(self._topic, timeout=ANSWER_TIMEOUT).topics[self._topic]
        if found.error is not None:
            raise BadQuery(self._name, f"there is no topic {self._topic!r}")
        begins, ends = [], {}
        for partition in found.partitions:
            place = kafka.TopicPartition(self._topic, partition)
            begin, end = consumer.get_watermark_offsets(place, timeout=ANSWER_TIMEOUT)
            if end > begin:
                begins.append(kafka.TopicPartition(self._topic, partition, begin))
                ends[partition] = end
        consumer.assign(begins)
        return ends

    def _is_record(self, kafka: Any, message: Any, left: dict[int, int]) -> bool:
        """Whether it counts; a partition that is read to where it ended is left no more."""
        partition, offset, error = message.partition(), message.offset(), message.error()
        if error is not None:
            if error.code() != kafka.KafkaError._PARTITION_EOF:
                raise kafka.KafkaException(error)
            # The last offsets may be marks of transactions, or records of open ones: not records.
            left.pop(partition, None)
            return False
        if partition not in left or offset >= left[partition]:
            left.pop(partition, None)
            return False
        if offset == left[partition] - 1:
            del left[partition]
        return True

    def _unreachable(self, error: Any) -> Unreachable:
        address = str(self._properties.get("bootstrap.servers"))
        return Unreachable("Kafka", address, error.args[0].str())


def _batch(picker: Picker, messages: list[Any]) -> pa.RecordBatch:
    keys = values = None
    if picker.needs("key"):
        keys = pa.array([message.key() for message in messages], pa.binary())
    if picker.needs("value") or picker.needs("json"):
        values = pa.array([message.value() for message in messages], pa.binary())

    def header(name: str) -> pa.Array:
        return pa.array([_header(message, name) for message in messages], pa.binary())

    return picker.batch(keys, values, header)


def _header(message: Any, wanted: str) -> bytes | None:
    return next((value for name, value in message.headers() or () if name == wanted), None)
