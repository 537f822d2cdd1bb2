"""A relay by goharvest's own file, on goharvest's own table, elected as goharvest's are."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.fixtures.relaying import OutboxDatabase, consume, wait_for
from tests.integration.relay.desks import opened
from tests.integration.relay.test_barrier import by_key, expected, spread
from windrow.config import Config, file_layer, resolve
from windrow.embedded.kafka import create_topic
from windrow.outbox.errors import WrongSchema
from windrow.outbox.schema import migrate
from windrow.relay.assembly import kafka_properties
from windrow.relay.election.errors import LeaderTopicUnusable
from windrow.relay.events import LeaderAcquired, LeaderRevoked, MeterRead
from windrow.relay.heartbeats import find_heartbeat
from windrow.relay.reaper_config import translate
from windrow.relay.reaper_file import parse_reaper, validate
from windrow.relay.service import Relay, RelayState
from windrow.relay.status import read_status
from windrow.telemetry.events import Event, EventBus

GOHARVEST_TABLE = """
CREATE SCHEMA goharvest_test;
CREATE TABLE goharvest_test.outbox (
  id                  BIGSERIAL PRIMARY KEY,
  create_time         TIMESTAMP WITH TIME ZONE NOT NULL,
  kafka_topic         VARCHAR(249) NOT NULL,
  kafka_key           VARCHAR(100) NOT NULL,
  kafka_value         VARCHAR(10000),
  kafka_header_keys   TEXT[] NOT NULL,
  kafka_header_values TEXT[] NOT NULL,
  leader_id           UUID
)
"""


def reaper_yaml(dsn: str, kafka: str, group: str, more: str = "", limits: str = "") -> str:
    return (
        "harvest:\n"
        "  baseKafkaConfig:\n"
        f"    bootstrap.servers: {kafka}\n"
        "  producerKafkaConfig:\n"
        "    delivery.timeout.ms: 1000\n"
        f"  leaderGroupID: {group}\n"
        f"  dataSource: {dsn}\n"
        "  outboxTable: goharvest_test.Outbox\n"
        f"{more}"
        "  limits:\n"
        "    heartbeatTimeout: 700ms\n"
        "    minPollInterval: 50ms\n"
        "    minMetricsInterval: 100ms\n"
        f"{limits}"
    )


def config_of(text: str) -> Config:
    file = parse_reaper(text, "reaper.yaml")
    validate(file)
    return resolve(Config, [file_layer("reaper.yaml", translate(file).content)]).config


@dataclass
class Reapers:
    """Relays of one group, by one file."""

    outbox: OutboxDatabase
    kafka: str
    group: str = field(default_factory=lambda: f"group-{secrets.token_hex(6)}")
    relays: list[Relay] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

    def config(self, more: str = "", limits: str = "") -> Config:
        return config_of(reaper_yaml(self.outbox.dsn, self.kafka, self.group, more, limits))

    def build(self, more: str = "", limits: str = "") -> Relay:
        bus = EventBus()
        bus.subscribe(self.events.append)
        return Relay(self.config(f"  name: node-{len(self.relays)}\n{more}", limits), bus)

    def start(self, more: str = "") -> Relay:
        relay = self.build(more)
        self.relays.append(relay)
        return relay.start()

    def stop(self) -> None:
        for relay in self.relays:
            relay.stop()
            assert relay.wait(30.0)


@pytest.fixture
def goharvest(database: str) -> OutboxDatabase:
    """An outbox as goharvest made it, with nothing beside it but the companions."""
    import psycopg

    from windrow.outbox.table import Table

    table = Table("outbox", "goharvest_test")
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(GOHARVEST_TABLE)
        migrate(connection, table, companions_only=True)
    return OutboxDatabase(database, table)


@pytest.fixture
def reapers(goharvest: OutboxDatabase, kafka: str) -> Iterator[Reapers]:
    reapers = Reapers(goharvest, kafka)
    yield reapers
    reapers.stop()


def test_goharvests_file_and_table_relay_unchanged(
    goharvest: OutboxDatabase, kafka: str, topic: str, reapers: Reapers
) -> None:
    goharvest.write(topic, spread(3_000, keys=30))
    relay = reapers.start()
    wait_for(lambda: goharvest.count() == 0, "the outbox is empty")
    assert by_key(consume(kafka, topic)) == expected(3_000, keys=30)
    wait_for(lambda: any(isinstance(e, MeterRead) for e in reapers.events), "the meter is read")
    readings = [event for event in reapers.events if isinstance(event, MeterRead)]
    assert readings[-1].total <= relay.delivered
    assert readings[-1].total_rate > 0


def test_every_key_stays_on_the_partition_that_goharvest_puts_it_on(
    goharvest: OutboxDatabase, kafka: str, reapers: Reapers
) -> None:
    """Elsewhere, records of one key would be read out of order across the change."""
    from confluent_kafka import Producer

    theirs, ours = f"theirs-{secrets.token_hex(4)}", f"ours-{secrets.token_hex(4)}"
    for name in (theirs, ours):
        create_topic(kafka, name, partitions=10)
    producer = Producer({"bootstrap.servers": kafka})  # as goharvest makes its own
    for number in range(50):
        producer.produce(theirs, b"x", f"key-{number}")
    producer.flush(10)
    goharvest.write(ours, [(f"key-{number}", "x") for number in range(50)])
    reapers.start()
    wait_for(lambda: goharvest.count() == 0, "the outbox is empty")
    placed = [
        {seen.key: seen.partition for seen in consume(kafka, name)} for name in (theirs, ours)
    ]
    assert placed[0] == placed[1]
    assert len(set(placed[1].values())) > 5


def test_relays_of_one_group_take_over_from_each_other(
    goharvest: OutboxDatabase, kafka: str, topic: str, reapers: Reapers
) -> None:
    first, second = reapers.start(), reapers.start()
    relays = [first, second]
    wait_for(lambda: any(relay.is_leader for relay in relays), "one leads")
    goharvest.write(topic, spread(500, keys=5))
    wait_for(lambda: goharvest.count() == 0, "the outbox is empty")
    leader = next(relay for relay in relays if relay.is_leader)
    leader.stop()
    assert leader.wait(20.0)
    other = next(relay for relay in relays if relay is not leader)
    wait_for(lambda: other.is_leader, "the other leads", timeout=5.0)
    goharvest.write(topic, [("key-0", "last")])
    wait_for(lambda: goharvest.count() == 0, "the outbox is empty")
    values = by_key(consume(kafka, topic))
    assert values["key-0"] == [*expected(500, keys=5)["key-0"], "last"]
    kinds = {type(event) for event in reapers.events}
    assert {LeaderAcquired, LeaderRevoked} <= kinds


def test_the_leader_is_seen_by_its_heartbeat(
    goharvest: OutboxDatabase, kafka: str, reapers: Reapers
) -> None:
    relay, config = reapers.start(), reapers.config()
    wait_for(lambda: relay.is_leader, "it leads")

    def look(shard: int) -> Any:
        base = kafka_properties(config)
        return find_heartbeat(base, f"{reapers.group}.neli", session_timeout=2.1, shard=shard)

    with opened(goharvest) as desk:
        (leader,) = read_status(desk, elected_by="neli", find_heartbeat=look).leaders
        assert (leader.name, leader.leads) == ("node-0", True)
        reapers.stop()

        def leads() -> bool | None:
            return read_status(desk, elected_by="neli", find_heartbeat=look).leaders[0].leads

        wait_for(lambda: leads() is False, "it is missed")


def test_a_leader_topic_that_cannot_elect_fails_the_start_and_lets_go_of_the_database(
    goharvest: OutboxDatabase, kafka: str, reapers: Reapers
) -> None:
    """A sample of goharvest's names Kafka's own topic, where no heartbeat can ever be written."""
    first = reapers.start()
    wait_for(lambda: first.is_leader, "one leads, so that Kafka has its own topic")
    relay = reapers.build("  leaderTopic: __consumer_offsets\n")
    before = connections(goharvest)
    with pytest.raises(LeaderTopicUnusable, match="Kafka's own"):
        relay.start()
    assert relay.state is RelayState.CREATED
    wait_for(lambda: connections(goharvest) <= before, "its connections are closed")


def connections(outbox: OutboxDatabase) -> int:
    with outbox.connect() as connection:
        query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        row = connection.execute(query).fetchone()
        return int(row[0]) if row else 0


def test_a_table_without_companions_is_refused_with_the_command_to_run(
    goharvest: OutboxDatabase, reapers: Reapers
) -> None:
    with goharvest.connect() as connection:
        connection.execute("DROP TABLE goharvest_test.outbox_epoch")
    relay = reapers.build()
    with pytest.raises(WrongSchema, match="windrow migrate"):
        relay.start()
    assert relay.state is RelayState.CREATED
