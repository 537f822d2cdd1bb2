"""Who writes under one transactional id? A producer, and the marker that it committed last.

Once ``init_transactions`` has returned, every earlier producer of the id is shut out, and what it
had under way is decided. So the marker that is read back then stays true until this producer writes
another, or is itself shut out: in which case it can commit nothing any more. That is the
compare-and-set of Kafka.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from windrow.extras import require
from windrow.relay.targets.kafka import make_producer
from windrow.relay.targets.kafka_fence import FENCED, shut_out_others
from windrow.spark.targets.kafka_markers import MarkerReader

OPERATION_TIMEOUT = 30.0
TRANSACTION_TIMEOUT_MS = 30_000
DEFAULTS: Mapping[str, Any] = {
    "linger.ms": 5,
    "compression.type": "lz4",
    "queue.buffering.max.messages": 500_000,
    "topic.metadata.propagation.max.ms": 5_000,
    "delivery.timeout.ms": 20_000,
    "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
}

Marker = dict[str, Any]


class Outcome(Enum):
    """How a transaction ended, if it may have been made."""

    COMMITTED = auto()
    FENCED = auto()
    UNKNOWN = auto()


@dataclass(frozen=True, slots=True)
class Refusal:
    """A record that Kafka will not take; nothing was written. ``number`` tells which it was."""

    number: int | None
    reason: str


class KafkaWriter:
    """Writes transactions under one transactional id, each with a marker."""

    def __init__(
        self, properties: Mapping[str, Any], markers: MarkerReader, name: str, partition: int
    ) -> None:
        self.name = name
        self._config = {**DEFAULTS, **properties}
        self._config |= {
            "enable.idempotence": True,
            "transactional.id": name,
            # Only refusals are of interest: that all went well is said by the commit.
            "delivery.report.only.error": True,
        }
        self._markers, self._partition = markers, partition
        self._producer: Any = None
        self.marker: Marker | None = None
        """What is known to be committed, as long as it is open."""
        self.has_committed = False
        """Whether the marker is its own; one that was only read may be out of date by now."""

    @property
    def is_open(self) -> bool:
        """Whether there is a producer; another one may have shut it out by now."""
        return self._producer is not None

    def open(self) -> None:
        """Shut out every earlier producer of this id, and read its last marker.

        Raises:
            Unreachable: Kafka gave no answer.
        """
        if not self.is_open:
            self.shut_out()
        self.marker = self.peek()

    def shut_out(self) -> None:
        """Shut out every earlier producer of this id; several writers may do so at a time.

        Raises:
            Unreachable: Kafka gave no answer.
        """
        self.close()
        kafka = require("confluent_kafka")
        producer = make_producer(self._config)
        try:
            shut_out_others(producer, OPERATION_TIMEOUT)
        except kafka.KafkaException as error:
            raise self._markers.unreachable(error) from error
        self._producer = producer

    def peek(self) -> Marker | None:
        """The last marker, without shutting anybody out."""
        return self._markers.read(self.name, self._partition)

    def commit(
        self, marker: Marker, produce: Callable[[Any, list[Refusal]], None] | None = None
    ) -> Outcome | Refusal:
        """Produce what there is and the marker, all or nothing.

        Args:
            marker: What is to be read back from now on.
            produce: Hands records to a producer, and notes which ones Kafka refuses, as long as
                the transaction lasts.

        Raises:
            Unreachable: It certainly did not happen: Kafka took it back, or never got it.
        """
        kafka = require("confluent_kafka")
        producer = self._producer
        refused: list[Refusal] = []
        try:
            producer.begin_transaction()
            if produce is not None:
                produce(producer, refused)
            if refused:
                return self._abort(producer) or refused[0]
            value = json.dumps(marker, separators=(",", ":"), ensure_ascii=False).encode()
            producer.produce(self._markers.topic, value, self.name.encode(), self._partition)
            producer.commit_transaction(OPERATION_TIMEOUT)
        except kafka.KafkaException as error:
            return self._on_error(producer, error, refused)
        except BaseException:
            # Whatever it was, such as a task that was killed: the next one begins anew.
            self.close()
            raise
        self.marker, self.has_committed = marker, True
        return Outcome.COMMITTED

    def _on_error(
        self, producer: Any, error: Exception, refused: list[Refusal]
    ) -> Outcome | Refusal:
        kafka_error = error.args[0]
        if kafka_error.name() in FENCED:
            self.close()
            return Outcome.FENCED
        if not kafka_error.txn_requires_abort():
            self.close()
            return Outcome.UNKNOWN
        outcome = self._abort(producer)
        if outcome is not None:
            return outcome
        if refused:
            return refused[0]
        raise self._markers.unreachable(error) from error

    def _abort(self, producer: Any) -> Outcome | None:
        """Take the transaction back; ``None`` if that went well, so nothing was written.

        The producer has had its day either way: after a refusal it may number records wrongly.
        """
        kafka = require("confluent_kafka")
        try:
            producer.abort_transaction(OPERATION_TIMEOUT)
        except kafka.KafkaException as error:
            return Outcome.FENCED if error.args[0].name() in FENCED else Outcome.UNKNOWN
        finally:
            self.close()
        return None

    def close(self) -> None:
        """Let go of the producer; what it has open is taken back by the next one's ``open``."""
        if self._producer is not None:
            self._producer.purge()
            self._producer = None
        self.marker, self.has_committed = None, False
