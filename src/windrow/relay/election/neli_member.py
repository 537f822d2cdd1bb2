"""One stay in the group that elects: a consumer and a producer, and what they tell.

The consumer's callbacks run inside ``read``, on the caller's thread: Kafka gives a revoked
partition away only when the listener has returned.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from windrow.errors import Unreachable, WindrowError
from windrow.extras import require
from windrow.relay.election.errors import ElectionBroken, GroupRefused
from windrow.relay.election.neli_settings import NeliSettings

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

_NO_ANSWER = frozenset({"_TRANSPORT", "_ALL_BROKERS_DOWN", "_TIMED_OUT", "_RESOLVE"})


class Listener(Protocol):
    """Who is told what happens to a partition of the leader topic."""

    def on_assigned(self, shard: int) -> None:
        """It is ours."""

    def on_revoked(self, shard: int) -> None:
        """It is asked back, and ours until this returns."""

    def on_lost(self, shard: int) -> None:
        """It may be another's already."""

    def on_heartbeat(self, shard: int, value: bytes, offset: int) -> None:
        """Something was read from it."""

    def on_committed(self, shard: int, offset: int, was_accepted: bool) -> None:
        """The group has answered a commit."""

    def on_trouble(self, trouble: WindrowError) -> None:
        """A client reports what it cannot mend by itself at once."""


class NeliMember:
    """A member of the group from when it is made until it leaves or is dropped."""

    def __init__(self, base: Mapping[str, Any], settings: NeliSettings, listener: Listener) -> None:
        kafka = require("confluent_kafka")
        self._kafka_exception: type[Exception] = kafka.KafkaException
        self._partition: type[TopicPartition] = kafka.TopicPartition
        self._settings, self._listener = settings, listener
        self._address = str(base.get("bootstrap.servers", "no bootstrap.servers"))
        self._member_id = ""
        self._is_over = False
        self._producer = kafka.Producer(
            {**settings.producer_properties(base), "error_cb": self._on_error}
        )
        self._consumer = kafka.Consumer(
            {
                **settings.consumer_properties(base),
                "error_cb": self._on_error,
                "on_commit": self._on_committed,
            }
        )
        self._consumer.subscribe(
            [settings.leader_topic],
            on_assign=self._on_assigned,
            on_revoke=self._on_revoked,
            on_lost=self._on_lost,
        )

    # -- what to do ------------------------------------------------------------------------------

    def read(self, wait: float) -> None:
        """Hear what there is to hear, waiting so long for the first of it.

        Raises:
            ElectionBroken: The consumer is of no more use.
        """
        self._producer.poll(0)
        message = self._consumer.poll(wait)
        while message is not None:
            self._on_message(message)
            message = self._consumer.poll(0)

    def publish(self, shard: int, value: bytes) -> None:
        """Send a heartbeat; if it cannot even be queued it counts as one that never came back."""
        with contextlib.suppress(BufferError, self._kafka_exception):
            self._producer.produce(
                self._settings.leader_topic, value, partition=shard, on_delivery=self._on_delivered
            )

    def commit(self, shard: int, offset: int) -> None:
        """Have the group commit an offset; its answer comes with ``on_committed``."""
        wanted = self._partition(self._settings.leader_topic, shard, offset)
        try:
            self._consumer.commit(offsets=[wanted], asynchronous=True)
        except self._kafka_exception:
            self._listener.on_committed(shard, offset, False)

    def leave(self, timeout: float) -> None:
        """Leave the group, so that another is given the partitions at once.

        A broker that gives no answer is waited for no longer than that: then the session expires.
        """
        self._is_over = True
        self._producer.purge()
        leaving = threading.Thread(target=self._consumer.close, name="windrow-leave", daemon=True)
        leaving.start()
        leaving.join(timeout)

    def drop(self) -> None:
        """Let go without a word, as a process that was killed does: the session has to expire."""
        self._is_over = True
        self._producer.purge()
        del self._consumer

    # -- what happened ---------------------------------------------------------------------------

    def _on_assigned(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        if self._is_over:
            return
        # From the end: heartbeats of the time before are nobody's proof.
        end = require("confluent_kafka").OFFSET_END
        wanted = [self._partition(p.topic, p.partition, end) for p in partitions]
        if self._settings.assignor == "cooperative-sticky":
            consumer.incremental_assign(wanted)
        else:
            consumer.assign(wanted)
        self._member_id = consumer.memberid()
        for partition in partitions:
            self._listener.on_assigned(partition.partition)

    def _on_revoked(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        for partition in () if self._is_over else partitions:
            self._listener.on_revoked(partition.partition)

    def _on_lost(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        for partition in () if self._is_over else partitions:
            self._listener.on_lost(partition.partition)

    def _on_message(self, message: Message) -> None:
        error = message.error()
        if error is not None:
            self._on_error(error)
            return
        shard, value, offset = message.partition(), message.value(), message.offset()
        if shard is not None and value is not None and offset is not None:
            self._listener.on_heartbeat(shard, value, offset)

    def _on_committed(self, error: KafkaError | None, partitions: Sequence[TopicPartition]) -> None:
        if self._is_over:
            return
        # A consumer that has just lost its membership commits as nobody, which an empty group
        # accepts: that proves nothing.
        was_accepted = error is None and self._consumer.memberid() == self._member_id
        for partition in partitions:
            self._listener.on_committed(
                partition.partition, partition.offset, was_accepted and partition.error is None
            )

    def _on_delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._on_error(error)

    def _on_error(self, error: KafkaError) -> None:
        if self._is_over or error.name().startswith("_PURGE"):
            return
        if error.fatal():
            raise ElectionBroken(self._settings.group, error.str())
        self._listener.on_trouble(self._diagnosed(error))

    def _diagnosed(self, error: KafkaError) -> WindrowError:
        if error.name() in _NO_ANSWER:
            return Unreachable("Kafka", self._address, error.str())
        remedy = "it is tried again"
        if error.name() == "INCONSISTENT_GROUP_PROTOCOL":
            remedy = (
                f"its members do not use the assignor {self._settings.assignor!r}, and all have"
                " to use the same: 'range' is goneli's"
            )
        return GroupRefused(self._settings.group, error.str(), remedy)
