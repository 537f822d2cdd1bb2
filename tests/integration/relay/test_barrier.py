"""Barrier mode against real PostgreSQL and Kafka."""

from __future__ import annotations

import asyncio
from collections import defaultdict

from tests.fixtures.relaying import OutboxDatabase, RelayKit, Seen, consume, wait_for
from windrow.config import Config
from windrow.relay.events import LaneHeld, LeaderAcquired, LeaderRevoked
from windrow.relay.service import Relay


def by_key(messages: list[Seen]) -> dict[str, list[str | None]]:
    values: dict[str, list[str | None]] = defaultdict(list)
    for message in messages:
        values[message.key].append(message.value)
    return dict(values)


def spread(count: int, keys: int) -> list[tuple[str, str]]:
    return [(f"key-{n % keys}", str(n)) for n in range(count)]


def expected(count: int, keys: int) -> dict[str, list[str | None]]:
    return {f"key-{k}": [str(n) for n in range(k, count, keys)] for k in range(keys)}


def test_every_record_arrives_once_in_the_order_of_its_key(
    outbox: OutboxDatabase, kafka: str, topic: str, relay_kit: RelayKit
) -> None:
    outbox.write(topic, spread(5_000, keys=50))
    relay_kit.start()
    wait_for(lambda: outbox.count() == 0, "the outbox is empty")
    assert by_key(consume(kafka, topic)) == expected(5_000, keys=50)


def test_a_clean_stop_under_load_doubles_nothing_and_leaves_the_rest_in_the_outbox(
    outbox: OutboxDatabase, kafka: str, topic: str, relay_kit: RelayKit
) -> None:
    outbox.write(topic, spread(30_000, keys=100))
    first = relay_kit.start()
    wait_for(lambda: first.in_flight > 0, "work is under way")
    first.stop()
    assert first.wait(20.0)
    sent = len(consume(kafka, topic))
    assert 0 < sent == 30_000 - outbox.count()
    relay_kit.start()
    wait_for(lambda: outbox.count() == 0, "the outbox is empty")
    assert by_key(consume(kafka, topic)) == expected(30_000, keys=100)
    kinds = [type(event) for event in relay_kit.events]
    assert kinds.count(LeaderAcquired) == 2
    assert kinds.count(LeaderRevoked) == 1


def test_a_standby_changes_nothing_and_takes_over_when_the_leader_stops(
    outbox: OutboxDatabase, kafka: str, topic: str, relay_kit: RelayKit
) -> None:
    leader = relay_kit.start()
    wait_for(lambda: leader.is_leader, "the first leads")
    standby = relay_kit.start()
    outbox.write(topic, spread(1_000, keys=10))
    wait_for(lambda: outbox.count() == 0, "the outbox is empty")
    assert leader.is_leader
    assert not standby.is_leader
    leader.stop()
    wait_for(lambda: standby.is_leader, "the standby leads", timeout=10.0)
    outbox.write(topic, [("key-0", "last")])
    wait_for(lambda: outbox.count() == 0, "the outbox is empty")
    values = by_key(consume(kafka, topic))
    assert values.pop("key-0") == [str(n) for n in range(0, 1_000, 10)] + ["last"]


def test_one_bad_record_holds_its_own_key_and_no_other(
    outbox: OutboxDatabase, kafka: str, topic: str, relay_kit: RelayKit
) -> None:
    """Unequal header arrays made goharvest fail the whole batch, for ever."""
    with outbox.connect() as connection:
        connection.execute(
            f"INSERT INTO {outbox.table.sql} (kafka_topic, kafka_key, kafka_value,"
            " kafka_header_keys) VALUES (%s, 'bad', 'poison', '{a,b}')",
            (topic,),
        )
    outbox.write(topic, [("bad", "behind"), *spread(100, keys=5)])
    relay_kit.start()
    wait_for(lambda: outbox.count() == 2, "all but the held key is sent")
    assert by_key(consume(kafka, topic)) == expected(100, keys=5)
    assert [event.failure.text for event in relay_kit.events if isinstance(event, LaneHeld)] == [
        "unequal number of header keys (2) and values (0)"
    ]
    with outbox.connect() as connection:  # what `windrow deadletter skip` will do
        connection.execute("DELETE FROM outbox WHERE kafka_value = 'poison'")
        connection.execute("DELETE FROM outbox_hold")
    wait_for(lambda: outbox.count() == 0, "the lane goes on")
    assert by_key(consume(kafka, topic))["bad"] == ["behind"]


def test_a_relay_lives_in_an_event_loop_without_holding_it_up(
    outbox: OutboxDatabase, kafka: str, topic: str
) -> None:
    outbox.write(topic, spread(200, keys=5))
    config = Config.model_validate({"database": {"dsn": outbox.dsn}, "kafka": {"bootstrap": kafka}})

    async def run() -> int:
        turns = 0
        async with Relay(config):
            while outbox.count():
                turns += 1
                await asyncio.sleep(0.01)
        return turns

    assert asyncio.run(run()) > 0
    assert by_key(consume(kafka, topic)) == expected(200, keys=5)
