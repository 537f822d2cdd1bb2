"""A relay as a program has it: made of a configuration, started, stopped, waited for."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.fixtures.relaying import OutboxDatabase, RelayKit, consume, wait_for
from windrow import Config, Relay
from windrow.errors import InvalidValue
from windrow.relay.errors import TargetBroken
from windrow.relay.events import LeaderAcquired, LeaderRevoked
from windrow.relay.service import RelayState
from windrow.relay.targets.kafka import KafkaTarget
from windrow.testing import MemoryTarget


def config_of(outbox: OutboxDatabase, **relay: Any) -> Config:
    return Config.model_validate({"database": {"dsn": outbox.dsn}, "relay": relay})


def test_a_relay_is_started_stopped_and_waited_for(outbox: OutboxDatabase) -> None:
    outbox.write("topic", [("a", "1"), ("b", "1"), ("a", "2")])
    memory = MemoryTarget()
    relay = Relay(config_of(outbox), memory=memory)
    assert relay.state is RelayState.CREATED
    relay.start()
    wait_for(lambda: outbox.count() == 0, "the outbox is empty")
    relay.stop(drain=5.0)
    assert relay.wait(20.0)
    assert [(record.key, record.value) for record in memory.records if record.key == "a"] == [
        ("a", b"1"),
        ("a", b"2"),
    ]
    assert relay.delivered == 3


def test_a_relay_is_a_context_manager_of_both_kinds(outbox: OutboxDatabase) -> None:
    memory = MemoryTarget()
    with Relay(config_of(outbox), memory=memory) as relay:
        outbox.write("topic", [("a", "1")])
        wait_for(lambda: relay.delivered == 1, "it is delivered")
    assert relay.state is RelayState.STOPPED

    async def relay_one() -> RelayState:
        async with Relay(config_of(outbox), memory=memory) as relay:
            outbox.write("topic", [("a", "2")])
            await asyncio.to_thread(wait_for, lambda: relay.delivered == 1, "it is delivered")
        return relay.state

    assert asyncio.run(relay_one()) is RelayState.STOPPED
    assert [record.value for record in memory.records] == [b"1", b"2"]


def test_a_relay_can_be_awaited_and_gives_what_ended_it(outbox: OutboxDatabase) -> None:
    async def run() -> None:
        relay = await asyncio.to_thread(Relay(config_of(outbox), memory=MemoryTarget()).start)
        asyncio.get_running_loop().call_later(0.2, relay.stop)
        assert await relay

    asyncio.run(run())


def test_shards_share_the_memory(outbox: OutboxDatabase) -> None:
    outbox.write("topic", [(f"key-{n % 20}", str(n)) for n in range(200)])
    memory = MemoryTarget()
    with Relay(config_of(outbox, shards=3), memory=memory) as relay:
        wait_for(lambda: outbox.count() == 0, "the outbox is empty")
        assert relay.shards == [0, 1, 2]
    for key in range(20):
        values = [int(r.value or 0) for r in memory.records if r.key == f"key-{key}"]
        assert values == list(range(key, 200, 20))


def test_memory_has_no_transactions(outbox: OutboxDatabase) -> None:
    with pytest.raises(InvalidValue, match="memory has no transactions"):
        Relay(config_of(outbox, mode="transactional"), memory=MemoryTarget())


# -- a client that breaks --------------------------------------------------------------------------


class Broken:
    """A producer that has met with a fatal error, as the client tells of it."""

    def __init__(self) -> None:
        from confluent_kafka import KafkaError, KafkaException

        cluster = KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED, "not allowed", fatal=True)
        self.first = KafkaException(cluster)
        self.later = KafkaException(KafkaError(KafkaError._FATAL, "a fatal error"))

    def poll(self, timeout: float) -> int:
        raise self.first

    def produce(self, *args: object, **kwargs: object) -> None:
        raise self.later

    def flush(self, timeout: float) -> int:
        raise self.first

    def purge(self) -> None:
        pass


def test_a_fatal_error_of_the_client_is_told_as_a_broken_target_wherever_it_shows(
    kafka: str, topic: str
) -> None:
    """Reports, hand-over, the end: never as an exception of somebody else's."""
    from tests.integration.relay.test_correctness_rules import row
    from windrow.relay.machine import Lane

    target = KafkaTarget({"bootstrap.servers": kafka})
    target.open()
    target.close(1.0)
    target._eager = target._gathering = Broken()
    with pytest.raises(TargetBroken, match="not allowed"):
        target.poll(0.0)
    with pytest.raises(TargetBroken, match="a fatal error"):
        target.send([Lane(row(1, topic))])
    assert target.close(1.0) == 0


def test_a_relay_whose_client_breaks_makes_a_new_one_and_goes_on(
    outbox: OutboxDatabase, kafka: str, topic: str, relay_kit: RelayKit
) -> None:
    relay = relay_kit.start()
    outbox.write(topic, [("a", "1")])
    wait_for(lambda: relay.delivered == 1, "it works")
    road: Any = relay._roads[0]
    sound, road.target._eager = road.target._eager, Broken()
    outbox.write(topic, [("a", "2"), ("b", "1")])
    wait_for(lambda: outbox.count() == 0, "a new client delivers the rest")
    assert sound is not road.target._eager
    assert sorted(seen.value or "" for seen in consume(kafka, topic)) == ["1", "1", "2"]
    kinds = [type(event) for event in relay_kit.events]
    assert kinds.count(LeaderAcquired) == 2
    assert LeaderRevoked not in kinds
