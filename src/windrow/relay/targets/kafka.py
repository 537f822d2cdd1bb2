"""Kafka as a target of barrier mode: one idempotent producer, made once."""

from __future__ import annotations

import logging
import math
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from windrow.errors import InvalidValue
from windrow.extras import require
from windrow.relay.errors import TargetBroken
from windrow.relay.failure import Failure, FailureKind
from windrow.relay.machine import Lane
from windrow.relay.targets.kafka_errors import MALFORMED, classify, is_fatal
from windrow.relay.targets.message import headers_of, hints_of

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

CLIENT_LOG = logging.getLogger("windrow.kafka")
FORCED = {"enable.idempotence": True}
TIMEOUT_NAMES = ("delivery.timeout.ms", "message.timeout.ms")
"""Two names of one property: how long the producer may try."""
DEFAULTS: Mapping[str, Any] = {
    # Under the barrier a key moves once per round trip: lingering would be added to each. Batches
    # form all the same, of what is handed over while a request is on its way.
    "linger.ms": 0,
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


OVERDUE = Failure(FailureKind.UNKNOWN, "overdue", "the right to lead ran out before it was sent")


class KafkaTarget:
    """Sends the heads of lanes and tells, through two queues, how each of them ended."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.acknowledged: deque[Lane] = deque()
        self.failed: deque[tuple[Lane, Failure]] = deque()
        self.sends_until: Callable[[], float] = lambda: math.inf
        """Until when records may be handed over; asked for each ``send``, kept to for each record.

        A pause may fall anywhere, and a producer counts its time-out from when it was handed a
        record: what is handed over late arrives late.
        """
        self.on_overrun: Callable[[], object] = lambda: None
        """Told when a record was handed over though the time was up: nothing can take it back."""
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
        until, now, has_sent = self.sends_until(), time.monotonic, False
        for lane in lanes:
            row, report = lane.head, partial(settled, lane)
            try:
                hints = {} if row[6] is None and row[7] is None else hints_of(row)
                if row[4] or row[5]:
                    hints["headers"] = headers_of(row)
                while True:
                    if now() > until:
                        self.failed.append((lane, OVERDUE))
                        break
                    try:
                        produce(row[1], row[3], row[2], on_delivery=report, **hints)
                        has_sent = True
                        break
                    except BufferError:
                        self._producer.poll(0.01)
            except (*MALFORMED, self._kafka_exception) as error:
                self.failed.append((lane, self._classified(error)))
        if has_sent and now() > until:
            self.on_overrun()

    def _on_settled(self, lane: Lane, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.acknowledged.append(lane)
        else:
            self.failed.append((lane, self._classified(error)))

    def _classified(self, error: Any) -> Failure:
        kafka_error = error.args[0] if isinstance(error, self._kafka_exception) else error
        if not isinstance(error, MALFORMED) and is_fatal(kafka_error):
            raise TargetBroken("Kafka", kafka_error.str())
        return classify(error)

    def poll(self, timeout: float) -> int:
        """Serve what has arrived, waiting so long for the first; returns how much that was.

        Raises:
            TargetBroken: The producer is of no more use; nothing of what it holds is known.
        """
        try:
            served: int = self._producer.poll(timeout)
        except self._kafka_exception as error:  # of which it tells no callback
            raise TargetBroken("Kafka", error.args[0].str()) from error
        return served

    def close(self, timeout: float) -> int:
        """Wait for what is still on its way, then let go; returns how many never settled."""
        if self._producer is None:
            return 0
        producer, self._producer = self._producer, None
        left = 0
        with suppress(TargetBroken, self._kafka_exception):  # it has said so already
            left = producer.flush(timeout)
        if left:
            producer.purge()
            with suppress(TargetBroken, self._kafka_exception):
                producer.flush(1.0)
        return left
