"""What goharvest's unit tests ask of its database binding, asked of a real database."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from tests.fixtures.relaying import OutboxDatabase, RelayKit, consume, wait_for
from tests.integration.relay.desks import holds
from tests.integration.relay.test_barrier import by_key
from windrow.embedded.ports import free_port
from windrow.errors import Unreachable
from windrow.outbox import Outbox, Record
from windrow.outbox.errors import DatabaseFailed, WrongSchema
from windrow.outbox.stores.postgres import PostgresStore
from windrow.outbox.table import Table


@pytest.fixture
def store(outbox: OutboxDatabase) -> Iterator[PostgresStore]:
    with PostgresStore(outbox.dsn, outbox.table) as store:
        store.raise_epoch("test")
        yield store


def break_connections(outbox: OutboxDatabase) -> None:
    with outbox.connect() as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


def ids(outbox: OutboxDatabase, where: str = "true") -> list[int]:
    with outbox.connect() as connection:
        rows = connection.execute(f"SELECT id FROM outbox WHERE {where} ORDER BY id").fetchall()
    return [row[0] for row in rows]


# -- opening -------------------------------------------------------------------------------------


def test_a_database_that_cannot_be_reached_is_a_clear_error() -> None:
    store = PostgresStore(f"postgresql://me@127.0.0.1:{free_port()}/x", Table())
    with pytest.raises(Unreachable, match=r"cannot reach PostgreSQL at 127\.0\.0\.1"):
        store.open()


def test_a_missing_table_fails_the_opening_with_the_command_to_run(
    outbox: OutboxDatabase,
) -> None:
    store = PostgresStore(outbox.dsn, Table("elsewhere"))
    with pytest.raises(WrongSchema, match="windrow init"):
        store.open()
    store.close()


@pytest.mark.parametrize("column", ["leader_id", "id", "kafka_topic", "kafka_header_values"])
def test_a_statement_that_lacks_its_column_fails_the_opening_and_leaves_no_connection(
    column: str, outbox: OutboxDatabase
) -> None:
    """Of marks, purges and resets alike: they are built together, and none runs by halves."""
    with outbox.connect() as connection:
        connection.execute(f"ALTER TABLE outbox RENAME COLUMN {column} TO lost")
    store = PostgresStore(outbox.dsn, outbox.table)
    with pytest.raises(WrongSchema, match=f'has no column "{column}"'):
        store.open()
    store.close()
    with outbox.connect() as connection:
        query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        wait_for(lambda: connection.execute(query).fetchone() == (1,), "nothing is left open")


# -- marks ---------------------------------------------------------------------------------------


def test_a_mark_that_fails_raises_and_the_next_one_works(
    outbox: OutboxDatabase, store: PostgresStore
) -> None:
    assert store.read(uuid4(), 10) == []  # so that there is a connection to break
    outbox.write("t", [("a", "1")])
    break_connections(outbox)
    with pytest.raises(DatabaseFailed):
        store.read(uuid4(), 10)
    assert [row.id for row in store.read(uuid4(), 10)] == [1]


def test_a_mark_returns_rows_in_the_order_of_their_ids_whatever_their_place(
    outbox: OutboxDatabase, store: PostgresStore
) -> None:
    outbox.write("t", [("a", str(n)) for n in range(6)])
    with outbox.connect() as connection:  # later versions lie elsewhere on the page
        for number in (4, 1, 6, 2):
            connection.execute("UPDATE outbox SET attempts = 1 WHERE id = %s", (number,))
    leader = uuid4()
    first = store.read(leader, 4)
    assert [row.id for row in first] == [1, 2, 3, 4]
    assert [(row.key, row.value, row.header_keys) for row in first[:1]] == [("a", b"0", ["Seq"])]
    assert [row.id for row in store.read(leader, 4)] == [5, 6]
    assert store.read(leader, 4) == []
    assert ids(outbox, f"leader_id = '{leader}'") == [1, 2, 3, 4, 5, 6]


def test_a_row_of_a_type_that_no_message_has_holds_its_own_key_only(
    outbox: OutboxDatabase, kafka: str, topic: str, relay_kit: RelayKit
) -> None:
    """It failed goharvest's whole batch, and every one after it."""
    with outbox.connect() as connection:
        connection.execute(
            "ALTER TABLE outbox ALTER kafka_header_values DROP DEFAULT,"
            " ALTER kafka_header_values TYPE int[] USING '{}'::int[]"
        )
        insert = (
            "INSERT INTO outbox (kafka_topic, kafka_key, kafka_value, kafka_header_keys,"
            " kafka_header_values) VALUES (%s, %s, %s, %s, %s)"
        )
        connection.execute(insert, (topic, "bad", "1", ["x"], [7]))
        connection.execute(insert, (topic, "good", "1", [], []))
    relay_kit.start()
    wait_for(lambda: holds(outbox) == [("key", "bad", "held")], "the key is held")
    wait_for(lambda: outbox.count() == 1, "the other is sent")
    assert by_key(consume(kafka, topic)) == {"good": ["1"]}


# -- purge and reset -----------------------------------------------------------------------------


def test_a_purge_removes_what_it_names_and_says_how_much_that_was(
    outbox: OutboxDatabase, store: PostgresStore
) -> None:
    outbox.write("t", [("a", str(n)) for n in range(4)])
    assert store.purge([1, 3]) == 2
    assert ids(outbox) == [2, 4]


def test_a_purge_of_what_is_gone_is_no_error(outbox: OutboxDatabase, store: PostgresStore) -> None:
    assert store.purge([77]) == 0


def test_a_reset_gives_back_what_it_names_and_says_how_much_that_was(
    outbox: OutboxDatabase, store: PostgresStore
) -> None:
    outbox.write("t", [("a", str(n)) for n in range(3)])
    leader = uuid4()
    store.read(leader, 10)
    assert store.reset([1, 3]) == 2
    assert [row.id for row in store.read(leader, 10)] == [1, 3]


def test_a_reset_of_what_is_gone_is_no_error(outbox: OutboxDatabase, store: PostgresStore) -> None:
    assert store.reset([77]) == 0


@pytest.mark.parametrize("statement", ["purge", "reset"])
def test_a_statement_whose_link_breaks_raises_and_may_be_repeated(
    statement: str, outbox: OutboxDatabase, store: PostgresStore
) -> None:
    outbox.write("t", [("a", "1")])
    act: Any = getattr(store, statement)
    assert act([77]) == 0  # so that there is a connection to break
    break_connections(outbox)
    with pytest.raises(DatabaseFailed):
        act([1])
    assert act([1]) == 1


# -- the stasher ---------------------------------------------------------------------------------


@pytest.fixture
def goharvest(database: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection to a database with goharvest's table, as it documents it."""
    with psycopg.connect(database) as connection:
        connection.execute(
            "CREATE TABLE outbox (id BIGSERIAL PRIMARY KEY, create_time TIMESTAMPTZ NOT NULL,"
            " kafka_topic VARCHAR(249) NOT NULL, kafka_key VARCHAR(100) NOT NULL,"
            " kafka_value VARCHAR(10000), kafka_header_keys TEXT[] NOT NULL,"
            " kafka_header_values TEXT[] NOT NULL, leader_id UUID)"
        )
        connection.commit()
        yield connection


def stashed(connection: psycopg.Connection[Any]) -> list[tuple[Any, ...]]:
    return connection.execute(
        "SELECT kafka_topic, kafka_key, kafka_value, kafka_header_keys, kafka_header_values,"
        " leader_id FROM outbox ORDER BY id"
    ).fetchall()


def test_a_record_with_headers_is_stashed_in_goharvests_table(
    goharvest: psycopg.Connection[Any],
) -> None:
    headers = [("header-key", "header-value")]
    Outbox().stash(goharvest, Record("topic", "key", "value", headers))
    assert stashed(goharvest) == [("topic", "key", "value", ["header-key"], ["header-value"], None)]


def test_a_record_without_headers_is_stashed_with_two_empty_arrays(
    goharvest: psycopg.Connection[Any],
) -> None:
    Outbox().stash(goharvest, Record("topic", "key", "value"))
    assert stashed(goharvest) == [("topic", "key", "value", [], [], None)]


def test_a_prepared_stash_serves_any_number_of_records(goharvest: psycopg.Connection[Any]) -> None:
    prepared = Outbox().prepare(goharvest)
    for number in range(3):
        prepared.stash(Record("topic", "key", str(number)))
    assert [row[2] for row in stashed(goharvest)] == ["0", "1", "2"]
    goharvest.rollback()
    assert stashed(goharvest) == []
