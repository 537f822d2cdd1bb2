"""What did a transaction commit last? Markers in a compacted topic, read back the safe way.

A marker lies under the transactional id of its writer, in the same transaction as what it tells of.
It is read to the very end of its partition: the end is taken without regard to transactions, then
committed records are read until that end is reached. Another writer's open transaction makes the
read wait, never stop short. Whoever is to write first calls ``init_transactions``, so that nothing
of its own id is open any more.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any
from zlib import crc32

from windrow.errors import Unreachable
from windrow.extras import require
from windrow.relay.targets.kafka_transactions import state_topic_problem
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
_CLIENT_KEYS = ("bootstrap.", "client.", "sasl.", "security.", "ssl.")
_TOPIC_CONFIG = {
    "cleanup.policy": "compact",
    # Of a segment that is written to nothing is compacted, and a new reader reads all of it.
    "segment.bytes": str(8 * 1024 * 1024),
    "min.cleanable.dirty.ratio": "0.2",
}


def client_properties(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Those that every kind of client takes."""
    return {key: value for key, value in properties.items() if key.startswith(_CLIENT_KEYS)}


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
        self._properties = client_properties(properties)
        self._admin: Any = None
        self._consumer: Any = None
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
            self._prepare(kafka)
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
            found = self._admin_client().list_topics(topic, timeout=_CALL_TIMEOUT).topics[topic]
        except kafka.KafkaException as error:
            raise self.unreachable(error) from error
        if found.error is not None or not found.partitions:
            raise TargetUnusable("topic", topic, "it does not exist; create it first")
        return len(found.partitions)

    def unreachable(self, error: Exception) -> Unreachable:
        """The failure behind an error of Kafka's client."""
        reason = "no answer in time" if isinstance(error, TimeoutError) else error.args[0].str()
        return Unreachable("Kafka", str(self._properties.get("bootstrap.servers")), reason)

    def close(self) -> None:
        """End all connections; does nothing the second time."""
        if self._consumer is not None:
            self._consumer.close()
        self._consumer = self._admin = None
        self._positions.clear()
        self._latest.clear()
        self._is_ready = False

    # -- reading ---------------------------------------------------------------------------------

    def _catch_up(self, kafka: Any, partition: int) -> None:
        end = self._end(kafka, partition)
        since = self._positions.get(partition)
        if since is not None and since > end:  # the topic was deleted and made again
            since = None
        if since is None:
            self._latest[partition] = {}
        if since == end or end == 0:
            return
        consumer = self._consumer_client(kafka)
        start = kafka.OFFSET_BEGINNING if since is None else since
        consumer.assign([kafka.TopicPartition(self.topic, partition, start)])
        try:
            self._positions[partition] = self._consume(kafka, consumer, partition, end)
        finally:
            consumer.unassign()

    def _consume(self, kafka: Any, consumer: Any, partition: int, end: int) -> int:
        """Read up to the end; only a read that reaches it is an answer."""
        latest = self._latest[partition]
        deadline = time.monotonic() + READ_TIMEOUT
        while True:
            message = consumer.poll(0.5)
            if message is None:
                if time.monotonic() > deadline:
                    raise TimeoutError
            elif message.error() is None:
                latest[message.key()] = message.value()
            elif message.error().code() != kafka.KafkaError._PARTITION_EOF:
                raise kafka.KafkaException(message.error())
            elif message.offset() >= end:
                return int(message.offset())

    def _end(self, kafka: Any, partition: int) -> int:
        where = kafka.TopicPartition(self.topic, partition)
        latest = require("confluent_kafka.admin").OffsetSpec.latest()
        deadline = time.monotonic() + _CALL_TIMEOUT
        while True:
            asked = self._admin_client().list_offsets(
                {where: latest}, isolation_level=kafka.IsolationLevel.READ_UNCOMMITTED
            )
            try:
                return int(asked[where].result(_CALL_TIMEOUT).offset)
            except kafka.KafkaException as error:
                # Brokers are between two leaders, or the topic is younger than what they know.
                if error.args[0].name() not in PASSING or time.monotonic() > deadline:
                    raise
            time.sleep(0.05)

    # -- the topic -------------------------------------------------------------------------------

    def _prepare(self, kafka: Any) -> None:
        """Make the topic if it is missing; refuse one that forgets or is not safe."""
        if self._is_ready:
            return
        admin = self._admin_client()
        cluster = admin.list_topics(timeout=_CALL_TIMEOUT)
        if self.topic not in cluster.topics:
            self._create(kafka, admin, len(cluster.brokers))
        problem = self._problem(admin)
        if problem is not None:
            raise TargetUnusable("marker topic", self.topic, problem)
        self._is_ready = True

    def _create(self, kafka: Any, admin: Any, brokers: int) -> None:
        topic = require("confluent_kafka.admin").NewTopic(
            self.topic, MARKER_PARTITIONS, min(3, brokers), config=_TOPIC_CONFIG
        )
        try:
            admin.create_topics([topic], operation_timeout=_CALL_TIMEOUT)[self.topic].result(
                _CALL_TIMEOUT
            )
        except kafka.KafkaException as error:
            if error.args[0].name() != "TOPIC_ALREADY_EXISTS":
                raise

    def _problem(self, admin: Any) -> str | None:
        deadline = time.monotonic() + _CALL_TIMEOUT
        while True:  # a topic that was just made shows its partitions a little later
            cluster = admin.list_topics(self.topic, timeout=_CALL_TIMEOUT)
            found = cluster.topics[self.topic]
            if (found.error is None and found.partitions) or time.monotonic() > deadline:
                break
            time.sleep(0.02)
        resource = require("confluent_kafka.admin").ConfigResource("topic", self.topic)
        described = admin.describe_configs([resource])[resource].result(_CALL_TIMEOUT)
        replicas = [len(partition.replicas) for partition in found.partitions.values()]
        policy = described["cleanup.policy"].value
        return state_topic_problem(policy, replicas, MARKER_PARTITIONS - 1, len(cluster.brokers))

    def _admin_client(self) -> Any:
        if self._admin is None:
            admin_class = require("confluent_kafka.admin").AdminClient
            self._admin = admin_class({**self._properties, "log_level": 4})
        return self._admin

    def _consumer_client(self, kafka: Any) -> Any:
        if self._consumer is None:
            self._consumer = kafka.Consumer(
                {
                    **self._properties,
                    "group.id": "windrow-markers",
                    "isolation.level": "read_committed",
                    "enable.auto.commit": False,
                    "enable.auto.offset.store": False,
                    "enable.partition.eof": True,
                    # The default of half a second would be most of the time of a small batch.
                    "fetch.wait.max.ms": 5,
                    "auto.offset.reset": "earliest",
                    "log_level": 4,
                }
            )
        return self._consumer
