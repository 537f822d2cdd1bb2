"""What did a transaction commit last? Markers in a compacted topic, read back the safe way.

A marker lies under the transactional id of its writer, in the same transaction as what it tells of.
``CommittedTopic`` knows how it is found again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any
from zlib import crc32

from windrow.errors import Unreachable
from windrow.extras import require
from windrow.relay.targets.committed_topic import CommittedTopic
from windrow.relay.targets.kafka_errors import unreachable
from windrow.spark.targets.errors import TargetUnusable

MARKER_TOPIC = "windrow-markers"
MARKER_PARTITIONS = 32
"""More partitions of the topic are left alone: a marker must stay where it is looked for."""

READ_TIMEOUT = 60.0
"""Longer than a transaction can stay open, since its end may have to be waited for."""

PASSING = frozenset(
    {
        "FENCED_LEADER_EPOCH",
        "KAFKA_STORAGE_ERROR",
        "LEADER_NOT_AVAILABLE",
        "NOT_LEADER_FOR_PARTITION",
        "REPLICA_NOT_AVAILABLE",
        "UNKNOWN_LEADER_EPOCH",
        "UNKNOWN_TOPIC_OR_PART",
    }
)

_CALL_TIMEOUT = 20.0


def marks_partition(uid_digest: str, target: int) -> int:
    """Where the marker of a target lies: in the first half."""
    half = MARKER_PARTITIONS // 2
    return (crc32(uid_digest.encode()) + target) % half


def delivered_partition(uid_digest: str) -> int:
    """Where a record of what was delivered lies.

    It is in a half of its own, so that no transaction that a dead worker left open is in its way.
    """
    half = MARKER_PARTITIONS // 2
    return half + crc32(uid_digest.encode()) % half


class MarkerReader:
    """Reads markers; what it has read once it does not read again."""

    def __init__(self, properties: Mapping[str, Any], topic: str = MARKER_TOPIC) -> None:
        self.topic = topic
        self._properties = properties
        self._markers = CommittedTopic(
            properties, topic, partitions=MARKER_PARTITIONS, timeout=_CALL_TIMEOUT
        )
        self._positions: dict[int, int] = {}
        self._latest: dict[int, dict[bytes, bytes]] = {}
        self._is_ready = False

    def read(self, name: str, partition: int) -> dict[str, Any] | None:
        """The last marker under a name, or ``None`` if there never was one.

        Raises:
            TargetUnusable: The topic cannot be trusted with markers.
            Unreachable: No answer, or a transaction of others did not end in time.
        """
        kafka = require("confluent_kafka")
        try:
            self._prepare()
            self._catch_up(kafka, partition)
        except (kafka.KafkaException, TimeoutError) as error:
            raise self.unreachable(error) from error
        value = self._latest.get(partition, {}).get(name.encode())
        return None if value is None else dict(json.loads(value))

    def partitions_of(self, topic: str) -> int:
        """How many partitions a topic has.

        Raises:
            TargetUnusable: There is no such topic.
            Unreachable: No answer.
        """
        kafka = require("confluent_kafka")
        try:
            found = self._markers.admin().list_topics(topic, timeout=_CALL_TIMEOUT).topics[topic]
        except kafka.KafkaException as error:
            raise self.unreachable(error) from error
        if found.error is not None or not found.partitions:
            raise TargetUnusable("topic", topic, "it does not exist; create it first")
        return len(found.partitions)

    def unreachable(self, error: Exception) -> Unreachable:
        """The failure behind an error of Kafka's client."""
        return unreachable(self._properties, error)

    def close(self) -> None:
        """End all connections; does nothing the second time."""
        self._markers.close()
        self._positions.clear()
        self._latest.clear()
        self._is_ready = False

    # -- reading ---------------------------------------------------------------------------------

    def _catch_up(self, kafka: Any, partition: int) -> None:
        end = self._end(kafka, partition)
        since = self._positions.get(partition)
        if since is None or since > end:  # never read, or the topic was deleted and made again
            self._latest[partition] = {}
            since = self._markers.start(partition)
        self._latest[partition] |= self._markers.read(partition, since, end, READ_TIMEOUT)
        self._positions[partition] = end

    def _end(self, kafka: Any, partition: int) -> int:
        deadline = time.monotonic() + _CALL_TIMEOUT
        while True:
            try:
                return self._markers.end(partition)
            except kafka.KafkaException as error:
                # Brokers are between two leaders, or the topic is younger than what they know.
                if error.args[0].name() not in PASSING or time.monotonic() > deadline:
                    raise
            time.sleep(0.05)

    def _prepare(self) -> None:
        """Make the topic if it is missing; refuse one that forgets or is not safe."""
        if self._is_ready:
            return
        problem = self._markers.ensure(MARKER_PARTITIONS - 1)
        if problem is not None:
            raise TargetUnusable("marker topic", self.topic, problem)
        self._is_ready = True
