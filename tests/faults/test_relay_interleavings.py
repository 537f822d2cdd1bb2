"""Interleavings on a real PostgreSQL that break naive readers, and a plan that breaks naive SQL."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from tests.fixtures.relaying import OutboxDatabase, RelayKit, consume, wait_for
from windrow.outbox.errors import DatabaseFailed
from windrow.outbox.marked import Marked
from windrow.outbox.stores.postgres import PostgresStore
from windrow.relay.service import Relay
from windrow.testing.run_record import write_json

# -- order ----------------------------------------------------------------------------------------

CURSOR = """
SELECT v FROM by_cursor WHERE xid < pg_snapshot_xmin(pg_current_snapshot()) ORDER BY xid, id
"""
"""The naive reader: a cursor over (transaction id, id), held back by the oldest that still runs."""


@contextmanager
def in_background(work: Callable[[], object]) -> Iterator[None]:
    """Run something that waits for a lock; it has to end by the time the block does."""
    failures: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    yield
    thread.join(20.0)
    assert not thread.is_alive(), "it waits for ever"
    assert not failures, failures


def wait_until_blocked(outbox: OutboxDatabase, count: int = 1) -> None:
    query = (
        "SELECT FROM pg_stat_activity"
        " WHERE datname = current_database() AND cardinality(pg_blocking_pids(pid)) > 0"
    )
    with outbox.connect() as connection:
        wait_for(lambda: connection.execute(query).rowcount >= count, "somebody waits for a lock")


def write_version(connection: psycopg.Connection[Any], topic: str, version: int) -> None:
    connection.execute("INSERT INTO by_cursor (v) VALUES (%s)", (version,))
    connection.execute(
        "INSERT INTO outbox (kafka_topic, kafka_key, kafka_value) VALUES (%s, 'aggregate-1', %s)",
        (topic, str(version)),
    )


@pytest.mark.proves("relay-barrier")
@pytest.mark.parametrize("mode", ["barrier", "transactional"])
@pytest.mark.parametrize("is_running", [True, False], ids=["running", "started-later"])
def test_what_a_transaction_caused_never_overtakes_it_whatever_their_transaction_ids(
    is_running: bool,
    mode: str,
    outbox: OutboxDatabase,
    kafka: str,
    topic: str,
    relay_kit: RelayKit,
) -> None:
    """T1 has the older id and writes version 2, because it waited for T2, which wrote version 1.

    T3, in between, holds the horizon: it lets T1 past the gate and T2 not.
    """
    with outbox.connect() as connection:
        connection.execute("CREATE TABLE aggregate (id int PRIMARY KEY, v int NOT NULL)")
        connection.execute("INSERT INTO aggregate VALUES (1, 0), (2, 0), (3, 0)")
        connection.execute(
            "CREATE TABLE by_cursor (id bigserial, xid xid8 DEFAULT pg_current_xact_id(), v int)"
        )
    if is_running:
        relay_kit.start(mode=mode)
    with (
        psycopg.connect(outbox.dsn) as t1,
        psycopg.connect(outbox.dsn) as t2,
        psycopg.connect(outbox.dsn) as t3,
        outbox.connect() as reader,
    ):
        t1.execute("UPDATE aggregate SET v = v + 1 WHERE id = 2")  # takes its transaction id
        t3.execute("UPDATE aggregate SET v = v + 1 WHERE id = 3")  # the next one, and stays open
        t2.execute("UPDATE aggregate SET v = v + 1 WHERE id = 1")
        lock = "UPDATE aggregate SET v = v + 1 WHERE id = 1"
        with in_background(lambda: t1.execute(lock)):
            wait_until_blocked(outbox)
            write_version(t2, topic, 1)
            t2.commit()
        write_version(t1, topic, 2)
        t1.commit()
        # Wrong for one aggregate although both writers locked its row.
        assert reader.execute(CURSOR).fetchall() == [(2,)]
        if not is_running:
            relay_kit.start(mode=mode)
        wait_for(lambda: outbox.count() == 0, "both are delivered, whoever is still open")
        t3.commit()
        assert reader.execute(CURSOR).fetchall() == [(2,), (1,)]
    assert [seen.value for seen in consume(kafka, topic)] == ["1", "2"]


# -- marks that wait ------------------------------------------------------------------------------

UNFENCED = """
UPDATE outbox SET leader_id = %(leader)s
WHERE id IN (
  SELECT id FROM outbox WHERE leader_id IS NULL OR leader_id <> %(leader)s ORDER BY id LIMIT 10
) AND EXISTS (SELECT FROM outbox_epoch WHERE shard = 0 AND epoch = %(epoch)s)
RETURNING id
"""
"""The naive mark: it looks at the epoch and does not hold on to it."""


def leaders_of(outbox: OutboxDatabase) -> dict[str, UUID | None]:
    with outbox.connect() as connection:
        rows = connection.execute("SELECT kafka_value, leader_id FROM outbox").fetchall()
    return dict(rows)


@contextmanager
def row_locked(outbox: OutboxDatabase, value: str) -> Iterator[None]:
    with psycopg.connect(outbox.dsn) as holder:
        holder.execute("SELECT FROM outbox WHERE kafka_value = %s FOR UPDATE", (value,))
        yield
        holder.rollback()


def test_a_stale_mark_that_waits_for_a_lock_steals_nothing_from_the_next_leader(
    outbox: OutboxDatabase,
) -> None:
    """Whoever takes over waits for it, so that it lands before the new leader's marks."""
    outbox.write("topic", [("other", "0"), ("key", "1"), ("key", "2")])
    first, second = uuid4(), uuid4()
    with (
        PostgresStore(outbox.dsn, outbox.table) as stale,
        PostgresStore(outbox.dsn, outbox.table) as store,
    ):
        stale.raise_epoch("first")
        with ExitStack() as waiting, row_locked(outbox, "0"):
            waiting.enter_context(in_background(lambda: stale.read(first, 10)))
            wait_until_blocked(outbox)
            waiting.enter_context(in_background(lambda: store.raise_epoch("second")))
            wait_until_blocked(outbox, 2)
            # Both go on now, in the order in which they came.
        assert [row.value for row in store.read(second, 10)] == [b"0", b"1", b"2"]
        assert stale.read(first, 10) == []
    assert set(leaders_of(outbox).values()) == {second}


def test_a_naive_mark_that_waits_for_a_lock_steals_from_the_next_leader(
    outbox: OutboxDatabase,
) -> None:
    """Its look at the epoch is older than the wait: R1 would be sent, R2, and then R1 again."""
    outbox.write("topic", [("other", "0"), ("key", "1"), ("key", "2")])
    first, second = uuid4(), uuid4()
    with (
        PostgresStore(outbox.dsn, outbox.table) as store,
        outbox.connect() as stale,
    ):
        epoch = store.raise_epoch("first")
        parameters = {"leader": first, "epoch": epoch}
        with ExitStack() as waiting, row_locked(outbox, "0"):
            waiting.enter_context(in_background(lambda: stale.execute(UNFENCED, parameters)))
            wait_until_blocked(outbox)
            store.raise_epoch("second")
            marked = store.read(second, 10, excluded_keys=["other"])
            assert [row.value for row in marked] == [b"1", b"2"]
    assert set(leaders_of(outbox).values()) == {first}


BY_CTID = """
UPDATE outbox SET leader_id = %(leader)s
WHERE ctid = ANY (ARRAY (SELECT ctid FROM outbox ORDER BY id LIMIT 10))
RETURNING kafka_value
"""


@contextmanager
def row_changed(outbox: OutboxDatabase, value: str) -> Iterator[None]:
    """Somebody writes to a row, and commits when the block ends."""
    with psycopg.connect(outbox.dsn) as other:
        other.execute("UPDATE outbox SET attempts = 1 WHERE kafka_value = %s", (value,))
        yield
        other.commit()


def test_a_row_that_is_just_being_changed_is_waited_for_and_not_passed_over(
    outbox: OutboxDatabase,
) -> None:
    """A person's UPDATE, a zombie's note: behind the row are others of its key."""
    outbox.write("topic", [("key", "1"), ("key", "2")])
    read: list[Marked] = []
    naive: list[Any] = []
    with PostgresStore(outbox.dsn, outbox.table) as store, ExitStack() as waiting:
        store.raise_epoch("relay")
        with row_changed(outbox, "1"):
            waiting.enter_context(in_background(lambda: read.extend(store.read(uuid4(), 10))))
            wait_until_blocked(outbox)
    assert [row.value for row in read] == [b"1", b"2"]
    # The naive version: the row is no longer where it was, so it is left out.
    with outbox.connect() as connection, ExitStack() as waiting, row_changed(outbox, "1"):
        parameters = {"leader": uuid4()}
        waiting.enter_context(
            in_background(lambda: naive.extend(connection.execute(BY_CTID, parameters)))
        )
        wait_until_blocked(outbox)
    assert naive == [("2",)]


def test_a_row_that_goes_while_it_is_being_marked_is_not_taken(outbox: OutboxDatabase) -> None:
    """A zombie purges what it had sent: sending it again would be for nothing."""
    outbox.write("topic", [("key", "1"), ("key", "2"), ("other", "3")])
    read: list[Marked] = []
    with (
        PostgresStore(outbox.dsn, outbox.table) as store,
        psycopg.connect(outbox.dsn) as zombie,
        ExitStack() as waiting,
    ):
        store.raise_epoch("relay")
        zombie.execute("DELETE FROM outbox WHERE kafka_value = '1'")
        waiting.enter_context(in_background(lambda: read.extend(store.read(uuid4(), 10))))
        wait_until_blocked(outbox)
        zombie.commit()
    assert [row.value for row in read] == [b"2", b"3"]


def test_a_mark_that_arrives_after_it_was_given_up_takes_nothing(outbox: OutboxDatabase) -> None:
    """Held up on the link, it comes when the same leader has marked anew under another id."""
    outbox.write("topic", [("key", "1"), ("key", "2")])
    given_up, current = uuid4(), uuid4()
    with PostgresStore(outbox.dsn, outbox.table) as store, outbox.connect() as late:
        store.raise_epoch("relay")
        mark = store._queries["mark"].replace("{filters}", "")
        parameters = {"shard": 0, "epoch": store.epoch, "leader": given_up, "limit": 10}
        assert store.read(current, 0) == []
        store._reading.interrupt()
        with pytest.raises(DatabaseFailed):
            store.read(given_up, 10)
        assert [row.value for row in store.read(current, 10)] == [b"1", b"2"]
        assert late.execute(mark, parameters).fetchall() == []
        assert store.read(current, 10) == []
        # The naive version goes on under its old epoch, and reads everything a second time.
        parameters["epoch"] = store.epoch
        assert len(late.execute(mark, parameters).fetchall()) == 2
        assert [row.value for row in store.read(current, 10)] == [b"1", b"2"]


# -- the plan -------------------------------------------------------------------------------------


def make_nearly_empty(outbox: OutboxDatabase, topic: str, rows: int) -> None:
    """Fill the table, empty it, and have it analysed: many pages, and to the planner no row."""
    with outbox.connect() as connection:
        connection.execute("SET synchronous_commit = off")
        fill(connection, topic, rows)
        connection.execute("DELETE FROM outbox")
        connection.execute("VACUUM (ANALYZE, TRUNCATE off) outbox")


def fill(connection: psycopg.Connection[Any], topic: str, rows: int) -> None:
    connection.execute(
        "INSERT INTO outbox (kafka_topic, kafka_key, kafka_value)"
        " SELECT %s, 'key-' || n %% 1000, n::text FROM generate_series(1, %s) AS n",
        (topic, rows),
    )


NAIVE_MARK = """
UPDATE outbox SET leader_id = %(leader)s WHERE id IN (
  SELECT id FROM outbox WHERE leader_id IS NULL OR leader_id <> %(leader)s ORDER BY id LIMIT 500
) RETURNING id
"""


def test_a_naive_mark_turns_quadratic_on_a_table_that_was_analysed_while_empty(
    outbox: OutboxDatabase,
) -> None:
    make_nearly_empty(outbox, "topic", 10_000)
    with outbox.connect() as connection, PostgresStore(outbox.dsn, outbox.table) as store:
        connection.execute("ALTER TABLE outbox SET (autovacuum_enabled = off)")
        fill(connection, "topic", 10_000)
        store.raise_epoch("relay")
        ours = seconds(lambda: store.read(uuid4(), 500))
        naive = seconds(lambda: connection.execute(NAIVE_MARK, {"leader": uuid4()}))
    assert naive > 10 * ours


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def test_no_mark_stalls_though_the_table_was_analysed_empty_and_the_horizon_is_held(
    outbox: OutboxDatabase,
    kafka: str,
    topic: str,
    relay_kit: RelayKit,
    monkeypatch: pytest.MonkeyPatch,
    pytestconfig: pytest.Config,
) -> None:
    """Vacuum can remove nothing while a transaction is open: each mark walks what is dead."""
    rows = 300_000
    taken: list[float] = []
    read = PostgresStore.read

    def timed_read(*args: Any, **kwargs: Any) -> list[Marked]:
        marked: list[Marked] = []
        taken.append(seconds(lambda: marked.extend(read(*args, **kwargs))))
        return marked

    make_nearly_empty(outbox, topic, rows)
    monkeypatch.setattr(PostgresStore, "read", timed_read)
    with psycopg.connect(outbox.dsn) as holder, outbox.connect() as connection:
        holder.execute("SELECT pg_current_xact_id()")
        fill(connection, topic, rows)
        relay: Relay = relay_kit.start()
        wait_for(lambda: relay.delivered == rows, "all is delivered", timeout=120.0)
    worst, median = max(taken), sorted(taken)[len(taken) // 2]
    figure = {"rows": rows, "marks": len(taken), "median": median, "worst": worst}
    print(f"marks with the horizon held: {figure}")
    write_json(pytestconfig.rootpath / "build" / "marks.json", figure)
    # The figure to hold is a second; a plan that flips takes tens of them, on any machine.
    assert worst < 5.0
