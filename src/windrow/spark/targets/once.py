"""Has this effect been brought about already? Asked and noted in the caller's own transaction.

A function whose effect is a change of a PostgreSQL database calls :func:`once` with its delivery
hash before it makes the change::

    with psycopg.connect(dsn) as connection:
        if once(connection, ctx.delivery_hash):
            connection.execute("UPDATE accounts SET …")

The note and the change are committed together or not at all, so the effect happens exactly once,
however often the function runs.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

from windrow.outbox.connections import PostgresKind, kind_of
from windrow.outbox.errors import UnsupportedConnection
from windrow.outbox.statement import bind
from windrow.outbox.table import Table, in_format, quote_text
from windrow.spark.targets.errors import NoTransaction

if TYPE_CHECKING:
    from windrow.outbox.connections import SyncConnection

ONCE_TABLE: Final = "windrow_once"


def once(connection: SyncConnection, delivery_hash: str, table: str = ONCE_TABLE) -> bool:
    """Note an effect; true if it is the first time.

    Runs on the caller's connection and neither commits nor rolls back. Another transaction that has
    noted the same hash and not ended yet is waited for. The table is made on demand; what is in it
    can be deleted once no replay can reach that far back.

    Args:
        connection: Of psycopg, Django, SQLAlchemy or any DB-API driver of PostgreSQL.
        delivery_hash: ``ctx.delivery_hash``.
        table: Where notes are kept: ``table`` or ``schema.table``.

    Raises:
        NoTransaction: The driver would commit it at once.
        UnsupportedConnection: It is asynchronous, or not of PostgreSQL.
    """
    kind = kind_of(connection)
    if not isinstance(kind, PostgresKind):
        raise UnsupportedConnection(type(connection).__module__, "use one of PostgreSQL")
    if kind.is_autonomous(connection):
        raise NoTransaction
    style, sql = kind.style(connection), Table.parse(table).sql

    def fetch(statement: str) -> list[Any]:
        # Where a percent sign means a parameter, one in a name is written twice.
        text = in_format(statement) if "format" in style else statement
        return kind.fetch(connection, text, bind([], style), prepare=False)

    if fetch(f"SELECT to_regclass({quote_text(sql)}) IS NOT NULL") == [False]:
        # Two that make it at once would meet in the catalogue: one waits for the other.
        fetch(f"SELECT pg_advisory_xact_lock(hashtext({quote_text(sql)})) IS NULL")
        _create(connection, sql)
    noted = fetch(
        f"INSERT INTO {sql} (hash) VALUES ({quote_text(delivery_hash)})"
        " ON CONFLICT DO NOTHING RETURNING true"
    )
    return bool(noted)


def _create(connection: Any, table: str) -> None:
    statement = (
        f"CREATE TABLE IF NOT EXISTS {table}"
        " (hash text PRIMARY KEY, noted_at timestamptz NOT NULL DEFAULT now())"
    )
    if hasattr(connection, "cursor"):
        with closing(connection.cursor()) as cursor:
            cursor.execute(statement)
        return
    # A session of SQLAlchemy, or a connection of its own kind.
    is_session = not hasattr(connection, "exec_driver_sql")
    below = connection.connection() if is_session else connection
    below.exec_driver_sql(statement)
