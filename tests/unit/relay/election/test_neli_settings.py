"""Names, timing and properties of an election."""

from __future__ import annotations

from typing import Any

import pytest

from windrow.errors import ConfigError, InvalidValue
from windrow.relay.election.errors import ForcedProperty
from windrow.relay.election.neli_machine import NeliTiming
from windrow.relay.election.neli_settings import NeliSettings

BASE = {"bootstrap.servers": "localhost:9092"}


def test_the_leader_topic_is_by_default_that_of_goneli() -> None:
    assert NeliSettings("orders", "me").leader_topic == "orders.neli"
    assert NeliSettings("orders", "me", "locks").leader_topic == "locks"


def test_the_properties_are_those_of_goneli_but_for_the_assignor() -> None:
    settings = NeliSettings("orders", "me")
    consumer = settings.consumer_properties(BASE)
    assert consumer["group.id"] == "orders"
    assert consumer["session.timeout.ms"] == 14_250  # a successor needs the rest of 15 s
    assert consumer["enable.auto.commit"] is False
    assert consumer["partition.assignment.strategy"] == "cooperative-sticky"
    producer = settings.producer_properties(BASE)
    assert producer["delivery.timeout.ms"] == 5_000
    assert producer["linger.ms"] == 0


def test_an_existing_goneli_group_is_joined_by_the_range_assignor() -> None:
    settings = NeliSettings("orders", "me", assignor="range")
    assert settings.consumer_properties(BASE)["partition.assignment.strategy"] == "range"


@pytest.mark.parametrize(
    "key",
    ["group.id", "enable.auto.commit", "session.timeout.ms", "partition.assignment.strategy"],
)
def test_what_the_consumer_must_have_cannot_be_overridden(key: str) -> None:
    with pytest.raises(ForcedProperty) as refused:
        NeliSettings("orders", "me").consumer_properties({**BASE, key: "x"})
    assert str(refused.value) == f"cannot override configuration '{key}'"
    assert isinstance(refused.value, ConfigError)
    assert refused.value.exit_code == 2


def test_a_static_membership_is_refused() -> None:
    """Kafka gives a namesake the partitions at once, while the first still believes in them."""
    with pytest.raises(ForcedProperty):
        NeliSettings("orders", "me").consumer_properties({**BASE, "group.instance.id": "me"})


@pytest.mark.parametrize("key", ["delivery.timeout.ms", "message.timeout.ms", "linger.ms"])
def test_what_the_producer_must_have_cannot_be_overridden(key: str) -> None:
    with pytest.raises(ForcedProperty, match=f"cannot override configuration '{key}'"):
        NeliSettings("orders", "me").producer_properties({**BASE, key: 5})


def test_any_other_property_is_handed_on_and_the_callers_mapping_left_as_it_was() -> None:
    base = {**BASE, "security.protocol": "SASL_SSL", "heartbeat.interval.ms": 77}
    given = dict(base)
    properties = NeliSettings("orders", "me").consumer_properties(base)
    assert properties["security.protocol"] == "SASL_SSL"
    assert properties["heartbeat.interval.ms"] == 77
    assert base == given


@pytest.mark.parametrize(
    ("wrong", "key"),
    [
        ({"group": ""}, "group"),
        ({"group": "a b"}, "group"),
        ({"leader_topic": "a/b"}, "leader_topic"),
        ({"name": "a%b"}, "name"),
        ({"name": ""}, "name"),
        ({"shards": 0}, "shards"),
        ({"timing": NeliTiming(min_poll_interval=0.0)}, "timing"),
        ({"timing": NeliTiming(min_poll_interval=1.0, heartbeat_timeout=1.5)}, "timing"),
    ],
)
def test_a_setting_that_cannot_work_is_refused_by_name(wrong: dict[str, Any], key: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        NeliSettings(**{"group": "orders", "name": "me", **wrong})
    assert refused.value.key == key
