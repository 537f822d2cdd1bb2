"""The schema changes under a running system, and neither its writers nor its relay notice."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from tests.fixtures.relaying import wait_for
from windrow.outbox.errors import Blocked, WrongSchema
from windrow.outbox.schema import applied, migrate, migrations, pending, prologue, require_outbox
from windrow.outbox.schema import script as script_of
from windrow.outbox.stores.postgres import PostgresStore
from windrow.outbox.table import Table

STOCK = """
CREATE TABLE outbox (
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
GOHARVEST_INSERT = """
INSERT INTO outbox (create_time, kafka_topic, kafka_key, kafka_value, kafka_header_keys,
                    kafka_header_values)
VALUES (NOW(), 'orders', %s, %s, ARRAY['Seq'], ARRAY[%s])
"""


@pytest.fixture
def connection(database: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(database, autocommit=True) as opened:
        yield opened


def stash_as_goharvest(connection: psycopg.Connection[Any], number: int) -> None:
    connection.execute(GOHARVEST_INSERT, (f"key-{number % 5}", str(number), str(number)))


def apply_steps(connection: psycopg.Connection[Any], table: Table, numbers: set[int]) -> None:
    """The schema as an earlier release would have left it."""
    connection.execute(prologue(table))
    for step in migrations():
        if step.number in numbers:
            connection.execute(step.statement(table))
            connection.execute(step.entry(table))


def layout(connection: psycopg.Connection[Any]) -> list[tuple[Any, ...]]:
    return connection.execute(
        "SELECT attname, format_type(atttypid, atttypmod), attnotnull FROM pg_attribute"
        " WHERE attrelid = 'outbox'::regclass AND attnum > 0 ORDER BY attnum"
    ).fetchall()


@contextmanager
def running(work: Callable[[], None]) -> Iterator[None]:
    """Do it over and over in a thread of its own, and raise here what goes wrong there."""
    stop, rounds, errors = threading.Event(), [0], []

    def loop() -> None:
        try:
            while not stop.is_set():
                work()
                rounds[0] += 1
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=loop)
    thread.start()
    try:
        wait_for(lambda: rounds[0] > 5 or bool(errors), "work is under way")
        yield
        before = rounds[0]
        wait_for(lambda: rounds[0] > before + 5 or bool(errors), "work goes on afterwards")
    finally:
        stop.set()
        thread.join(30.0)
    if errors:
        raise errors[0]


def test_migrating_twice_does_nothing_the_second_time(
    connection: psycopg.Connection[Any],
) -> None:
    table = Table()
    assert [step.number for step in migrate(connection, table)] == [1, 2, 3, 4, 5, 6]
    assert migrate(connection, table) == []
    assert applied(connection, table) == {1, 2, 3, 4, 5, 6}
    assert pending(connection, table) == []


def test_of_two_migrations_at_once_one_does_the_work_and_both_succeed(database: str) -> None:
    taken: list[int] = []
    barrier = threading.Barrier(2)

    def run() -> None:
        with psycopg.connect(database, autocommit=True) as connection:
            barrier.wait(10.0)
            taken.append(len(migrate(connection, Table("box", "made_by_two"))))

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30.0)
    assert sorted(taken) == [0, 6]


def test_the_printed_script_makes_the_same_schema(
    connection: psycopg.Connection[Any],
) -> None:
    connection.execute(script_of(Table()))
    by_hand = layout(connection)
    assert migrate(connection, Table()) == []
    connection.execute(script_of(Table()))
    assert layout(connection) == by_hand


def test_goharvests_own_table_is_extended_and_keeps_its_rows(
    connection: psycopg.Connection[Any],
) -> None:
    connection.execute(STOCK)
    stash_as_goharvest(connection, 1)
    migrate(connection, Table())
    stash_as_goharvest(connection, 2)
    rows = connection.execute("SELECT kafka_value, attempts FROM outbox ORDER BY id").fetchall()
    assert rows == [("1", 0), ("2", 0)]


def test_goharvests_own_table_is_read_unchanged(
    connection: psycopg.Connection[Any], database: str
) -> None:
    connection.execute(STOCK)
    before = layout(connection)
    steps = migrate(connection, Table(), companions_only=True)
    assert [step.name for step in steps] == ["companions", "shards", "doorbell", "source"]
    assert layout(connection) == before
    for number in range(10):
        stash_as_goharvest(connection, number)
    with PostgresStore(database, Table()) as store:
        store.raise_epoch("test")
        rows = store.read(uuid4(), 100)
        assert [(row.topic, row.key, row.value) for row in rows] == [
            ("orders", f"key-{n % 5}", str(n).encode()) for n in range(10)
        ]
        assert [row.header_values for row in rows] == [[str(n)] for n in range(10)]
        assert store.purge([row.id for row in rows]) == 10


def test_a_transaction_that_holds_the_table_is_named_and_nothing_is_changed(
    connection: psycopg.Connection[Any], database: str
) -> None:
    connection.execute(STOCK)
    before = layout(connection)
    with psycopg.connect(database, application_name="nightly report") as holder:
        holder.execute("SELECT count(*) FROM outbox")
        began = time.monotonic()
        with pytest.raises(Blocked) as caught:
            migrate(connection, Table(), lock_timeout=0.3)
        assert time.monotonic() - began < 5.0
        assert f"pid {holder.info.backend_pid} (nightly report, idle in transaction" in str(
            caught.value
        )
        assert "nothing was changed" in str(caught.value)
        assert "then run it again" in str(caught.value)
        assert layout(connection) == before
        assert applied(connection, Table()) == set()
        stash_as_goharvest(connection, 1)
    assert [step.number for step in migrate(connection, Table())] == [1, 2, 3, 4, 5, 6]


def test_writers_of_goharvests_statement_go_on_while_the_schema_changes(
    connection: psycopg.Connection[Any], database: str
) -> None:
    connection.execute(STOCK)
    written: list[int] = []
    with psycopg.connect(database, autocommit=True) as writer:
        # Prepared once and kept, as goharvest's stasher and most pools do.
        writer.prepare_threshold = 0

        def write() -> None:
            stash_as_goharvest(writer, len(written))
            written.append(len(written))

        with running(write):
            migrate(connection, Table())
    rows = connection.execute("SELECT kafka_value FROM outbox ORDER BY id").fetchall()
    assert [int(row[0]) for row in rows] == written


@pytest.mark.parametrize("step", [step.number for step in migrations() if step.touches_outbox][1:])
@pytest.mark.parametrize("reader", ["mark", "diff"])
def test_a_relay_that_runs_goes_on_while_the_schema_changes(
    connection: psycopg.Connection[Any], database: str, step: int, reader: Any
) -> None:
    """Each step by itself, with a relay that opened the table as it was before."""
    table = Table()
    companions = {step.number for step in migrations(companions_only=True)}
    apply_steps(connection, table, set(range(1, step)) | companions)
    leader, count = uuid4(), 0
    seen: list[int] = []
    with (
        psycopg.connect(database, autocommit=True) as writer,
        PostgresStore(database, table, reader=reader) as store,
    ):
        store.raise_epoch("the previous release")

        def relay() -> None:
            nonlocal count
            stash_as_goharvest(writer, count)
            count += 1
            rows = store.read(leader, 100)
            seen.extend(int(row.value or b"") for row in rows)
            store.reset([row.id for row in rows])
            store.purge([row.id for row in rows])

        with running(relay):
            steps = migrate(connection, table)
        assert step in {taken.number for taken in steps}
        assert store.backlog()[0] == 0
        stash_as_goharvest(writer, count)
        (last,) = store.read(leader, 100)
        store.note(last.id, 1, "tried")
        store.bury([last.id], 1, "tried")
    assert seen == list(range(count))
    assert connection.execute("SELECT kafka_value FROM outbox_dead").fetchall() == [(str(count),)]


def test_a_table_that_is_not_there_is_not_taken_for_one_to_migrate(
    connection: psycopg.Connection[Any],
) -> None:
    with pytest.raises(WrongSchema, match="outbocks does not exist; run: windrow init"):
        require_outbox(connection, Table("outbocks"))
