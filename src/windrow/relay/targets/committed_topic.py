"""What was committed last under an id? A compacted topic that is read back to its very end.

A writer leaves its last word under its transactional id, in the same transaction as what that word
tells of. Whoever comes after it first calls ``init_transactions``, so that nothing of that id is
open any more; then takes the end of the partition without regard to transactions; then reads what
is committed until that end is reached. Somebody else's open transaction in the same partition makes
the read wait, never stop short.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Self

from windrow.extras import require

CONFIG: Mapping[str, str] = {
    "cleanup.policy": "compact",
    # Of a segment that is written to nothing is compacted, and a new reader may read all of it.
    "segment.bytes": str(8 * 1024 * 1024),
    "min.cleanable.dirty.ratio": "0.2",
}
_CLIENT_KEYS = ("bootstrap.", "client.", "sasl.", "security.", "ssl.")


def client_properties(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Those that every kind of client takes."""
    return {key: value for key, value in properties.items() if key.startswith(_CLIENT_KEYS)}


class CommittedTopic:
    """One such topic, as a context; its clients are made when they are needed and kept to its end.

    Each call may raise ``KafkaException``, or ``TimeoutError`` if there was no answer in time.
    """

    def __init__(
        self, properties: Mapping[str, Any], topic: str, *, partitions: int, timeout: float
    ) -> None:
        self.topic, self.timeout = topic, timeout
        self._partitions = partitions
        # A short-lived client has little to say that is of use.
        self._properties = {**client_properties(properties), "log_level": 4}
        self._admin: Any = None
        self._consumer: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # -- the topic itself ------------------------------------------------------------------------

    def ensure(self, partition: int) -> str | None:
        """Make the topic if it is missing; why it cannot be trusted, if there is a reason."""
        admin = self.admin()
        cluster = admin.list_topics(timeout=self.timeout)
        if self.topic not in cluster.topics:
            self._create(admin, len(cluster.brokers))
        cluster = self._await_partitions(admin)
        resource = require("confluent_kafka.admin").ConfigResource("topic", self.topic)
        described = admin.describe_configs([resource])[resource].result(self.timeout)
        replicas = [len(one.replicas) for one in cluster.topics[self.topic].partitions.values()]
        policy = described["cleanup.policy"].value
        return topic_problem(policy, replicas, partition, len(cluster.brokers))

    def _create(self, admin: Any, brokers: int) -> None:
        kafka, admin_module = require("confluent_kafka"), require("confluent_kafka.admin")
        wanted = admin_module.NewTopic(self.topic, self._partitions, min(3, brokers), config=CONFIG)
        created = admin.create_topics([wanted], operation_timeout=self.timeout)
        try:
            created[self.topic].result(self.timeout)
        except kafka.KafkaException as error:
            if error.args[0].name() != "TOPIC_ALREADY_EXISTS":
                raise

    def _await_partitions(self, admin: Any) -> Any:
        """The cluster as it is once it shows the partitions; of a new topic it does so later."""
        deadline = time.monotonic() + self.timeout
        while True:
            cluster = admin.list_topics(self.topic, timeout=self.timeout)
            found = cluster.topics[self.topic]
            if (found.partitions and found.error is None) or time.monotonic() > deadline:
                return cluster
            time.sleep(0.02)

    # -- reading back ----------------------------------------------------------------------------

    def start(self, partition: int) -> int:
        """The first offset that is still there."""
        return self._offset(partition, require("confluent_kafka.admin").OffsetSpec.earliest())

    def end(self, partition: int) -> int:
        """The offset behind the last record, committed or not."""
        return self._offset(partition, require("confluent_kafka.admin").OffsetSpec.latest())

    def _offset(self, partition: int, spec: Any) -> int:
        kafka = require("confluent_kafka")
        where = kafka.TopicPartition(self.topic, partition)
        asked = self.admin().list_offsets(
            {where: spec}, isolation_level=kafka.IsolationLevel.READ_UNCOMMITTED
        )
        return int(asked[where].result(self.timeout).offset)

    def read(
        self, partition: int, since: int, end: int, timeout: float | None = None
    ) -> dict[bytes, bytes]:
        """The last committed word of each id between two offsets.

        Only a read that reaches the end is an answer.
        """
        if since >= end:
            return {}
        consumer = self._consumer_client()
        where = require("confluent_kafka").TopicPartition(self.topic, partition, since)
        consumer.assign([where])
        try:
            return _read_to(consumer, end, time.monotonic() + (timeout or self.timeout))
        finally:
            consumer.unassign()

    # -- clients ---------------------------------------------------------------------------------

    def admin(self) -> Any:
        """The client that asks about topics."""
        if self._admin is None:
            self._admin = require("confluent_kafka.admin").AdminClient(self._properties)
        return self._admin

    def _consumer_client(self) -> Any:
        if self._consumer is None:
            self._consumer = require("confluent_kafka").Consumer(
                {
                    **self._properties,
                    "group.id": self.topic,  # asked for by the client; nobody joins it
                    "isolation.level": "read_committed",
                    "enable.auto.commit": False,
                    "enable.auto.offset.store": False,
                    "enable.partition.eof": True,
                    # The default of half a second would be most of the time of a small batch.
                    "fetch.wait.max.ms": 5,
                    "auto.offset.reset": "earliest",
                }
            )
        return self._consumer

    def close(self) -> None:
        """End all connections; a later call makes new ones."""
        if self._consumer is not None:
            self._consumer.close()
        self._consumer = self._admin = None


def _read_to(consumer: Any, end: int, deadline: float) -> dict[bytes, bytes]:
    kafka = require("confluent_kafka")
    last: dict[bytes, bytes] = {}
    while True:
        message = consumer.poll(0.5)
        if message is None:
            if time.monotonic() > deadline:
                raise TimeoutError
        elif message.error() is None:
            last[message.key()] = message.value()
        elif message.error().code() != kafka.KafkaError._PARTITION_EOF:
            raise kafka.KafkaException(message.error())
        elif message.offset() >= end:
            return last


def topic_problem(
    cleanup_policy: str, replicas: Sequence[int], partition: int, brokers: int
) -> str | None:
    """Why a topic cannot be trusted with last words; None if it can. Pure."""
    if cleanup_policy != "compact":
        return f"its cleanup.policy is {cleanup_policy!r}; it has to be 'compact' alone"
    if partition >= len(replicas):
        return f"it has {len(replicas)} partitions, and {partition} is needed; add some"
    if min(replicas) < min(2, brokers):
        return f"a partition has one replica in a cluster of {brokers} brokers; add another"
    return None
