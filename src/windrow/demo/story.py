"""Write an order and its event in one transaction, roll another back, and look what is there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from windrow.demo.verdict import Verdict, judge
from windrow.embedded.postgres import PostgresServer
from windrow.embedded.postgres_binaries import embedded_binaries
from windrow.extras import require

if TYPE_CHECKING:
    import psycopg

    Connection = psycopg.Connection[tuple[Any, ...]]

_SCHEMA = """
CREATE TABLE orders (id VARCHAR(100) PRIMARY KEY, total NUMERIC NOT NULL);

CREATE TABLE outbox (
  id                  BIGSERIAL PRIMARY KEY,
  create_time         TIMESTAMPTZ NOT NULL,
  kafka_topic         VARCHAR(249) NOT NULL,
  kafka_key           VARCHAR(100) NOT NULL,
  kafka_value         VARCHAR(10000),
  kafka_header_keys   TEXT[] NOT NULL,
  kafka_header_values TEXT[] NOT NULL,
  leader_id           UUID
);
"""
_INSERT_ORDER = "INSERT INTO orders (id, total) VALUES (%s, %s)"
_INSERT_EVENT = """
INSERT INTO outbox
  (create_time, kafka_topic, kafka_key, kafka_value, kafka_header_keys, kafka_header_values)
VALUES (now(), 'orders', %s, %s, '{}', '{}')
"""


@dataclass(frozen=True, slots=True)
class Demonstration:
    """What the database held in the end, and what follows from it."""

    postgres_version: str
    orders: list[str]
    events: list[str]
    verdict: Verdict


def demonstrate(say: Callable[[str], None]) -> Demonstration:
    """Tell the story on a PostgreSQL of its own, which is gone when it ends.

    Args:
        say: Takes each step as a sentence, as it is done.

    Raises:
        MissingExtra: The driver or the embedded PostgreSQL is not installed.
        StartFailed: PostgreSQL did not come up.
    """
    binaries = embedded_binaries()  # first: the extra that brings it brings the driver too
    psycopg = require("psycopg")
    with PostgresServer.start(binaries=binaries) as server:
        say(f"PostgreSQL {server.version} runs, as process {server.pid}")
        with psycopg.connect(server.dsn()) as writer:
            create_tables(writer)
            say('table "outbox" created')
            place_order(writer, "order-1", "19.90")
            writer.commit()
            say("order-1 and its event written in one transaction: committed")
            place_order(writer, "order-2", "7.50")
            writer.rollback()
            say("order-2 and its event written in one transaction: rolled back")
        # Another connection sees what was committed, and nothing else.
        with psycopg.connect(server.dsn()) as reader:
            orders, events = read_back(reader)
    verdict = judge({"order-1"}, {"order-2"}, orders, events)
    return Demonstration(server.version, orders, events, verdict)


def create_tables(connection: Connection) -> None:
    """Create the data's table and the outbox, and commit."""
    connection.execute(_SCHEMA)
    connection.commit()


def place_order(connection: Connection, order: str, total: str) -> None:
    """Write an order and its event on the caller's transaction, which stays open."""
    connection.execute(_INSERT_ORDER, (order, total))
    connection.execute(_INSERT_EVENT, (order, f'{{"order": "{order}", "total": {total}}}'))


def read_back(connection: Connection) -> tuple[list[str], list[str]]:
    """All orders, and the order of every event."""
    orders = connection.execute("SELECT id FROM orders ORDER BY id").fetchall()
    events = connection.execute("SELECT kafka_key FROM outbox ORDER BY id").fetchall()
    return [row[0] for row in orders], [row[0] for row in events]
