"""Tables that are not quite ours, and names that are not quite usual."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from tests.fixtures.relaying import OutboxDatabase
from tests.integration.outbox.kinds import ASYNC_KINDS
from tests.integration.outbox.writers import RECORDS, WRITERS
from windrow.outbox import InvalidIdentifier, Outbox, Record, Table, WrongSchema
from windrow.outbox.facts import check
from windrow.outbox.grants import Roles, grants
from windrow.outbox.schema import migrate
from windrow.outbox.stores.postgres import PostgresStore
from windrow.outbox.table import quote

STOCK = """
CREATE TABLE stock (
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


@pytest.fixture
def stock(shared_outbox: OutboxDatabase) -> Iterator[psycopg.Connection[Any]]:
    """A connection to a database with goharvest's own table in it, named ``stock``."""
    with shared_outbox.connect() as connection:
        connection.execute(STOCK)
        yield connection
        connection.execute("DROP TABLE stock")


@pytest.mark.parametrize("writer", WRITERS)
def test_goharvests_own_table_takes_what_goharvest_could_send(
    shared_outbox: OutboxDatabase, stock: psycopg.Connection[Any], writer: str
) -> None:
    for how in ("one by one", "many"):
        WRITERS[writer](shared_outbox.dsn, RECORDS[:2], how, "stock")
    rows = stock.execute("SELECT kafka_key, kafka_header_keys FROM stock ORDER BY id").fetchall()
    assert rows == [("a", []), ("b", ["h", "empty", "none", 'q"\\,{}NULL'])] * 2


@pytest.mark.parametrize("writer", WRITERS)
def test_what_the_table_lacks_is_told_with_the_command_to_run(
    shared_outbox: OutboxDatabase, stock: psycopg.Connection[Any], writer: str
) -> None:
    def write(*records: Record, table: str = "stock") -> None:
        WRITERS[writer](shared_outbox.dsn, list(records), "one by one", table)

    with pytest.raises(WrongSchema, match="outbocks does not exist; run: windrow init"):
        write(RECORDS[0], table="outbocks")
    for record in RECORDS[2:]:
        with pytest.raises(WrongSchema, match=r"has no columns for bytes.*run: windrow migrate"):
            write(record)
    with pytest.raises(WrongSchema, match="a record without a key; run: windrow migrate"):
        write(Record("orders", None, "text"))
    stock.execute("ALTER TABLE stock DROP COLUMN kafka_header_keys")
    with pytest.raises(WrongSchema, match="lacks a column of an outbox; run: windrow check"):
        write(RECORDS[0])


def test_an_error_that_is_not_about_the_table_comes_through_as_it_is(
    outbox: OutboxDatabase,
) -> None:
    with outbox.connect() as connection:
        connection.execute("ALTER TABLE outbox ADD CHECK (kafka_key <> 'a')")
        with pytest.raises(psycopg.errors.CheckViolation), connection.transaction():
            Outbox().stash(connection, RECORDS[0])


NAMES = [
    'with "quotes" and ""two',
    "with.dots.and spaces",
    "ünïcödé → 発信箱",
    "percent %s %(x)s %% $1 :p1 ?",
    "{braces} {outbox} 'ticks' $windrow$",
    "x" * 52,
    "ü" * 26,
]


@pytest.mark.parametrize("name", NAMES)
def test_any_name_postgresql_can_hold_is_a_name_for_an_outbox(database: str, name: str) -> None:
    """From the migration through both colours of writer to the reader."""
    table = Table(name, schema=name)
    roles = Roles(f"w {name}", f"r {name}", f"s {name}")
    with psycopg.connect(database, autocommit=True) as connection:
        migrate(connection, table)
        assert migrate(connection, table) == []
        for statement in grants(table, roles):
            connection.execute(statement)
        with connection.transaction():
            Outbox(table.sql).stash(connection, RECORDS[0])
            Outbox(table).stash_many(connection, RECORDS)
        assert [finding for finding in check(connection, table) if finding.level == "problem"] == []

    async def write() -> None:
        async with ASYNC_KINDS["asyncpg"](database) as connection:
            await Outbox(table).stash_async(connection, RECORDS[0])

    asyncio.run(write())
    with PostgresStore(database, table) as store:
        store.raise_epoch("test")
        marked = store.read(uuid4(), 100)
        assert [row.key for row in marked] == ["a", "a", "b", "c", None, "a"]
        store.bury([marked[1].id], 1, "tried")
        store.hold("b", [marked[2].id], "held", "tried")
        assert store.purge([marked[0].id]) == 1
        assert [row.key for row in store.read(uuid4(), 100, ["c"])] == [None, "a"]
    with psycopg.connect(database, autocommit=True) as connection:
        for role in (roles.writer, roles.relay, roles.reader):
            connection.execute(f"DROP OWNED BY {quote(role)}")
            connection.execute(f"DROP ROLE {quote(role)}")


def test_a_name_too_long_for_a_companion_is_refused_before_it_is_cut() -> None:
    with pytest.raises(InvalidIdentifier, match="longer than 63 bytes"):
        Outbox("x" * 53)
