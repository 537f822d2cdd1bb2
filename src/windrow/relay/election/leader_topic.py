"""The topic whose partitions are the locks: see that it is there and will do, or make it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from windrow.errors import Unreachable
from windrow.extras import require
from windrow.relay.election.errors import LeaderTopicUnusable

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

# A heartbeat is of no use a moment later, and ten a second would otherwise pile up for a week.
CONFIG: Final = {"retention.ms": "3600000", "segment.ms": "3600000"}
_NO_ANSWER: Final = frozenset({"_TIMED_OUT", "_TRANSPORT", "_ALL_BROKERS_DOWN", "_RESOLVE"})


def ensure_leader_topic(
    base: Mapping[str, Any], topic: str, partitions: int, timeout: float
) -> None:
    """Return when the topic has that many partitions and each is served.

    Raises:
        Unreachable: No broker answered in time.
        LeaderTopicUnusable: It cannot be made, or is one that cannot serve as a lock.
    """
    kafka, admin_module = require("confluent_kafka"), require("confluent_kafka.admin")
    # Without its notices: that it is let go of after a moment is no news.
    admin: AdminClient = admin_module.AdminClient({"log_level": 4, **base})
    deadline = time.monotonic() + timeout
    try:
        found = _describe(admin, topic, timeout)
        if found is None:
            _create(admin, topic, partitions, timeout)
        while not _is_served(found):
            if time.monotonic() > deadline:
                raise LeaderTopicUnusable(
                    topic, "has a partition that no broker leads", "see whether the brokers are up"
                )
            time.sleep(0.02)
            found = _describe(admin, topic, timeout)
        if found is not None and len(found.partitions) < partitions and not found.is_internal:
            _add_partitions(admin, topic, partitions, timeout)
            found = _await_partitions(admin, topic, partitions, deadline)
        _check(found, topic, partitions)
    except kafka.KafkaException as error:
        raise _diagnosed(error, base, topic, partitions) from error


def _describe(admin: AdminClient, topic: str, timeout: float) -> Any | None:
    """What the cluster knows of the topic; None if it has none of that name.

    Asked this way it is not created by the question, as it may be by a client's look-up.
    """
    kafka = require("confluent_kafka")
    wanted = kafka.TopicCollection([topic])
    try:
        return admin.describe_topics(wanted, request_timeout=timeout)[topic].result()
    except kafka.KafkaException as error:
        if error.args[0].name() == "UNKNOWN_TOPIC_OR_PART":
            return None
        raise


def _create(admin: AdminClient, topic: str, partitions: int, timeout: float) -> None:
    kafka, admin_module = require("confluent_kafka"), require("confluent_kafka.admin")
    wanted = admin_module.NewTopic(topic, num_partitions=partitions, config=CONFIG)
    try:
        admin.create_topics([wanted], operation_timeout=timeout, request_timeout=timeout)[
            topic
        ].result()
    except kafka.KafkaException as error:
        if error.args[0].name() != "TOPIC_ALREADY_EXISTS":  # another member was quicker
            raise


def _add_partitions(admin: AdminClient, topic: str, partitions: int, timeout: float) -> None:
    kafka, admin_module = require("confluent_kafka"), require("confluent_kafka.admin")
    wanted = admin_module.NewPartitions(topic, partitions)
    try:
        admin.create_partitions([wanted], operation_timeout=timeout, request_timeout=timeout)[
            topic
        ].result()
    except kafka.KafkaException as error:
        if error.args[0].name() != "INVALID_PARTITIONS":  # another member was quicker
            raise


def _await_partitions(admin: AdminClient, topic: str, partitions: int, deadline: float) -> Any:
    while True:
        found = _describe(admin, topic, max(1.0, deadline - time.monotonic()))
        has_all = found is not None and len(found.partitions) >= partitions
        if (has_all and _is_served(found)) or time.monotonic() > deadline:
            return found
        time.sleep(0.02)


def _check(found: Any, topic: str, partitions: int) -> None:
    if found.is_internal:
        raise LeaderTopicUnusable(
            topic, "is Kafka's own and takes no heartbeats", "name another leader topic"
        )
    if len(found.partitions) < partitions:
        raise LeaderTopicUnusable(
            topic,
            f"has {len(found.partitions)} partitions for {partitions} shards",
            f"run: kafka-topics.sh --alter --topic {topic} --partitions {partitions}",
        )


def _is_served(found: Any | None) -> bool:
    return found is not None and all(
        partition.leader is not None and partition.leader.id >= 0 for partition in found.partitions
    )


def _diagnosed(
    error: Exception, base: Mapping[str, Any], topic: str, partitions: int
) -> Unreachable | LeaderTopicUnusable:
    kafka_error = error.args[0]
    if kafka_error.name() in _NO_ANSWER:
        address = str(base.get("bootstrap.servers", "no bootstrap.servers"))
        return Unreachable("Kafka", address, kafka_error.str())
    return LeaderTopicUnusable(
        topic,
        f"cannot be used or made ({kafka_error.str()})",
        f"run: kafka-topics.sh --create --topic {topic} --partitions {partitions}",
    )
