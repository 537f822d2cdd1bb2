"""A relay that sleeps is woken by whoever has something for it."""

from __future__ import annotations

import asyncio
import secrets
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from tests.fixtures.relaying import OutboxDatabase, wait_for
from windrow.config import Config
from windrow.outbox import Outbox, Record
from windrow.outbox.doorbell import channel_of
from windrow.outbox.errors import WrongSchema
from windrow.outbox.stores.session import Session
from windrow.outbox.table import Table
from windrow.relay.service import Relay

SLOW = 1.0
StartRelay = Callable[..., Relay]


@pytest.fixture
def start(outbox: OutboxDatabase, kafka: str) -> Iterator[StartRelay]:
    """Starts a relay that looks once a second when there is nothing to do."""
    relays: list[Relay] = []

    def start(**settings: Any) -> Relay:
        config = {
            "database": {"dsn": outbox.dsn},
            "kafka": {"bootstrap": kafka, "state_topic": f"state-{secrets.token_hex(6)}"},
            "relay": {"polling": {"slow": f"{SLOW:g}s"}, **settings},
        }
        relays.append(Relay(Config.model_validate(config)).start())
        wait_for(lambda: relays[-1].is_leader, "it leads")
        return relays[-1]

    yield start
    for relay in relays:
        relay.stop()
        assert relay.wait(30.0)


def is_asleep(outbox: OutboxDatabase) -> bool:
    with outbox.connect() as connection:
        query = "SELECT FROM outbox_doorbell WHERE asleep_until > now()"
        return connection.execute(query).rowcount > 0


def stash(outbox: OutboxDatabase, topic: str, count: int = 1) -> None:
    with psycopg.connect(outbox.dsn) as connection:
        for number in range(count):
            Outbox(doorbell=True).stash(connection, Record(topic, f"key-{number}", "value"))


def delay_after_idle(outbox: OutboxDatabase, topic: str, relay: Relay) -> float:
    """How long a record takes that comes when the relay has long had nothing to do."""
    before = relay.delivered
    stash(outbox, topic)
    began = time.monotonic()
    wait_for(lambda: relay.delivered > before, "it is delivered")
    return time.monotonic() - began


@pytest.mark.parametrize("mode", ["barrier", "transactional"])
def test_a_ring_brings_a_record_at_once_to_a_relay_that_sleeps(
    mode: str, outbox: OutboxDatabase, topic: str, start: StartRelay
) -> None:
    relay = start(mode=mode, doorbell=True)
    delays = []
    for _ in range(5):
        wait_for(lambda: is_asleep(outbox), "it sleeps")
        time.sleep(0.3)  # at any moment of its sleep
        delays.append(delay_after_idle(outbox, topic, relay))
    print(f"{mode}: {statistics.median(delays) * 1000:.0f} ms with a doorbell")
    assert statistics.median(delays) < SLOW / 4


def test_without_a_doorbell_a_record_waits_for_the_next_look(
    outbox: OutboxDatabase, topic: str, start: StartRelay
) -> None:
    """What the doorbell is for; and a writer may ring though nobody listens."""
    relay = start()
    delays = []
    for _ in range(4):
        time.sleep(1.5 * SLOW)  # until it looks no more often than that
        delays.append(delay_after_idle(outbox, topic, relay))
    assert max(delays) > SLOW / 4
    assert not is_asleep(outbox)


def test_a_missed_ring_costs_no_more_than_the_next_look(
    outbox: OutboxDatabase, topic: str, start: StartRelay
) -> None:
    relay = start(doorbell=True)
    wait_for(lambda: is_asleep(outbox), "it sleeps")
    began = time.monotonic()
    outbox.write(topic, [("key", "1")])  # by a writer that knows of no doorbell
    wait_for(lambda: relay.delivered == 1, "it is delivered")
    assert time.monotonic() - began < 3 * SLOW


def test_no_ring_is_heard_while_the_relay_is_busy(
    outbox: OutboxDatabase, topic: str, start: StartRelay
) -> None:
    relay = start(doorbell=True)
    wait_for(lambda: is_asleep(outbox), "it sleeps")
    stash(outbox, topic, 100)
    wait_for(lambda: relay.delivered == 100, "it is awake")
    with outbox.connect() as listener:
        listener.execute(f'LISTEN "{channel_of(outbox.table)}"')
        deadline = time.monotonic() + 1.0
        while time.monotonic() < deadline:
            stash(outbox, topic)
        heard = len(list(listener.notifies(timeout=0.1)))
        busy = relay.delivered - 100
        assert busy > 20
        assert heard <= 1  # the machine may have been asleep for a moment
        wait_for(lambda: is_asleep(outbox), "it sleeps again")
        stash(outbox, topic)
        assert len(list(listener.notifies(timeout=1.0, stop_after=1))) == 1


def test_a_relay_that_sleeps_asks_the_database_no_more_than_one_without_a_doorbell(
    outbox: OutboxDatabase, start: StartRelay, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    run = Session.run

    def counted(self: Session, query: str, parameters: dict[str, Any]) -> Any:
        asked.append(query)
        return run(self, query, parameters)

    monkeypatch.setattr(Session, "run", counted)
    start(doorbell=True)
    wait_for(lambda: is_asleep(outbox), "it sleeps")
    time.sleep(1.5 * SLOW)  # until it looks no more often than that
    began, before = time.monotonic(), len(asked)
    time.sleep(6.0)
    # Those who sweep after dead letters do so ever more rarely.
    looks = [query for query in asked[before:] if "buried" not in query]
    rate = len(looks) / (time.monotonic() - began)
    print(f"idle with a doorbell: {rate:.1f} statements a second")
    assert rate <= 2.4  # one look and one renewal of the lease, and where the count begins


def test_a_relay_that_died_in_its_sleep_is_rung_for_no_longer_once_another_works(
    outbox: OutboxDatabase, topic: str, start: StartRelay
) -> None:
    with outbox.connect() as connection:
        connection.execute("INSERT INTO outbox_doorbell VALUES (0, now() + interval '1 hour')")
    outbox.write(topic, [(f"key-{n}", "1") for n in range(5)])
    relay = start(doorbell=True)
    wait_for(lambda: relay.delivered == 5, "it works")
    wait_for(lambda: not is_asleep_for(outbox, 600.0), "nobody rings for the dead one")


def is_asleep_for(outbox: OutboxDatabase, seconds: float) -> bool:
    with outbox.connect() as connection:
        query = "SELECT FROM outbox_doorbell WHERE asleep_until > now() + %s * interval '1 s'"
        return connection.execute(query, (seconds,)).rowcount > 0


def test_every_way_to_stash_rings(outbox: OutboxDatabase) -> None:
    stasher, record = Outbox(doorbell=True), Record("topic", "key", "value")

    async def stash_async() -> None:
        async with await psycopg.AsyncConnection.connect(outbox.dsn) as connection:
            await stasher.stash_async(connection, record)
            await stasher.stash_many_async(connection, [record])

    with outbox.connect() as listener, psycopg.connect(outbox.dsn) as connection:
        listener.execute("INSERT INTO outbox_doorbell VALUES (0, now() + interval '1 hour')")
        listener.execute(f'LISTEN "{channel_of(outbox.table)}"')
        stasher.stash(connection, record)
        connection.commit()
        assert heard(listener) == 1
        stasher.stash_many(connection, [record, record])
        connection.commit()
        assert heard(listener) == 1
        with connection.transaction(), stasher.collect(connection) as events:
            events.stash(record)
        assert heard(listener) == 1
        asyncio.run(stash_async())
        assert heard(listener) == 1
        stasher.stash(connection, record)
        connection.rollback()
        assert heard(listener) == 0


def heard(listener: psycopg.Connection[Any]) -> int:
    return len(list(listener.notifies(timeout=0.3)))


def test_an_outbox_without_a_doorbell_says_what_to_run(outbox: OutboxDatabase) -> None:
    with outbox.connect() as connection:
        connection.execute("DROP TABLE outbox_doorbell")
    with (
        psycopg.connect(outbox.dsn) as connection,
        pytest.raises(WrongSchema, match=r"has no doorbell.*windrow migrate"),
    ):
        Outbox(doorbell=True).stash(connection, Record("topic", "key", "value"))


def test_a_listener_that_loses_its_connection_comes_back(
    outbox: OutboxDatabase, topic: str, start: StartRelay
) -> None:
    relay = start(doorbell=True)
    wait_for(lambda: is_asleep(outbox), "it sleeps")
    with outbox.connect() as connection:
        killed = connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND query LIKE 'LISTEN %%'"
        ).rowcount
        assert killed == 1
        listens = "SELECT FROM pg_stat_activity WHERE query LIKE 'LISTEN %%'"
        wait_for(lambda: connection.execute(listens).rowcount == 1, "it listens again")
    stash(outbox, topic)
    wait_for(lambda: relay.delivered == 1, "it is delivered")


def test_the_channel_is_told_by_the_tables_name() -> None:
    assert channel_of(Table("outbox")) == channel_of(Table("outbox", "shop"))
    assert channel_of(Table("outbox")) != channel_of(Table("other"))
