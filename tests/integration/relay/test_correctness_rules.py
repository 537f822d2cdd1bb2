"""Rules of the relay that only the real services can break; each beside what breaks without it.

``docs/explanation/relay-correctness.md`` lists all rules, with the tests that are not here.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from tests.faults.relay_bench import make_outbox
from tests.fixtures.relaying import OutboxDatabase, RelayKit, consume, wait_for
from tests.fixtures.services import start_service
from windrow.embedded import PostgresServer
from windrow.embedded.kafka import create_topic
from windrow.outbox import Outbox, Record
from windrow.outbox.marked import Marked
from windrow.outbox.stores.postgres import PostgresStore
from windrow.outbox.stores.postgres_batches import PostgresBatches
from windrow.outbox.stores.session import LAZY_COMMIT, PLAN
from windrow.relay.batch_machine import BatchName, Committed, CommitUnknown, ReadBack
from windrow.relay.failure import FailureKind
from windrow.relay.machine import Lane, Limits
from windrow.relay.targets.committed_topic import topic_problem
from windrow.relay.targets.kafka import OVERDUE, KafkaTarget
from windrow.relay.targets.kafka_transactions import KafkaTransactions

# -- R3, R14: what must outlive the server ---------------------------------------------------------


@pytest.fixture(scope="module")
def server(pytestconfig: pytest.Config) -> Iterator[PostgresServer]:
    """A server that loses for certain what is committed lazily, and does so by default."""

    def start() -> PostgresServer:
        settings = {"wal_writer_delay": "10s", "synchronous_commit": "off"}
        return PostgresServer.start(settings=settings)

    with start_service(pytestconfig, "PostgreSQL (embedded)", start) as server:
        yield server


@pytest.fixture
def fragile(server: PostgresServer) -> OutboxDatabase:
    outbox = make_outbox(server)
    with outbox.connect() as connection:
        connection.execute("SET synchronous_commit = on")
        connection.execute(
            "INSERT INTO outbox (kafka_topic, kafka_key, kafka_value)"
            " VALUES ('topic', 'key', '1'), ('topic', 'key', '2')"
        )
    return outbox


def crash(server: PostgresServer) -> None:
    server.kill()
    server.restart()


def test_the_name_of_a_batch_outlives_a_crash_that_follows_at_once(
    server: PostgresServer, fragile: OutboxDatabase
) -> None:
    """R3. Kafka may have committed the batch by then: unnamed, its rows would be sent again."""
    with PostgresBatches(fragile.dsn, fragile.table) as store:
        store.raise_epoch("relay")
        assert len(store.purge_and_mark(None, [], uuid4(), limit=10)) == 2
        crash(server)
    assert fragile.count("leader_id IS NOT NULL") == 2


def test_a_name_that_is_given_lazily_is_lost_in_a_crash(
    server: PostgresServer, fragile: OutboxDatabase
) -> None:
    """R3, the naive version."""
    with PostgresBatches(fragile.dsn, fragile.table) as store:
        store.raise_epoch("relay")
        store._reading = store._new_session(PLAN | LAZY_COMMIT)
        assert len(store.purge_and_mark(None, [], uuid4(), limit=10)) == 2
        crash(server)
    assert fragile.count("leader_id IS NOT NULL") == 0


def test_a_purge_is_durable_whatever_the_database_does_by_default(
    server: PostgresServer, fragile: OutboxDatabase
) -> None:
    """R14. The lane opens on it: a row that came back would be sent behind its successor."""
    with PostgresStore(fragile.dsn, fragile.table) as store:
        store.raise_epoch("relay")
        rows = store.read(uuid4(), 10)
        store.purge([rows[0].id])
        crash(server)
    assert fragile.count() == 1


def test_a_purge_with_the_settings_of_the_database_comes_back(
    server: PostgresServer, fragile: OutboxDatabase
) -> None:
    """R14, the naive version."""
    with fragile.connect() as connection:
        connection.execute("DELETE FROM outbox WHERE kafka_value = '1'")
        crash(server)
    assert fragile.count() == 2


# -- R4: reading back ------------------------------------------------------------------------------


def transactions(kafka: str, name: str, topic: str, **options: Any) -> KafkaTransactions:
    target = KafkaTransactions(
        {"bootstrap.servers": kafka}, transactional_id=name, state_topic=topic, **options
    )
    target.open()
    assert target.fence() is None
    return target


def test_reading_back_waits_for_a_stranger_and_never_stops_short_of_the_last_name(
    kafka: str,
) -> None:
    """R4. Its open transaction in the same partition hides what was committed after it began."""
    topic = f"state-{secrets.token_hex(6)}"
    ours, stranger = (
        transactions(kafka, f"a-{topic}", topic),
        transactions(kafka, f"b-{topic}", topic),
    )
    first, second = BatchName(uuid4(), 1), BatchName(uuid4(), 2)
    assert ours.publish(first, []) == Committed()
    stranger._producer.begin_transaction()
    stranger._producer.produce(topic, b"{}", b"stranger", 0)
    stranger._producer.flush(10.0)
    assert ours.publish(second, []) == Committed()
    successor = transactions(kafka, f"a-{topic}", topic, operation_timeout=3.0)
    assert naive_last_name(kafka, topic) == first
    assert isinstance(successor.read_back(), CommitUnknown)
    stranger._producer.abort_transaction(10.0)
    wait_for(lambda: successor.read_back() == ReadBack(second), "the last name is read back")
    # Even then the end that such a reader is told of lags behind for a moment.
    wait_for(lambda: naive_last_name(kafka, topic) == second, "the naive reader sees it too")


def test_brokers_that_give_no_answer_in_time_leave_the_outcome_unknown(kafka: str) -> None:
    """R9. The time-out of an administrative call is not one of Kafka's own errors."""
    topic = f"state-{secrets.token_hex(6)}"
    hasty = transactions(kafka, f"a-{topic}", topic)
    hasty._operation_timeout = 1e-6
    outcome = hasty.read_back()
    assert isinstance(outcome, CommitUnknown)
    assert outcome.failure.kind is FailureKind.TARGET_DOWN


def naive_last_name(kafka: str, topic: str) -> BatchName:
    """Read what is committed until the end is reported, as one reads any topic."""
    from windrow.relay.targets.kafka_transactions import _decode

    last = [seen.value for seen in consume(kafka, topic) if seen.value != "{}"][-1]
    return _decode((last or "").encode())


def test_the_names_of_two_outboxes_in_one_partition_are_told_apart(kafka: str) -> None:
    """R4. The last name in the partition may be somebody else's."""
    topic = f"state-{secrets.token_hex(6)}"
    ours, stranger = (
        transactions(kafka, f"a-{topic}", topic),
        transactions(kafka, f"b-{topic}", topic),
    )
    mine, theirs = BatchName(uuid4(), 1), BatchName(uuid4(), 2)
    assert ours.publish(mine, []) == Committed()
    assert stranger.publish(theirs, []) == Committed()
    assert naive_last_name(kafka, topic) == theirs
    assert ours.read_back() == ReadBack(mine)


def test_two_outboxes_of_one_name_have_identities_of_their_own(
    outbox: OutboxDatabase, server: PostgresServer
) -> None:
    """R4. Under one transactional id they would fence each other for ever."""
    others = [make_outbox(server), make_outbox(server)]
    identities = set()
    for each in (outbox, *others):
        with PostgresStore(each.dsn, each.table) as store:
            assert store.identity() == store.identity()
            identities.add(store.identity())
    assert len(identities) == 3


@pytest.mark.parametrize(
    ("policy", "replicas", "brokers", "problem"),
    [
        ("compact", [1] * 16, 1, None),
        ("compact", [3] * 16, 3, None),
        ("compact", [2] * 16, 5, None),
        ("compact,delete", [3] * 16, 3, "cleanup.policy"),
        ("delete", [3] * 16, 3, "cleanup.policy"),
        ("compact", [3, 1, 3], 3, "one replica"),
        ("compact", [3, 3], 3, "2 partitions"),
    ],
)
def test_a_state_topic_that_could_forget_is_refused(
    policy: str, replicas: list[int], brokers: int, problem: str | None
) -> None:
    """R4. What it forgets is delivered twice, or never."""
    found = topic_problem(policy, replicas, 2, brokers)
    assert found is None if problem is None else problem in (found or "")


# -- R7: another number of shards ------------------------------------------------------------------


def test_a_leader_of_the_old_shards_marks_nothing_once_a_new_generation_has_fenced_it(
    outbox: OutboxDatabase,
) -> None:
    """R7. The key may belong to another shard by now; its number lives with the epochs."""
    outbox.write("topic", [("key", "1")])
    with PostgresStore(outbox.dsn, outbox.table) as store, outbox.connect() as connection:
        store.raise_epoch("relay")
        # The naive version moves the keys and leaves the old leaders alone.
        connection.execute("UPDATE outbox_epoch SET generation = generation + 1, shards = 2")
        assert len(store.read(uuid4(), 10)) == 1
        connection.execute("UPDATE outbox_epoch SET generation = generation + 1, epoch = epoch + 1")
        assert store.read(uuid4(), 10) == []


# -- R10: a pause between the look and the deed ----------------------------------------------------


def test_a_record_is_not_handed_over_when_the_time_is_up(kafka: str, topic: str) -> None:
    """R10. A producer counts its time-out from when it is given a record, however late that is."""
    target = KafkaTarget({"bootstrap.servers": kafka})
    target.open()
    overruns: list[int] = []
    target.on_overrun = lambda: overruns.append(1)
    before, after = Lane(row(1, topic)), Lane(row(2, topic))
    target.sends_until = lambda: time.monotonic() - 0.001
    target.send([before])
    assert list(target.failed) == [(before, OVERDUE)]
    # The naive version looks at the time before all of them, and falls asleep.
    target.sends_until = lambda: time.monotonic() + 60.0
    target.send([after])
    assert target.close(10.0) == 0
    assert [seen.value for seen in consume(kafka, topic)] == ["2"]
    assert overruns == []


def row(number: int, topic: str) -> Marked:
    return Marked(number, topic, "key", str(number).encode(), None, None)


# -- R11: an id drawn too early --------------------------------------------------------------------


def test_an_id_drawn_before_the_lock_is_out_of_order_and_a_collector_draws_it_after(
    outbox: OutboxDatabase,
) -> None:
    """R11. A leader died with the later record sent; its successor finds another before it."""
    with outbox.connect() as connection:
        connection.execute("CREATE TABLE account (id int PRIMARY KEY, balance int NOT NULL)")
        connection.execute("INSERT INTO account VALUES (1, 0)")
    assert seen_across_a_crash(outbox, collects=False) == ["second", "first", "second"]
    assert seen_across_a_crash(outbox, collects=True) == ["second", "second", "first"]


def seen_across_a_crash(outbox: OutboxDatabase, *, collects: bool) -> list[str]:
    """What two leaders read, the first of which dies before it can purge."""
    stasher = Outbox()
    lock = "UPDATE account SET balance = balance + 1 WHERE id = 1"
    seen: list[str] = []
    with (
        psycopg.connect(outbox.dsn) as early,
        psycopg.connect(outbox.dsn) as late,
        PostgresStore(outbox.dsn, outbox.table) as store,
    ):
        # Stashes before it has the lock, and so loses the race for it.
        if collects:
            with stasher.collect(early) as collector:
                collector.stash(Record("topic", "account-1", "first"))
                commit_second(late, stasher, lock)
                seen += read_as_new_leader(store)
                early.execute(lock)
        else:
            stasher.stash(early, Record("topic", "account-1", "first"))
            commit_second(late, stasher, lock)
            seen += read_as_new_leader(store)
            early.execute(lock)
        early.commit()
        seen += read_as_new_leader(store)
        store.purge([number for (number,) in late.execute("SELECT id FROM outbox").fetchall()])
    return seen


def commit_second(late: psycopg.Connection[Any], stasher: Outbox, lock: str) -> None:
    late.execute(lock)
    stasher.stash(late, Record("topic", "account-1", "second"))
    late.commit()


def read_as_new_leader(store: PostgresStore) -> list[str]:
    store.raise_epoch("relay")
    return [(marked.value or b"").decode() for marked in store.read(uuid4(), 10)]


# -- R12: a lane that stands still -----------------------------------------------------------------


@pytest.fixture
def crowd(kafka: str, topic: str, outbox: OutboxDatabase) -> Iterator[OutboxDatabase]:
    """A thousand rows of one key that is refused again and again, then some of other keys."""
    from confluent_kafka.admin import AdminClient

    refusing = f"refusing-{secrets.token_hex(6)}"
    create_topic(kafka, refusing, config={"message.timestamp.before.max.ms": "1000"})
    with outbox.connect() as connection:
        connection.execute(
            "INSERT INTO outbox (kafka_topic, kafka_key, kafka_value, kafka_timestamp)"
            " SELECT %s, 'hot', n::text, '2001-01-01' FROM generate_series(1, 1000) AS n",
            (refusing,),
        )
    outbox.write(topic, [(f"key-{number}", str(number)) for number in range(200)])
    yield outbox
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.delete_topics([refusing])[refusing].result(10.0)


def test_a_hot_key_that_stands_still_leaves_room_for_the_others(
    crowd: OutboxDatabase, relay_kit: RelayKit
) -> None:
    """R12. Only the head of its lane and a few behind it are held in memory."""
    relay_kit.start(limits=Limits(batch=100, records=400, lane=50))
    wait_for(lambda: crowd.count("kafka_key <> 'hot'") == 0, "all others are delivered")
    assert crowd.count() == 1_000


def test_a_hot_key_without_a_limit_of_its_own_fills_the_memory(
    crowd: OutboxDatabase, relay_kit: RelayKit
) -> None:
    """R12, the naive version: nobody else gets a turn."""
    relay = relay_kit.start(limits=Limits(batch=100, records=400, lane=10_000))
    wait_for(lambda: relay.in_flight == 400, "nothing more fits")
    refusals = len(relay_kit.events)
    wait_for(lambda: len(relay_kit.events) > refusals, "it is refused once more")
    assert crowd.count("kafka_key <> 'hot'") == 200


# -- R13: a row that somebody has locked -----------------------------------------------------------


def test_a_committed_row_that_is_locked_is_waited_for_and_not_skipped(
    outbox: OutboxDatabase,
) -> None:
    """R13. Behind it are others of its key. Skipping is for targets without an order to keep."""
    outbox.write("topic", [("key", "1"), ("key", "2")])
    read: list[Marked] = []
    skip = "SELECT kafka_value FROM outbox ORDER BY id LIMIT 10 FOR UPDATE SKIP LOCKED"
    with (
        psycopg.connect(outbox.dsn) as holder,
        outbox.connect() as naive,
        PostgresStore(outbox.dsn, outbox.table) as store,
    ):
        store.raise_epoch("relay")
        holder.execute("SELECT FROM outbox WHERE kafka_value = '1' FOR UPDATE")
        assert naive.execute(skip).fetchall() == [("2",)]
        thread = threading.Thread(target=lambda: read.extend(store.read(uuid4(), 10)))
        thread.start()
        thread.join(0.3)
        assert thread.is_alive()
        holder.rollback()
        thread.join(10.0)
    assert [marked.value for marked in read] == [b"1", b"2"]
