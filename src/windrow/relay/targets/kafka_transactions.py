"""Kafka as a target of transactional mode: a batch and its name in one transaction.

The name goes to a state topic, under the transactional id as its key, so that what was committed
last can be read back: ``CommittedTopic`` knows how.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast
from uuid import UUID
from zlib import crc32

from windrow.extras import require
from windrow.outbox.marked import Marked
from windrow.points import pass_by
from windrow.relay.batch_machine import BatchName, Committed, CommitUnknown, ReadBack, Rejected
from windrow.relay.errors import LeaderFencedByTarget, StateTopicUnusable
from windrow.relay.failure import Failure, FailureKind
from windrow.relay.targets.committed_topic import CommittedTopic
from windrow.relay.targets.kafka import make_producer
from windrow.relay.targets.kafka_errors import MALFORMED, classify, unreachable
from windrow.relay.targets.kafka_fence import FENCED, shut_out_others
from windrow.relay.targets.message import hand_over

STATE_PARTITIONS = 16
MISSING = frozenset({"UNKNOWN_TOPIC_OR_PART", "_NOENT", "_UNKNOWN_PARTITION", "_UNKNOWN_TOPIC"})
DEFAULTS: Mapping[str, Any] = {
    "linger.ms": 5,
    "partitioner": "murmur2_random",
    "compression.type": "lz4",
    "queue.buffering.max.messages": 500_000,
    # A topic that is not there is a fault of the record; do not wait half a minute to say so.
    "topic.metadata.propagation.max.ms": 5_000,
    "transaction.timeout.ms": 30_000,
    "delivery.timeout.ms": 20_000,
}

Refused = list[tuple[Marked, Failure]]


@dataclass
class _Prepared:
    """A batch that is produced and not committed."""

    batch: BatchName
    producer: Any
    refused: Refused = field(default_factory=Refused)
    error: Exception | None = None


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
        self.transactional_id = transactional_id
        self.state_topic, self._state_partition = state_topic, state_partition
        self._operation_timeout = operation_timeout
        self._producer: Any = None
        self._prepared: _Prepared | None = None

    # -- the fence -------------------------------------------------------------------------------

    def fence(self) -> CommitUnknown | None:
        """Make a new producer and shut out every earlier one of this id; None if that went well."""
        kafka = require("confluent_kafka")
        self.close()
        producer = make_producer(self._config)
        try:
            shut_out_others(producer, self._operation_timeout)
        except kafka.KafkaException as error:
            return CommitUnknown(classify(error))
        self._producer = producer
        return None

    def enter(self, generation: int, epoch: int) -> None:
        """Nothing: Kafka itself knows which of two producers came later."""

    def identify(self, outbox: str, shard: int = 0) -> None:
        """Go by the name of an outbox and of its shard from now on.

        Each shard has a state partition of its own, unless there are more of them than partitions:
        then one may have to wait for another's transaction to end before it can read back.
        """
        self.transactional_id = outbox if shard == 0 else f"{outbox}-{shard}"
        self._config["transactional.id"] = self.transactional_id
        self._state_partition = (crc32(outbox.encode()) + shard) % STATE_PARTITIONS

    def open(self) -> None:
        """Create the state topic if it is missing; refuse one that forgets or is not safe.

        Raises:
            StateTopicUnusable: It is not compacted, not replicated, or has too few partitions.
            Unreachable: The brokers gave no answer.
        """
        kafka = require("confluent_kafka")
        try:
            with self._state() as state:
                self._ensure(state)
        except (kafka.KafkaException, TimeoutError) as error:
            raise unreachable(self._config, error) from error

    def _ensure(self, state: CommittedTopic) -> None:
        problem = state.ensure(self._state_partition)
        if problem is not None:
            raise StateTopicUnusable(self.state_topic, problem)

    def _state(self) -> CommittedTopic:
        """The state topic, by clients of its own: a call that hangs may outlive the next one."""
        return CommittedTopic(
            self._config,
            self.state_topic,
            partitions=STATE_PARTITIONS,
            timeout=self._operation_timeout,
        )

    # -- reading back ----------------------------------------------------------------------------

    def read_back(self) -> ReadBack | CommitUnknown:
        """The name of the batch that was committed last, if there ever was one."""
        with self._state() as state:
            return self._read_back(state)

    def _read_back(self, state: CommittedTopic) -> ReadBack | CommitUnknown:
        kafka = require("confluent_kafka")
        try:
            return ReadBack(self._last_committed(state))
        except TimeoutError:
            text = f"no answer within {state.timeout:g} s"
            return CommitUnknown(Failure(FailureKind.TARGET_DOWN, "timeout", text))
        except kafka.KafkaException as error:
            if error.args[0].name() in MISSING:
                # Somebody has deleted it. An empty one in its place says so to whoever looks next.
                with suppress(kafka.KafkaException, TimeoutError):
                    self._ensure(state)
            return CommitUnknown(classify(error))

    def _last_committed(self, state: CommittedTopic) -> BatchName | None:
        partition, key = self._state_partition, self.transactional_id.encode()
        start, end = state.start(partition), state.end(partition)
        # The last name is nearly always among the last few records; look further only if not.
        reach = 64
        while True:
            since = max(start, end - reach)
            # Another's name may lie in the same partition, if their ids fall together.
            found = state.read(partition, since, end).get(key)
            if found is not None:
                return _decode(found)
            if since == start:
                return None
            reach *= 32

    # -- publishing ------------------------------------------------------------------------------

    def prepare(self, batch: BatchName, rows: Sequence[Marked]) -> None:
        """Begin a transaction and produce the rows and their name; ``publish`` then only commits.

        Nobody who reads committed records sees them, and whoever leads next undoes them: so this
        may be done before the batch is known to be marked. What goes wrong here ``publish`` tells.
        """
        kafka = require("confluent_kafka")
        # This producer to the end: a call that hangs may outlive it being replaced.
        self._prepared = prepared = _Prepared(batch, self._producer)
        try:
            prepared.producer.begin_transaction()
            self._produce(prepared.producer, rows, prepared.refused)
            self._produce_name(prepared.producer, batch)
        except kafka.KafkaException as error:
            prepared.error = error

    def discard(self) -> None:
        """Undo what was prepared: the batch came to be another. A failure ``publish`` tells."""
        prepared = self._prepared
        if prepared is None:
            return
        kafka = require("confluent_kafka")
        try:
            prepared.producer.abort_transaction(self._operation_timeout)
        except kafka.KafkaException as error:
            prepared.error = error
        else:
            self._prepared = None

    def publish(
        self, batch: BatchName, rows: Sequence[Marked]
    ) -> Committed | Rejected | CommitUnknown:
        """Write the rows and the batch's name in one transaction; only what is not prepared yet."""
        kafka = require("confluent_kafka")
        if self._prepared is None:
            self.prepare(batch, rows)
        prepared, self._prepared = cast(_Prepared, self._prepared), None
        producer, refused = prepared.producer, prepared.refused
        try:
            if prepared.error is not None:
                raise prepared.error
            if prepared.batch != batch:
                raise AssertionError(f"{prepared.batch} is prepared, and {batch} to be published")
            if refused:
                return self._abort(producer, refused)
            pass_by("relay.batch-produced")
            producer.commit_transaction(self._operation_timeout)
        except kafka.KafkaException as error:
            return self._on_error(producer, refused, error)
        return Committed()

    def _produce(self, producer: Any, rows: Sequence[Marked], refused: Refused) -> None:
        produce, on_refused = producer.produce, partial(_on_refused, refused)
        kafka_exception: type[Exception] = require("confluent_kafka").KafkaException
        for row in rows:
            try:
                while True:
                    try:
                        hand_over(produce, row, partial(on_refused, row))
                        break
                    except BufferError:
                        producer.poll(0.05)
            except (*MALFORMED, kafka_exception) as error:
                refused.append((row, classify(error)))

    def _produce_name(self, producer: Any, batch: BatchName) -> None:
        key, partition = self.transactional_id.encode(), self._state_partition
        while True:
            try:
                producer.produce(self.state_topic, _encode(batch), key, partition)
                return
            except BufferError:
                producer.poll(0.05)

    def _on_error(
        self, producer: Any, refused: Refused, error: Exception
    ) -> Rejected | CommitUnknown:
        kafka_error = error.args[0]
        if kafka_error.name() in FENCED:
            raise LeaderFencedByTarget(self.transactional_id) from error
        if kafka_error.txn_requires_abort():
            return self._abort(producer, refused, classify(error))
        return CommitUnknown(classify(error))

    def _abort(
        self, producer: Any, refused: Refused, cause: Failure | None = None
    ) -> Rejected | CommitUnknown:
        """Undo the transaction; its rows are refused for certain only if that went well."""
        kafka = require("confluent_kafka")
        try:
            producer.abort_transaction(self._operation_timeout)
        except kafka.KafkaException as error:
            if error.args[0].name() in FENCED:
                raise LeaderFencedByTarget(self.transactional_id) from error
            return CommitUnknown(classify(error))
        blamed = [
            f
            for f in refused
            if f[1].kind in (FailureKind.PERMANENT, FailureKind.RETRIABLE)
            and not f[1].code.startswith("_PURGE")
        ]
        if blamed:
            return Rejected(blamed)
        return CommitUnknown(cause or refused[0][1])

    def close(self) -> None:
        """Let go of the producer; an open transaction is the next one's to abort."""
        self._prepared = None
        if self._producer is not None:
            self._producer.purge()
            self._producer = None


def _on_refused(refused: Refused, row: Marked, error: Any, message: Any) -> None:
    if error is not None:
        refused.append((row, classify(error)))


def _encode(batch: BatchName) -> bytes:
    return json.dumps({"batch": str(batch.uuid), "count": batch.count}).encode()


def _decode(value: bytes) -> BatchName:
    fields = json.loads(value)
    return BatchName(UUID(fields["batch"]), fields["count"])
