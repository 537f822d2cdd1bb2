"""Who may write under a transactional id? The producer that asked last."""

from __future__ import annotations

import time
from typing import Any

from windrow.extras import require

FENCED = frozenset({"_FENCED", "INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED"})
"""What Kafka calls a producer after which another has asked."""
ASK_INTERVAL = 0.1
"""How often a producer that takes over asks whether it may."""


def shut_out_others(producer: Any, timeout: float) -> None:
    """Give this producer the sole right to its transactional id, and undo what others left open.

    While the brokers undo it they refuse, for some ten milliseconds as a rule, and the client
    waits half a second or twice that before it asks again. Called anew after a time-out it goes
    on with the same request, and asks at once.

    Raises:
        KafkaException: It will never be given, or was not within the time-out.
    """
    kafka_exception: type[Exception] = require("confluent_kafka").KafkaException
    deadline = time.monotonic() + timeout
    while True:
        try:
            producer.init_transactions(min(ASK_INTERVAL, timeout))
            return
        except kafka_exception as error:
            if not error.args[0].retriable() or time.monotonic() >= deadline:
                raise
