"""The way into the inbox: claims, on the consumer's own connection and transaction."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

from windrow.extras import require
from windrow.inbox.errors import CannotClaimOn, ClaimOutsideTransaction, NoInbox
from windrow.inbox.statements import (
    checked_consumer,
    checked_id,
    claim_sql,
    plain_claim_sql,
    plain_purge_sql,
    purge_sql,
)
from windrow.outbox.async_connections import async_kind_of
from windrow.outbox.connections import Kind, PostgresKind, kind_of
from windrow.outbox.dialects.kinds import SQLiteKind
from windrow.outbox.dialects.names import MYSQL, SQLITE
from windrow.outbox.errors import UnsupportedConnection
from windrow.outbox.refusals import sqlstate_of
from windrow.outbox.statement import bind
from windrow.outbox.table import Table

if TYPE_CHECKING:
    from windrow.outbox.async_connections import AsyncConnection
    from windrow.outbox.connections import SyncConnection

BATCH = 5_000
"""Claims of one purge: enough for a janitor to keep up, few enough to lock nobody out."""
UNDEFINED = ("42P01", "42703")
"""PostgreSQL: no such table, no such column."""
DUPLICATE, NO_TABLE, NO_COLUMN = 1062, 1146, 1054
"""The same of MySQL, and that a row is there already."""


class Inbox:
    """A table in which consumers note what they have taken.

    Whatever it does runs on the consumer's connection and neither commits nor rolls back: the claim
    stands exactly when the work behind it does. It holds no connection and no state, so one serves
    the whole program.

    Args:
        table: ``inbox``, ``schema.inbox`` or a ``Table``; a name is taken as it is written.
        consumer: Who claims: consumers of different names each take every message once.
    """

    def __init__(self, table: str | Table = "inbox", *, consumer: str = "") -> None:
        self.table = Table.parse(table) if isinstance(table, str) else table
        self.consumer = checked_consumer(consumer)

    def claim(self, connection: SyncConnection, message_id: str) -> bool:
        """Whether this is the first time; do the work only then, in the same transaction.

        Somebody else who is about to claim the same id is waited for: if they commit it is theirs,
        if they fail it is ours. At isolation level REPEATABLE READ and above PostgreSQL may end
        such a wait with a serialization failure instead; try the transaction again.

        Takes a connection of psycopg, Django, any DB-API driver of PostgreSQL, PyMySQL or sqlite3,
        or a connection or session of SQLAlchemy on PostgreSQL.

        Raises:
            ClaimOutsideTransaction: The driver would commit it at once.
            NoInbox: The table is missing.
            CannotClaimOn: It is asynchronous, or of another database.
            InvalidMessageId: The id cannot be stored as it is.
        """
        values = [self.consumer, checked_id(message_id)]
        with _told():
            kind = kind_of(connection)
            if kind.is_autonomous(connection):
                raise ClaimOutsideTransaction
            return self._claim(kind, connection, values)

    async def claim_async(self, connection: AsyncConnection, message_id: str) -> bool:
        """The same as ``claim``, on psycopg, asyncpg or SQLAlchemy's asynchronous classes."""
        values = [self.consumer, checked_id(message_id)]
        with _told():
            kind = async_kind_of(connection)
            if kind is None:
                other: Any = connection
                first: bool = await other.run_sync(lambda inner: self.claim(inner, message_id))
                return first
            if await kind.is_autonomous(connection):
                raise ClaimOutsideTransaction
            sql, bound = claim_sql(self.table, kind.style), bind(values, kind.style)
            with self._explained():
                return bool(await kind.fetch(connection, sql, bound, prepare=False))

    def purge(self, connection: SyncConnection, older_than: float, batch: int = BATCH) -> int:
        """Delete the oldest claims beyond an age, so many at most; returns how many.

        A message that comes again after that is new, so the age has to exceed the longest time
        after which one can be repeated: retries, dead letters put back, replays. Call it until
        less than ``batch`` are deleted, with a commit in between. Those of all consumers go.

        Args:
            connection: Any that ``claim`` takes; in a transaction or not.
            older_than: Seconds.
            batch: The most that are deleted.
        """
        if older_than <= 0 or batch < 1:
            raise ValueError(f"purge of claims older than {older_than:g} s, {batch} at a time")
        with _told():
            return self._purge(kind_of(connection), connection, older_than, batch)

    # -- by database -----------------------------------------------------------------------------

    def _claim(self, kind: Kind, connection: Any, values: list[str]) -> bool:
        if isinstance(kind, PostgresKind):
            style = kind.style(connection)
            sql, bound = claim_sql(self.table, style), bind(values, style)
            with self._explained():
                return bool(kind.fetch(connection, sql, bound, prepare=False))
        if isinstance(kind, SQLiteKind):
            sql = plain_claim_sql(SQLITE, self.table)
            return self._run_sqlite(connection, sql, tuple(values)) == 1
        return self._claim_in_mysql(connection, values)

    def _claim_in_mysql(self, connection: Any, values: list[str]) -> bool:
        # Not INSERT IGNORE, which ignores more than that the row is there.
        try:
            sql = plain_claim_sql(MYSQL, self.table)
            return self._run_mysql(connection, sql, tuple(text.encode() for text in values)) == 1
        except require("pymysql").err.IntegrityError as error:
            if error.args[:1] == (DUPLICATE,):
                return False
            raise

    def _purge(self, kind: Kind, connection: Any, older_than: float, batch: int) -> int:
        if isinstance(kind, PostgresKind):
            style = kind.style(connection)
            bound = bind([older_than, batch], style)
            with self._explained():
                return int(
                    kind.fetch(connection, purge_sql(self.table, style), bound, prepare=False)[0]
                )
        dialect = SQLITE if isinstance(kind, SQLiteKind) else MYSQL
        run = self._run_sqlite if dialect is SQLITE else self._run_mysql
        sql = plain_purge_sql(dialect, self.table)
        return run(connection, sql, (dialect.delay(-older_than), batch))

    def _run_sqlite(self, connection: Any, sql: str, values: tuple[Any, ...]) -> int:
        import sqlite3

        try:
            with closing(connection.cursor()) as cursor:
                return int(cursor.execute(sql, values).rowcount)
        except sqlite3.OperationalError as error:
            if str(error).startswith(("no such table", "no such column")):
                raise NoInbox(str(self.table)) from error
            raise

    def _run_mysql(self, connection: Any, sql: str, values: tuple[Any, ...]) -> int:
        try:
            with connection.cursor() as cursor:
                return int(cursor.execute(sql, values))
        except require("pymysql").Error as error:
            if error.args[:1] in ((NO_TABLE,), (NO_COLUMN,)):
                raise NoInbox(str(self.table)) from error
            raise

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            if sqlstate_of(error) in UNDEFINED:
                raise NoInbox(str(self.table)) from error
            raise


@contextmanager
def _told() -> Iterator[None]:
    """The outbox knows the same connections, but speaks of stashing."""
    try:
        yield
    except UnsupportedConnection as error:
        raise CannotClaimOn(error.kind, error.advice) from None
