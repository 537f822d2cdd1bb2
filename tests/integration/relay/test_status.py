"""What ``windrow status`` sees of a relay at work."""

from __future__ import annotations

import dataclasses
import json
import secrets
from collections.abc import Iterator

import psycopg
import pytest

from tests.fixtures.relaying import OutboxDatabase, RelayKit, wait_for
from tests.integration.relay.desks import opened, write_poison
from windrow.embedded.kafka import create_topic
from windrow.outbox.errors import WrongSchema
from windrow.outbox.grants import grants
from windrow.outbox.table import Table
from windrow.relay.desk import Desk
from windrow.relay.heartbeats import find_heartbeat
from windrow.relay.holds import Subject, pause
from windrow.relay.status import Heartbeat, Thresholds, find_problems, read_status


@pytest.fixture
def desk(outbox: OutboxDatabase) -> Iterator[Desk]:
    with opened(outbox) as desk:
        yield desk


def test_an_outbox_that_nobody_ever_led_is_a_problem_once_rows_wait(
    outbox: OutboxDatabase, desk: Desk
) -> None:
    seen = read_status(desk)
    (leader,) = seen.leaders
    assert (leader.name, leader.leads, seen.backlog, seen.oldest_age) == (None, False, 0, None)
    assert find_problems(seen, Thresholds()) == []
    outbox.write("t", [("a", "1"), ("a", "2"), ("b", "1")])
    seen = read_status(desk)
    assert seen.backlog == 3
    assert 0.0 <= (seen.oldest_age or -1.0) < 60.0
    assert [(hot.key, hot.rows) for hot in seen.hottest] == [("a", 2), ("b", 1)]
    assert find_problems(seen, Thresholds()) == [
        "nobody leads, though rows wait; run: windrow relay"
    ]


def test_a_leader_is_seen_with_its_lease_and_missed_when_it_has_gone(
    outbox: OutboxDatabase, relay_kit: RelayKit, desk: Desk
) -> None:
    relay = relay_kit.start()
    wait_for(lambda: relay.is_leader, "it leads")
    (leader,) = read_status(desk).leaders
    assert (leader.name, leader.epoch, leader.leads) == ("relay-0", 1, True)
    assert leader.elected_by == "lease"
    assert 0.0 < (leader.lease_remaining or 0.0) <= 2.5
    relay_kit.stop()
    outbox.write("t", [("a", "1")])
    seen = read_status(desk)
    (leader,) = seen.leaders
    assert (leader.name, leader.leads, leader.lease_remaining) == ("relay-0", False, None)
    (problem,) = find_problems(seen, Thresholds())
    assert "the last was relay-0" in problem


def test_a_leader_without_a_lease_is_not_called_gone(
    outbox: OutboxDatabase, relay_kit: RelayKit, desk: Desk
) -> None:
    relay = relay_kit.start(election="single")
    wait_for(lambda: relay.is_leader, "it leads")
    outbox.write("no-such-topic", [("a", "1")])
    for elected_by in ("single", "lease"):  # the latter is what a wrong configuration says
        seen = read_status(desk, elected_by=elected_by)
        assert [(leader.name, leader.leads) for leader in seen.leaders] == [("relay-0", None)]
        assert find_problems(seen, Thresholds()) == []
    relay_kit.stop()
    (problem,) = find_problems(read_status(desk, elected_by="single"), Thresholds())
    assert problem == "nobody leads, though rows wait; run: windrow relay"


@pytest.mark.parametrize(
    ("heartbeat", "leads"),
    [
        (Heartbeat("relay-0", is_fresh=True), True),
        (Heartbeat("relay-0", is_fresh=False), False),
        (Heartbeat("relay-1", is_fresh=True), False),
        (None, None),
    ],
)
def test_a_leader_that_kafka_elected_is_known_by_its_heartbeat(
    heartbeat: Heartbeat | None, leads: bool | None, outbox: OutboxDatabase, desk: Desk
) -> None:
    with outbox.connect() as connection:
        connection.execute("UPDATE outbox_epoch SET epoch = 3, leader = 'relay-0'")
    (leader,) = read_status(desk, elected_by="neli", find_heartbeat=lambda shard: heartbeat).leaders
    assert (leader.leads, leader.elected_by) == (leads, "neli")


def test_what_is_blocked_is_seen_with_its_reason_and_its_rows(
    outbox: OutboxDatabase, topic: str, relay_kit: RelayKit, desk: Desk
) -> None:
    write_poison(outbox, topic, "bad", "x")
    outbox.write(topic, [("bad", "1"), ("bad", "2"), ("quiet", "1")])
    pause(desk, Subject("key", "quiet"), "for a while")
    relay_kit.start()
    wait_for(lambda: read_status(desk).blocked_by_reason == {"held": 1, "paused": 1}, "it is held")
    seen = read_status(desk)
    waits = {wait.name: (wait.reason, wait.rows, wait.note) for wait in seen.blocked}
    assert waits["bad"] == (
        "held",
        3,
        "malformed: unequal number of header keys (2) and values (0)",
    )
    assert waits["quiet"] == ("paused", 1, "for a while")
    assert (seen.in_flight, seen.dead_letters) == (0, 0)


def test_rows_that_a_leader_has_taken_are_in_flight(outbox: OutboxDatabase, desk: Desk) -> None:
    outbox.write("t", [("a", str(n)) for n in range(10)])
    with outbox.connect() as connection:
        connection.execute("UPDATE outbox SET leader_id = gen_random_uuid() WHERE id <= 4")
    assert read_status(desk).in_flight == 4


def test_counts_are_bounded_and_say_so(outbox: OutboxDatabase, desk: Desk) -> None:
    outbox.write("t", [("a", str(n)) for n in range(50)])
    seen = read_status(desk, count_limit=20)
    assert (seen.backlog, seen.backlog_is_bounded) == (20, True)
    assert not read_status(desk, count_limit=51).backlog_is_bounded


def test_no_value_is_in_a_status(
    outbox: OutboxDatabase, topic: str, relay_kit: RelayKit, desk: Desk
) -> None:
    write_poison(outbox, topic, "bad", "the-secret-of-a-customer")
    relay_kit.start()
    wait_for(lambda: bool(read_status(desk).blocked), "it is held")
    text = json.dumps(dataclasses.asdict(read_status(desk)), default=str)
    assert '"bad"' in text
    assert "the-secret-of-a-customer" not in text


def test_a_role_that_may_read_no_payload_sees_the_status(outbox: OutboxDatabase) -> None:
    """Monitoring need not be able to read the customers' data."""
    name = f"watcher_{secrets.token_hex(4)}"
    with outbox.connect() as connection:
        for statement in grants(Table()):
            connection.execute(statement)
        connection.execute(f"CREATE ROLE {name} LOGIN IN ROLE windrow_reader")
    outbox.write("t", [("a", "1")])
    parts = psycopg.conninfo.conninfo_to_dict(outbox.dsn)
    dsn = psycopg.conninfo.make_conninfo("", **{**parts, "user": name})
    try:
        with Desk(dsn, outbox.table) as desk:
            assert read_status(desk.open("status.sql")).backlog == 1
        with psycopg.connect(dsn) as watcher, pytest.raises(psycopg.errors.InsufficientPrivilege):
            watcher.execute("SELECT kafka_value FROM outbox")
    finally:
        with outbox.connect() as connection:
            connection.execute(f"DROP OWNED BY {name}; DROP ROLE {name}")


def test_without_an_outbox_the_next_command_is_named(outbox: OutboxDatabase) -> None:
    with Desk(outbox.dsn, Table("elsewhere")) as desk, pytest.raises(WrongSchema) as missing:
        desk.open()
    assert str(missing.value) == "table elsewhere does not exist; run: windrow init"
    with outbox.connect() as connection:
        connection.execute("CREATE TABLE bare (LIKE outbox)")
    with Desk(outbox.dsn, Table("bare")) as desk, pytest.raises(WrongSchema, match="migrate"):
        desk.open()


def test_the_last_heartbeat_is_found_on_the_leader_topic(kafka: str, topic: str) -> None:
    from confluent_kafka import Producer

    base = {"bootstrap.servers": kafka}
    assert find_heartbeat(base, topic, 15.0, timeout=5.0) is None
    producer = Producer(base)
    for name in ("node-1", "node-2"):
        producer.produce(topic, f"17%{name}".encode())
    producer.flush(10)
    assert find_heartbeat(base, topic, 15.0) == Heartbeat("node-2", is_fresh=True)
    producer.produce(topic, b"17%node-3", timestamp=1_000_000)
    producer.flush(10)
    assert find_heartbeat(base, topic, 15.0) == Heartbeat("node-3", is_fresh=False)


def test_no_leader_topic_and_no_broker_are_no_heartbeat(kafka: str) -> None:
    assert find_heartbeat({"bootstrap.servers": kafka}, "no-such-topic", 15.0, timeout=2.0) is None
    assert find_heartbeat({"bootstrap.servers": "127.0.0.1:1"}, "x", 15.0, timeout=0.5) is None
    create_topic(kafka, name := f"neli-{secrets.token_hex(4)}")
    assert find_heartbeat({"bootstrap.servers": kafka}, name, 15.0, timeout=2.0) is None
