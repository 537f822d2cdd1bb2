"""Kafka as a target of barrier mode: one idempotent producer, made once."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from windrow.errors import InvalidValue
from windrow.extras import require
from windrow.relay.errors import TargetBroken
from windrow.relay.failure import Failure
from windrow.relay.machine import Lane
from windrow.relay.targets.kafka_errors import MALFORMED, classify
from windrow.relay.targets.message import headers_of, hints_of

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

CLIENT_LOG = logging.getLogger("windrow.kafka")
FORCED = {"enable.idempotence": True}
TIMEOUT_NAMES = ("delivery.timeout.ms", "message.timeout.ms")
"""Two names of one property: how long the producer may try."""
DEFAULTS: Mapping[str, Any] = {
    # Under the barrier a key moves once per round trip: lingering would be added to each.
    "linger.ms": 1,
    # The partition a Java producer would choose for the same key.
    "partitioner": "murmur2_random",
    "compression.type": "lz4",
    "queue.buffering.max.messages": 500_000,
    # A topic that is not there is a fault of the record; do not wait half a minute to say so.
    "topic.metadata.propagation.max.ms": 5_000,
    "delivery.timeout.ms": 8_000,
}


def make_producer(config: Mapping[str, Any]) -> Any:
    """A producer with these properties.

    Raises:
        InvalidValue: The client does not take them. By their names only: some are secrets.
    """
    kafka = require("confluent_kafka")
    try:
        return kafka.Producer(dict(config), logger=CLIENT_LOG)
    except kafka.KafkaException as error:
        reason, names = error.args[0].str(), ", ".join(sorted(config))
    raise InvalidValue("kafka.producer", names, "the configuration", reason)


class KafkaTarget:
    """Sends the heads of lanes and tells, through two queues, how each of them ended."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.acknowledged: deque[Lane] = deque()
        self.failed: deque[tuple[Lane, Failure]] = deque()
        self._config = {**DEFAULTS, **config, **FORCED}
        self._producer: Any = None
        self._kafka_exception: type[Exception] = Exception

    def open(self) -> None:
        """Make the producer.

        Raises:
            InvalidValue: Kafka's client does not take the properties.
        """
        self._kafka_exception = require("confluent_kafka").KafkaException
        self._producer = make_producer(self._config)

    def send(self, lanes: list[Lane]) -> None:
        """Hand the heads of these lanes to the producer; how each ends arrives through ``poll``.

        Raises:
            TargetBroken: The producer is of no more use; nothing of what it holds is known.
        """
        produce, settled = self._producer.produce, self._on_settled
        for lane in lanes:
            row = lane.head
            try:
                hints = {} if row[6] is None and row[7] is None else hints_of(row)
                if row[4] or row[5]:
                    hints["headers"] = headers_of(row)
                while True:
                    try:
                        produce(row[1], row[3], row[2], on_delivery=partial(settled, lane), **hints)
                        break
                    except BufferError:
                        self._producer.poll(0.01)
            except (*MALFORMED, self._kafka_exception) as error:
                self.failed.append((lane, self._classified(error)))

    def _on_settled(self, lane: Lane, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.acknowledged.append(lane)
        else:
            self.failed.append((lane, self._classified(error)))

    def _classified(self, error: Any) -> Failure:
        kafka_error = error.args[0] if isinstance(error, self._kafka_exception) else error
        if getattr(kafka_error, "fatal", bool)():
            raise TargetBroken("Kafka", kafka_error.str())
        return classify(error)

    def poll(self, timeout: float) -> int:
        """Serve what has arrived, waiting so long for the first; returns how much that was."""
        served: int = self._producer.poll(timeout)
        return served

    def close(self, timeout: float) -> int:
        """Wait for what is still on its way, then let go; returns how many never settled."""
        if self._producer is None:
            return 0
        left: int = self._producer.flush(timeout)
        if left:
            self._producer.purge()
            self._producer.flush(1.0)
        self._producer = None
        return left
