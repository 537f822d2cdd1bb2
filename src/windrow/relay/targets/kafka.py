"""Kafka as a target of barrier mode: idempotent producers, made once.

There are two of them. Under the barrier a key moves once per round trip, so a producer that lingers
is poison to a hot key and to a record that comes alone; but many records at once are handed over
one by one, and a producer that never lingers wakes up for each and sends requests of a few. So what
comes alone goes by one that sends at once, and what comes in numbers by one that gathers. Since a
key has one record on its way at a time, it does not matter which of its records goes by which.

But one that failed goes again by the same: its first copy may still be on its way, and only the
producer that sent it can have the brokers refuse it.
"""

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
from windrow.relay.targets.message import hand_over

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

CLIENT_LOG = logging.getLogger("windrow.kafka")
FORCED = {"enable.idempotence": True}
LINGER_NAMES = frozenset({"linger.ms", "queue.buffering.max.ms"})
"""Two names of one property. Who sets it has one producer, with that."""
GATHERING = {"linger.ms": 1}
MANY = 128
"""Records that together are worth a millisecond of waiting: they save about as much work."""
GLANCE = 0.001
"""How long one producer is waited for while the other has something on its way as well."""
TIMEOUT_NAMES = ("delivery.timeout.ms", "message.timeout.ms")
"""Two names of one property: how long the producer may try."""
DEFAULTS: Mapping[str, Any] = {
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
        self._gathers = LINGER_NAMES.isdisjoint(config)
        self._eager: Any = None
        self._gathering: Any = None
        """The same as the eager one, if it is not for us to say how long a record lingers."""
        self._in_doubt: dict[int, Any] = {}
        """By which producer a record was sent that failed, and may have arrived all the same."""
        self._kafka_exception: type[Exception] = Exception

    def open(self) -> None:
        """Make the producers.

        Raises:
            InvalidValue: Kafka's client does not take the properties.
        """
        self._kafka_exception = require("confluent_kafka").KafkaException
        self._in_doubt.clear()  # nothing that earlier ones held can arrive any more
        self._eager = self._gathering = make_producer(self._config)
        if self._gathers:
            self._gathering = make_producer(self._config | GATHERING)

    def send(self, lanes: list[Lane]) -> None:
        """Hand the heads of these lanes to a producer; how each ends arrives through ``poll``.

        Raises:
            TargetBroken: The producer is of no more use; nothing of what it holds is known.
        """
        if self._in_doubt:
            lanes = [lane for lane in lanes if not self._send_again(lane)]
        if len(lanes) < MANY:
            self._send(self._eager, lanes)
        else:
            # Whoever waits for reports may wait for those of the eager producer: the report of the
            # last wakes him, and by then the others are under way.
            self._send(self._gathering, lanes[:-1])
            self._send(self._eager, lanes[-1:])

    def _send_again(self, lane: Lane) -> bool:
        """Send what failed before by the same producer; false if it is not of that kind."""
        producer = self._in_doubt.get(lane.head.id)
        if producer is not None:
            self._send(producer, [lane])
        return producer is not None

    def _send(self, producer: Any, lanes: list[Lane]) -> None:
        produce, settled = producer.produce, partial(self._on_settled, producer)
        until, now, has_sent = self.sends_until(), time.monotonic, False
        for lane in lanes:
            try:
                while True:
                    if now() > until:
                        self.failed.append((lane, OVERDUE))
                        break
                    try:
                        hand_over(produce, lane.head, partial(settled, lane))
                        has_sent = True
                        break
                    except BufferError:
                        producer.poll(0.01)
            except (*MALFORMED, self._kafka_exception) as error:
                self.failed.append((lane, self._classified(error)))
        if has_sent and now() > until:
            self.on_overrun()

    def _on_settled(
        self, producer: Any, lane: Lane, error: KafkaError | None, message: Message
    ) -> None:
        if error is None:
            if self._in_doubt:
                self._in_doubt.pop(lane.head.id, None)
            self.acknowledged.append(lane)
            return
        failure = self._classified(error)
        if failure.kind is not FailureKind.PERMANENT:
            self._in_doubt[lane.head.id] = producer
        self.failed.append((lane, failure))

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
            if self._gathering is self._eager or not len(self._gathering):
                served: int = self._eager.poll(timeout)
            else:
                served = self._gathering.poll(min(timeout, GLANCE)) + self._eager.poll(0)
        except self._kafka_exception as error:  # of which it tells no callback
            raise TargetBroken("Kafka", error.args[0].str()) from error
        return served

    def close(self, timeout: float) -> int:
        """Wait for what is still on its way, then let go; returns how many never settled."""
        producers = {self._eager, self._gathering} - {None}
        self._eager = self._gathering = None
        deadline = time.monotonic() + timeout
        return sum(self._close(each, max(0.0, deadline - time.monotonic())) for each in producers)

    def _close(self, producer: Any, timeout: float) -> int:
        left = 0
        with suppress(TargetBroken, self._kafka_exception):  # it has said so already
            left = producer.flush(timeout)
        if left:
            producer.purge()
            with suppress(TargetBroken, self._kafka_exception):
                producer.flush(1.0)
        return left
