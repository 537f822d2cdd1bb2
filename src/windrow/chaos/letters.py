"""Look at dead letters, and put them back as a person does once the receiver is well."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from windrow.config import Dsn
from windrow.outbox.table import Table

if TYPE_CHECKING:
    from windrow.outbox.dialects.names import Dialect
    from windrow.relay.desk import Desk

_PATIENCE = 10.0
_MANY = 1_000_000
_FIELDS = (
    "create_time, kafka_topic, kafka_key, kafka_value, kafka_value_bytes, kafka_header_keys,"
    " kafka_header_values, kafka_partition, kafka_timestamp"
)


def buried_keys(dsn: str, table: Table) -> list[str]:
    """The keys of all dead letters.

    Raises:
        Unreachable: The database gives no answer.
    """
    if _has_desk(dsn):
        from windrow.relay.deadletters import list_entries

        with _desk(dsn, table) as desk:
            return [entry.key for entry in list_entries(desk, limit=_MANY) if entry.key]
    with _connection(dsn) as (connection, dialect):
        from windrow.outbox.dialects.connecting import run

        dead = dialect.table(table, "_dead")
        return [key for (key,) in run(connection, f"SELECT kafka_key FROM {dead}")]


def retry_all(dsn: str, table: Table) -> int:
    """Put all of them back, and return how many they were.

    Raises:
        Unreachable: The database gives no answer.
    """
    return _retry_at_the_desk(dsn, table) if _has_desk(dsn) else _retry_by_hand(dsn, table)


def _retry_at_the_desk(dsn: str, table: Table) -> int:
    """What ``windrow deadletter retry`` does, for each of them."""
    from windrow.relay.deadletters import list_entries, retry_letter

    with _desk(dsn, table) as desk:
        entries = list_entries(desk, limit=_MANY)
        for entry in entries:
            assert entry.id is not None, "competing relays bury letters, never keys"
            retry_letter(desk, entry.id, out_of_order=True)
        return len(entries)


def _retry_by_hand(dsn: str, table: Table) -> int:
    """There is no desk in MariaDB and SQLite."""
    from windrow.outbox.dialects.connecting import run, transaction

    with _connection(dsn) as (connection, dialect), transaction(connection, dialect):
        outbox, dead = dialect.table(table), dialect.table(table, "_dead")
        ((last,),) = run(connection, f"SELECT COALESCE(MAX(dead_id), 0) FROM {dead}")
        chosen = f"FROM {dead} WHERE dead_id <= {int(last)}"
        ((count,),) = run(connection, f"SELECT count(*) {chosen}")
        run(connection, f"INSERT INTO {outbox} ({_FIELDS}) SELECT {_FIELDS} {chosen}")
        run(connection, f"DELETE {chosen}")
        return int(count)


def _has_desk(dsn: str) -> bool:
    return Dsn(dsn).system == "postgresql"


@contextmanager
def _desk(dsn: str, table: Table) -> Iterator[Desk]:
    from windrow.relay.deadletters import QUERIES
    from windrow.relay.desk import Desk

    desk = Desk(dsn, table, who="windrow chaos")
    try:
        yield desk.open(QUERIES)
    finally:
        desk.close()


@contextmanager
def _connection(dsn: str) -> Iterator[tuple[Any, Dialect]]:
    from windrow.outbox.dialects.connecting import connected, dialect_of

    address = Dsn(dsn)
    dialect = dialect_of(address)
    assert dialect is not None, "PostgreSQL has a desk"
    with connected(address, _PATIENCE, _PATIENCE) as connection:
        yield connection, dialect
