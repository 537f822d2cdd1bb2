"""How a NELI election is set up: names, shards, timing, and the properties of its clients."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from windrow.errors import InvalidValue
from windrow.relay.election.errors import ForcedProperty
from windrow.relay.election.neli_machine import NeliTiming

Assignor = Literal["cooperative-sticky", "range"]

CONSUMER_FORCED = (
    "enable.auto.commit",
    "group.id",
    "group.instance.id",  # a namesake would be given the partition at once, without a session
    "group.protocol",
    "partition.assignment.strategy",
    "session.timeout.ms",
)
PRODUCER_FORCED = ("delivery.timeout.ms", "linger.ms", "message.timeout.ms")

SHORTEST = 0.001
GROUP_HEARTBEAT = 0.25
"""A standby learns of a vacancy with its next heartbeat to the group: no later than that."""

_KAFKA_NAME = re.compile(r"[a-zA-Z0-9._-]+")
_NODE_NAME = re.compile(r"[^%]+")  # the heartbeat is <time>%<name>


@dataclass(frozen=True)
class NeliSettings:
    """One process's part in an election. All members of a group must agree, but for the name."""

    group: str
    name: str
    leader_topic: str = ""
    """By default goneli's: ``<group>.neli``."""
    shards: int = 1
    """How many partitions are locks; each member stands for all, because Kafka may give any."""
    assignor: Assignor = "cooperative-sticky"
    timing: NeliTiming = field(default_factory=NeliTiming)
    connect_timeout: float = 10.0

    def __post_init__(self) -> None:
        if not self.leader_topic:
            object.__setattr__(self, "leader_topic", f"{self.group}.neli")
        for key, pattern in (
            ("group", _KAFKA_NAME),
            ("leader_topic", _KAFKA_NAME),
            ("name", _NODE_NAME),
        ):
            if not pattern.fullmatch(getattr(self, key)):
                raise self._invalid(key, "must be in a valid format")
        if self.shards < 1:
            raise self._invalid("shards", "must be no less than 1")
        if self.timing.min_poll_interval < SHORTEST:
            raise self._invalid("timing", "min_poll_interval must be no less than 1ms")
        if self.timing.heartbeat_timeout < 2 * self.timing.min_poll_interval:
            raise self._invalid("timing", "heartbeat_timeout must outlast two heartbeats")

    def _invalid(self, key: str, reason: str) -> InvalidValue:
        return InvalidValue(key, repr(getattr(self, key)), "the election", reason)

    def consumer_properties(self, base: Mapping[str, Any]) -> dict[str, Any]:
        """What the consumer is made with.

        Raises:
            ForcedProperty: The base sets what only the election may.
        """
        session = self.timing.group_session
        group_heartbeat = min(GROUP_HEARTBEAT, session / 10)
        return {
            "heartbeat.interval.ms": max(1, round(group_heartbeat * 1000)),
            **_without(base, CONSUMER_FORCED),
            "group.id": self.group,
            "enable.auto.commit": False,
            "session.timeout.ms": round(session * 1000),
            "partition.assignment.strategy": self.assignor,
        }

    def producer_properties(self, base: Mapping[str, Any]) -> dict[str, Any]:
        """What the producer of heartbeats is made with.

        Raises:
            ForcedProperty: The base sets what only the election may.
        """
        return {
            **_without(base, PRODUCER_FORCED),
            "delivery.timeout.ms": max(1, round(self.timing.heartbeat_timeout * 1000)),
            "linger.ms": 0,
        }


def _without(base: Mapping[str, Any], forced: tuple[str, ...]) -> Mapping[str, Any]:
    for key in forced:
        if key in base:
            raise ForcedProperty(key)
    return base
