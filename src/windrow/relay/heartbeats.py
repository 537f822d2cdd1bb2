"""The last heartbeat on a leader topic: who says it leads, and how long ago."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from typing import Any

from windrow.extras import require
from windrow.relay.status import Heartbeat
from windrow.relay.targets.kafka import CLIENT_LOG

LAST = 5
"""How far from the end to begin: the very last offset may be no message."""


def find_heartbeat(
    base: Mapping[str, Any],
    topic: str,
    session_timeout: float,
    timeout: float = 5.0,
    shard: int = 0,
) -> Heartbeat | None:
    """The last heartbeat for a shard; None if there is none, or Kafka gives no answer.

    Args:
        base: Properties of the client, ``bootstrap.servers`` among them.
        topic: The leader topic.
        session_timeout: How old one may be while its sender still has the partition.
        timeout: How long to look.
        shard: Which partition.
    """
    kafka = require("confluent_kafka")
    config = {"group.id": f"windrow-status-{secrets.token_hex(4)}", "enable.auto.commit": False}
    forced = {"enable.partition.eof": True, "fetch.wait.max.ms": 10, "log_level": 0}
    consumer = kafka.Consumer({**base, **config, **forced}, logger=CLIENT_LOG)
    try:
        lock = kafka.TopicPartition(topic, shard)
        return _last(consumer, lock, session_timeout, time.monotonic() + timeout)
    except kafka.KafkaException:
        return None
    finally:
        consumer.close()


def _last(consumer: Any, lock: Any, session_timeout: float, deadline: float) -> Heartbeat | None:
    first, end = consumer.get_watermark_offsets(lock, timeout=deadline - time.monotonic())
    lock.offset = max(first, end - LAST)
    consumer.assign([lock])
    found: Heartbeat | None = None
    while time.monotonic() < deadline:
        message = consumer.poll(0.1)
        if message is None:
            continue
        if message.error() is None:
            age = time.time() - message.timestamp()[1] / 1000
            name = (message.value() or b"").partition(b"%")[2].decode(errors="replace")
            found = Heartbeat(name, age < session_timeout)
        else:  # the end of the partition, or no such topic
            return found
    return found
