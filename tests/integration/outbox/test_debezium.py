"""An outbox with Debezium's columns, read as its event router would send it."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from windrow.outbox.errors import WrongSchema
from windrow.outbox.schema import migrate
from windrow.outbox.stores.postgres import PostgresStore
from windrow.outbox.table import Table, debezium

TABLE = """
CREATE TABLE outboxevent (
  id            UUID PRIMARY KEY,
  aggregatetype VARCHAR(255) NOT NULL,
  aggregateid   VARCHAR(255) NOT NULL,
  type          VARCHAR(255) NOT NULL,
  payload       {payload}
);
ALTER TABLE outboxevent
  ADD COLUMN seq BIGINT GENERATED ALWAYS AS IDENTITY UNIQUE,
  ADD COLUMN leader_id UUID
"""
INSERT = "INSERT INTO outboxevent VALUES (%s, 'order', %s, 'OrderCreated', %s)"
IDS = [UUID(int=number) for number in (3, 1, 2)]


def make(database: str, payload: str, values: list[Any]) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(TABLE.format(payload=payload))
        for number, value in zip(IDS, values, strict=True):
            connection.execute(INSERT, (number, f"order-{number.int}", value))
        migrate(connection, Table("outboxevent"), companions_only=True)


@pytest.mark.parametrize("reader", ["mark", "diff"])
@pytest.mark.parametrize(
    ("payload", "values", "is_binary", "sent"),
    [
        ("JSONB", ['{"total": 1}', None, "[1]"], False, [b'{"total": 1}', None, b"[1]"]),
        ("TEXT", ["ä", None, ""], False, ["ä".encode(), None, b""]),
        ("BYTEA", [b"\x00\xff", None, b""], True, [b"\x00\xff", None, b""]),
    ],
)
def test_rows_come_in_the_given_order_with_topic_key_value_and_headers(
    database: str, reader: Any, payload: str, values: list[Any], is_binary: bool, sent: list[Any]
) -> None:
    make(database, payload, values)
    columns = debezium("seq", is_binary=is_binary)
    with PostgresStore(database, Table("outboxevent"), columns=columns, reader=reader) as store:
        store.raise_epoch("test")
        assert store.backlog() == (3, 0.0)
        rows = store.read(uuid4(), 10)
        assert [row.topic for row in rows] == ["outbox.event.order"] * 3
        assert [row.key for row in rows] == ["order-3", "order-1", "order-2"]
        assert [row.value for row in rows] == sent
        assert [row.header_keys for row in rows] == [["id", "eventType"]] * 3
        assert [row.header_values for row in rows] == [[str(i), "OrderCreated"] for i in IDS]
        assert store.purge([rows[0].id]) == 1
        store.bury([rows[1].id], 2, "tried")
    with psycopg.connect(database) as connection:
        dead = connection.execute(
            "SELECT kafka_topic, kafka_key, kafka_header_values FROM outboxevent_dead"
        ).fetchall()
        left = connection.execute("SELECT id FROM outboxevent").fetchall()
    assert dead == [("outbox.event.order", "order-1", [str(IDS[1]), "OrderCreated"])]
    assert left == [(IDS[2],)]


def test_a_held_topic_is_the_whole_topic(database: str) -> None:
    make(database, "TEXT", ["1", "2", "3"])
    columns = debezium("seq", topic_prefix="it's 100% ")
    with (
        PostgresStore(database, Table("outboxevent"), columns=columns) as store,
        psycopg.connect(database, autocommit=True) as connection,
    ):
        store.raise_epoch("test")
        assert {row.topic for row in store.read(uuid4(), 10)} == {"it's 100% order"}
        connection.execute(
            "INSERT INTO outboxevent_hold VALUES ('topic', 'it''s 100% order', 'paused')"
        )
        assert store.read(uuid4(), 10) == []


@pytest.mark.parametrize("column", ["seq", "type", "payload"])
def test_a_column_that_is_missing_is_named(database: str, column: str) -> None:
    make(database, "BYTEA", [b"", b"", b""])
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(f"ALTER TABLE outboxevent DROP COLUMN {column}")
    store = PostgresStore(database, Table("outboxevent"), columns=debezium("seq", is_binary=True))
    with pytest.raises(WrongSchema, match=f'outboxevent has no column "{column}"'), store:
        pass
    store.close()
