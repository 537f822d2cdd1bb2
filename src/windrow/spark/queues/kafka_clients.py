"""Clients of Kafka, and what is asked of a cluster: topics, their ids, and what they hold."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from windrow.errors import Unreachable
from windrow.extras import require
from windrow.spark.places import Place
from windrow.spark.queues.errors import PartitionsDiffer, QueueMissing

ANSWER_TIMEOUT: Final = 10.0
QUIET: Final = {"log_level": 0}
"""What goes wrong is raised; librdkafka would print it, too."""
MISSING: Final = frozenset({"UNKNOWN_TOPIC_OR_PART", "UNKNOWN_TOPIC_ID", "_UNKNOWN_TOPIC"})

_admins: dict[tuple[int, str], Any] = {}


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as it is now; its id changes when it is deleted and made again."""

    id: str
    partitions: int


def admin_client(properties: Mapping[str, Any]) -> Any:
    """The admin client of a cluster, shared by all of this process."""
    key = os.getpid(), repr(sorted(properties.items()))
    if key not in _admins:
        module = require("confluent_kafka.admin")
        _admins[key] = module.AdminClient({**properties, **QUIET})
    return _admins[key]


def consumer(properties: Mapping[str, Any]) -> Any:
    """A consumer that belongs to no group in earnest, and sees only what was committed."""
    return require("confluent_kafka").Consumer(
        {
            # Waits for more would be waits of every small batch.
            "fetch.wait.max.ms": 10,
            "fetch.error.backoff.ms": 50,
            **properties,
            **QUIET,
            "group.id": "windrow-reader",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            # To go on elsewhere would be to lose what lies between.
            "auto.offset.reset": "error",
        }
    )


def reason_of(error: Any) -> str:
    """What an exception of Kafka's client says."""
    return str(error.args[0].str()) if hasattr(error.args[0], "str") else str(error)


def unreachable(properties: Mapping[str, Any], error: BaseException) -> Unreachable:
    """A failure of Kafka's client as ours."""
    reason = "no answer in time" if isinstance(error, TimeoutError) else reason_of(error)
    return Unreachable("Kafka", str(properties.get("bootstrap.servers")), reason)


def describe_topic(properties: Mapping[str, Any], place: Place) -> Topic:
    """The topic of a queue.

    Raises:
        QueueMissing: There is none.
        PartitionsDiffer: It has another number of partitions than was declared.
        Unreachable: No broker answered.
    """
    kafka = require("confluent_kafka")
    wanted = kafka.TopicCollection([place.address])
    try:
        asked = admin_client(properties).describe_topics(wanted, request_timeout=ANSWER_TIMEOUT)
        described = asked[place.address].result(ANSWER_TIMEOUT)
    except (kafka.KafkaException, TimeoutError) as error:
        if isinstance(error, kafka.KafkaException) and error.args[0].name() in MISSING:
            create = f"kafka-topics.sh --create --topic {place.address}"
            raise QueueMissing(place.queue, f"topic {place.address!r}", create) from error
        raise unreachable(properties, error) from error
    found = len(described.partitions)
    if place.partitions is not None and place.partitions != found:
        raise PartitionsDiffer(place.queue, place.partitions, found)
    return Topic(str(described.topic_id), found)


def list_offsets(
    properties: Mapping[str, Any], topic: str, partitions: int
) -> list[tuple[int, int]]:
    """Of each partition the first offset, and the one up to which all is decided.

    Raises:
        Unreachable: No broker answered.
    """
    kafka, module = require("confluent_kafka"), require("confluent_kafka.admin")
    numbers = [kafka.TopicPartition(topic, number) for number in range(partitions)]
    options = {
        "isolation_level": kafka.IsolationLevel.READ_COMMITTED,
        "request_timeout": ANSWER_TIMEOUT,
    }
    admin = admin_client(properties)
    try:
        asked = [
            admin.list_offsets(dict.fromkeys(numbers, spec), **options)
            for spec in (module.OffsetSpec.earliest(), module.OffsetSpec.latest())
        ]
        first, end = (
            [answers[number].result(ANSWER_TIMEOUT).offset for number in numbers]
            for answers in asked
        )
    except (kafka.KafkaException, TimeoutError) as error:
        raise unreachable(properties, error) from error
    return list(zip(first, end, strict=True))


def await_topics(admin: Any, places: Mapping[str, Place], timeout: float) -> None:
    """Return once every topic has its partitions and a leader for each answers.

    Raises:
        PartitionsDiffer: One has another number of partitions than was declared.
        Unreachable: One is not served in time.
    """
    deadline = time.monotonic() + timeout
    for place in places.values():
        properties = place.connections.kafka
        while True:
            try:
                topic = describe_topic(properties, place)
                list_offsets(properties, place.address, topic.partitions)
                break
            except (QueueMissing, Unreachable):
                # The metadata names a topic a moment before its leaders serve it.
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
