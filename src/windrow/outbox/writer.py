"""The way into the outbox: records, on the caller's own connection and transaction."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from windrow.outbox.collector import Collector
from windrow.outbox.record import Record
from windrow.outbox.session_collector import SessionCollector, session_of
from windrow.outbox.stash import AsyncStash, OutsideTransaction, Stash
from windrow.outbox.table import Table

if TYPE_CHECKING:
    from windrow.outbox.async_connections import AsyncConnection
    from windrow.outbox.connections import SyncConnection


class Outbox:
    """An outbox table that services write to.

    Whatever it does runs on the caller's connection and neither commits nor rolls back: a record
    becomes visible to the relay exactly when the caller's own changes do. It holds no connection
    and no state, so one serves the whole program. The connection is one of PostgreSQL, of PyMySQL
    (MariaDB, MySQL) or of sqlite3; outboxes in the latter two are emptied by competing relays.

    Order, in PostgreSQL: records of one key leave in the order of their ids, so the id has to be
    drawn *after* the transaction has locked what the key stands for, commonly by the UPDATE of that
    row. Stash after that statement, or ``collect`` and let all of it happen at the end; and leave
    the sequence of the ids at ``CACHE 1``, as ``windrow check`` verifies.

    Args:
        table: ``outbox``, ``schema.outbox`` or a ``Table``; a name is taken as it is written.
        outside_transaction: What to do where the driver would commit each statement by itself:
            refuse with ``NotInTransaction``, or give a ``RuntimeWarning``.
        doorbell: Whether to wake a relay that sleeps, at the price of one more statement for each
            stash; for relays with ``relay.doorbell``.
    """

    def __init__(
        self,
        table: str | Table = "outbox",
        *,
        outside_transaction: OutsideTransaction = "refuse",
        doorbell: bool = False,
    ) -> None:
        self.table = Table.parse(table) if isinstance(table, str) else table
        self.outside_transaction = outside_transaction
        self.doorbell = doorbell

    def stash(self, connection: SyncConnection, record: Record) -> int:
        """Add a record to the outbox and return its id.

        Takes a connection of psycopg, Django or any DB-API driver of PostgreSQL, or a connection or
        session of SQLAlchemy. What waits in a session is flushed first.

        Raises:
            NotInTransaction: The driver would commit it at once.
            WrongSchema: The table is missing, or lacks a column that this record needs.
            UnsupportedConnection: It is asynchronous, or of a database that holds no outboxes.
        """
        return self._on(connection, prepare=False).stash(record)

    def stash_many(self, connection: SyncConnection, records: Iterable[Record]) -> list[int]:
        """Add records to the outbox, a thousand per round trip; returns their ids in order.

        Raises:
            NotInTransaction: The driver would commit them at once.
            WrongSchema: The table is missing, or lacks a column that a record needs.
            UnsupportedConnection: It is asynchronous, or of a database that holds no outboxes.
        """
        return self._on(connection, prepare=False).stash_many(records)

    def prepare(self, connection: SyncConnection) -> Stash:
        """A stash for many records one by one, prepared on the server; ends with the transaction.

        Raises:
            UnsupportedConnection: It is asynchronous, or of a database that holds no outboxes.
        """
        return self._on(connection, prepare=True)

    async def stash_async(self, connection: AsyncConnection, record: Record) -> int:
        """The same as ``stash``, on psycopg, asyncpg or SQLAlchemy's asynchronous classes."""
        return await self._async_on(connection, prepare=False).stash(record)

    async def stash_many_async(
        self, connection: AsyncConnection, records: Iterable[Record]
    ) -> list[int]:
        """The same as ``stash_many``, on psycopg, asyncpg or SQLAlchemy's asynchronous classes."""
        return await self._async_on(connection, prepare=False).stash_many(records)

    def prepare_async(self, connection: AsyncConnection) -> AsyncStash:
        """The same as ``prepare``, on psycopg, asyncpg or SQLAlchemy's asynchronous classes."""
        return self._async_on(connection, prepare=True)

    def collect(self, connection: SyncConnection | AsyncConnection) -> Collector:
        """Keep records until the end of the transaction, when every lock it takes is taken.

        Enter it inside the transaction, with ``with`` or ``async with``: what was collected is
        stashed where the block ends, and dropped if it ends in an error. On an SQLAlchemy session
        it also needs no block: records are stashed right before the session commits, and dropped
        when it, or the savepoint they were collected in, is rolled back.

        Raises:
            NotInTransaction: On entering, if there is no transaction around it.
            TransactionEnded: On leaving, if the transaction has ended inside the block.
            UnsupportedConnection: It is not a connection to a database that holds outboxes.
        """
        session = session_of(connection)
        if session is not None:
            return SessionCollector(
                connection, session, self.table, self.outside_transaction, self.doorbell
            )
        return Collector(connection, self.table, self.outside_transaction, self.doorbell)

    def _on(self, connection: SyncConnection, *, prepare: bool) -> Stash:
        outside, doorbell = self.outside_transaction, self.doorbell
        return Stash(connection, self.table, outside, prepare=prepare, doorbell=doorbell)

    def _async_on(self, connection: AsyncConnection, *, prepare: bool) -> AsyncStash:
        outside, doorbell = self.outside_transaction, self.doorbell
        return AsyncStash(connection, self.table, outside, prepare=prepare, doorbell=doorbell)
