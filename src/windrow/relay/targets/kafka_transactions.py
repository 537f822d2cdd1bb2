"""Kafka as a target of transactional mode: a batch and its name in one transaction.

The name goes to a state topic, into a partition that only this transactional id writes to, so that
what was committed last can be read back. The read has to go to the very end of the partition:
``init_transactions`` first, so that nothing is open there any more, then the end without regard to
transactions, then read committed records until that end is reached.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any
from uuid import UUID

from windrow.extras import require
from windrow.outbox.marked import Marked
from windrow.points import pass_by
from windrow.relay.batch_machine import BatchName, Committed, CommitUnknown, ReadBack, Rejected
from windrow.relay.errors import LeaderFencedByTarget, StateTopicUnusable
from windrow.relay.failure import Failure, FailureKind
from windrow.relay.targets.kafka import CLIENT_LOG
from windrow.relay.targets.kafka_errors import classify
from windrow.relay.targets.message import Malformed, headers_of, hints_of

FENCED = frozenset({"_FENCED", "INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED"})
DEFAULTS: Mapping[str, Any] = {
    "linger.ms": 5,
    "partitioner": "murmur2_random",
    "compression.type": "lz4",
    "queue.buffering.max.messages": 500_000,
    "transaction.timeout.ms": 30_000,
    "delivery.timeout.ms": 20_000,
}


class KafkaTransactions:
    """Publishes named batches, all or nothing, under one transactional id."""

    def __init__(
        self,
        config: Mapping[str, Any],
        *,
        transactional_id: str,
        state_topic: str,
        state_partition: int = 0,
        operation_timeout: float = 20.0,
    ) -> None:
        self._config = {**DEFAULTS, **config}
        self._config |= {
            "enable.idempotence": True,
            "transactional.id": transactional_id,
            # Only refusals are of interest: that all went well is said by the commit.
            "delivery.report.only.error": True,
        }
        self._client_config = {
            key: value
            for key, value in config.items()
            if key.startswith(("bootstrap.", "sasl.", "security.", "ssl."))
        }
        self.transactional_id = transactional_id
        self.state_topic, self._state_partition = state_topic, state_partition
        self._operation_timeout = operation_timeout
        self._producer: Any = None
        self._refused: list[tuple[Marked, Failure]] = []

    # -- the fence -------------------------------------------------------------------------------

    def fence(self) -> CommitUnknown | None:
        """Make a new producer and shut out every earlier one of this id; None if that went well."""
        kafka = require("confluent_kafka")
        self.close()
        producer = kafka.Producer(self._config, logger=CLIENT_LOG)
        try:
            producer.init_transactions(self._operation_timeout)
        except kafka.KafkaException as error:
            return CommitUnknown(classify(error))
        self._producer = producer
        return None

    def ensure_state_topic(self, replication_factor: int = -1) -> None:
        """Create the state topic if it is missing; refuse one that forgets or is not safe.

        Raises:
            StateTopicUnusable: It is not compacted, or has too few partitions.
        """
        kafka, admin_module = require("confluent_kafka"), require("confluent_kafka.admin")
        admin = admin_module.AdminClient(self._client_config)
        if self.state_topic not in admin.list_topics(timeout=self._operation_timeout).topics:
            topic = admin_module.NewTopic(
                self.state_topic,
                num_partitions=max(8, self._state_partition + 1),
                replication_factor=replication_factor,
                config={"cleanup.policy": "compact"},
            )
            try:
                admin.create_topics([topic])[self.state_topic].result(self._operation_timeout)
            except kafka.KafkaException as error:
                if error.args[0].name() != "TOPIC_ALREADY_EXISTS":
                    raise
        resource = admin_module.ConfigResource("topic", self.state_topic)
        described = admin.describe_configs([resource])[resource].result(self._operation_timeout)
        if described["cleanup.policy"].value != "compact":
            raise StateTopicUnusable(
                self.state_topic, f"its cleanup.policy is {described['cleanup.policy'].value!r}"
            )

    # -- reading back ----------------------------------------------------------------------------

    def read_back(self) -> ReadBack | CommitUnknown:
        """The name of the batch that was committed last, if there ever was one."""
        kafka = require("confluent_kafka")
        try:
            return ReadBack(self._last_committed(kafka))
        except kafka.KafkaException as error:
            return CommitUnknown(classify(error))

    def _last_committed(self, kafka: Any) -> BatchName | None:
        start, end = self._span(kafka)
        # The last name is nearly always among the last few records; look further only if not.
        reach = 64
        while True:
            since = max(start, end - reach)
            found = self._read_span(kafka, since, end)
            if found is not None or since == start:
                return found
            reach *= 32

    def _span(self, kafka: Any) -> tuple[int, int]:
        admin_module = require("confluent_kafka.admin")
        admin = admin_module.AdminClient(self._client_config)
        partition = kafka.TopicPartition(self.state_topic, self._state_partition)
        offsets = []
        for spec in (admin_module.OffsetSpec.earliest(), admin_module.OffsetSpec.latest()):
            future = admin.list_offsets(
                {partition: spec}, isolation_level=kafka.IsolationLevel.READ_UNCOMMITTED
            )[partition]
            offsets.append(future.result(self._operation_timeout).offset)
        return offsets[0], offsets[1]

    def _read_span(self, kafka: Any, since: int, end: int) -> BatchName | None:
        """The last name between two offsets; only a read that reaches the end is an answer."""
        if since >= end:
            return None
        consumer = kafka.Consumer(
            self._client_config
            | {
                "group.id": self.transactional_id,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 5,
                "auto.offset.reset": "earliest",
            }
        )
        last = None
        deadline = time.monotonic() + self._operation_timeout
        try:
            consumer.assign([kafka.TopicPartition(self.state_topic, self._state_partition, since)])
            while True:
                message = consumer.poll(0.5)
                if message is None:
                    if time.monotonic() > deadline:
                        raise kafka.KafkaException(kafka.KafkaError(kafka.KafkaError._TIMED_OUT))
                elif message.error() is None:
                    last = _decode(message.value())
                elif message.error().code() != kafka.KafkaError._PARTITION_EOF:
                    raise kafka.KafkaException(message.error())
                elif message.offset() >= end:
                    return last
        finally:
            consumer.close()

    # -- publishing ------------------------------------------------------------------------------

    def publish(
        self, batch: BatchName, rows: Sequence[Marked]
    ) -> Committed | Rejected | CommitUnknown:
        """Write the rows and the batch's name in one transaction."""
        kafka = require("confluent_kafka")
        self._refused = []
        try:
            self._producer.begin_transaction()
            self._produce(rows, kafka.KafkaException)
            if self._refused:
                return self._abort(kafka)
            self._producer.produce(
                self.state_topic,
                _encode(batch),
                self.transactional_id.encode(),
                self._state_partition,
            )
            pass_by("relay.batch-produced")
            self._producer.commit_transaction(self._operation_timeout)
        except kafka.KafkaException as error:
            return self._on_error(kafka, error)
        return Committed()

    def _produce(self, rows: Sequence[Marked], kafka_exception: type[Exception]) -> None:
        produce, refused = self._producer.produce, self._on_refused
        for row in rows:
            try:
                hints = {} if row[6] is None and row[7] is None else hints_of(row)
                if row[4] or row[5]:
                    hints["headers"] = headers_of(row)
                while True:
                    try:
                        produce(row[1], row[3], row[2], on_delivery=partial(refused, row), **hints)
                        break
                    except BufferError:
                        self._producer.poll(0.05)
            except (Malformed, kafka_exception) as error:
                self._refused.append((row, classify(error)))

    def _on_refused(self, row: Marked, error: Any, message: Any) -> None:
        if error is not None:
            self._refused.append((row, classify(error)))

    def _on_error(self, kafka: Any, error: Exception) -> Rejected | CommitUnknown:
        kafka_error = error.args[0]
        if kafka_error.name() in FENCED:
            raise LeaderFencedByTarget(self.transactional_id) from error
        if kafka_error.txn_requires_abort():
            return self._abort(kafka, classify(error))
        return CommitUnknown(classify(error))

    def _abort(self, kafka: Any, cause: Failure | None = None) -> Rejected | CommitUnknown:
        """Undo the transaction; its rows are refused for certain only if that went well."""
        try:
            self._producer.abort_transaction(self._operation_timeout)
        except kafka.KafkaException as error:
            if error.args[0].name() in FENCED:
                raise LeaderFencedByTarget(self.transactional_id) from error
            return CommitUnknown(classify(error))
        blamed = [
            f
            for f in self._refused
            if f[1].kind in (FailureKind.PERMANENT, FailureKind.RETRIABLE)
            and not f[1].code.startswith("_PURGE")
        ]
        if blamed:
            return Rejected(blamed)
        return CommitUnknown(cause or self._refused[0][1])

    def close(self) -> None:
        """Let go of the producer; an open transaction is the next one's to abort."""
        if self._producer is not None:
            self._producer.purge()
            self._producer = None


def _encode(batch: BatchName) -> bytes:
    return json.dumps({"batch": str(batch.uuid), "count": batch.count}).encode()


def _decode(value: bytes) -> BatchName:
    fields = json.loads(value)
    return BatchName(UUID(fields["batch"]), fields["count"])
