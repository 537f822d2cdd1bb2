"""Stash records on one connection: the shell around the INSERT, in both colours."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from windrow.outbox.async_connections import async_kind_of
from windrow.outbox.connections import kind_of
from windrow.outbox.errors import NotInTransaction
from windrow.outbox.record import Record
from windrow.outbox.refusals import wrong_schema
from windrow.outbox.statement import bind, in_chunks, insert_statement
from windrow.outbox.table import Table

if TYPE_CHECKING:
    from windrow.outbox.async_connections import AsyncConnection
    from windrow.outbox.connections import SyncConnection

OutsideTransaction = Literal["refuse", "warn"]
T = TypeVar("T")


class Stash:
    """An outbox on one connection, for as long as its transaction lasts.

    The statement is prepared on the server where the driver can do that.
    """

    def __init__(
        self,
        connection: SyncConnection,
        table: Table,
        outside_transaction: OutsideTransaction,
        *,
        prepare: bool = True,
    ) -> None:
        self._connection, self._table = connection, table
        self._outside_transaction = outside_transaction
        self._prepare = prepare
        self._kind = kind_of(connection)
        self._style = self._kind.style(connection)

    def stash(self, record: Record) -> int:
        """Add a record to the outbox and return its id; see ``Outbox.stash``."""
        self.check()
        return self._insert([record])[0]

    def stash_many(self, records: Iterable[Record]) -> list[int]:
        """Add records to the outbox and return their ids in order; see ``Outbox.stash_many``."""
        self.check()
        return [number for chunk in in_chunks(records) for number in self._insert(chunk)]

    def check(self) -> None:
        """Refuse, or warn, if a statement would be committed by itself."""
        if self._kind.is_autonomous(self._connection):
            complain(self._outside_transaction)

    def fetch(self, sql: str) -> list[Any]:
        """The first column of what a statement without parameters gives, in the transaction."""
        return self._kind.fetch(self._connection, sql, bind([], self._style), prepare=False)

    def _insert(self, records: Sequence[Record]) -> list[int]:
        statement = insert_statement(self._table, records, self._style)
        try:
            return self._kind.fetch(self._connection, *statement, prepare=self._prepare)
        except Exception as error:
            problem = wrong_schema(error, self._table, records)
            if problem is None:
                raise
            raise problem from error


class AsyncStash:
    """An outbox on one asynchronous connection, for as long as its transaction lasts."""

    def __init__(
        self,
        connection: AsyncConnection,
        table: Table,
        outside_transaction: OutsideTransaction,
        *,
        prepare: bool = True,
    ) -> None:
        self._connection, self._table = connection, table
        self._outside_transaction = outside_transaction
        self._prepare = prepare
        self._kind = async_kind_of(connection)

    async def stash(self, record: Record) -> int:
        """Add a record to the outbox and return its id; see ``Outbox.stash``."""
        return (await self.stash_many([record]))[0]

    async def stash_many(self, records: Iterable[Record]) -> list[int]:
        """Add records to the outbox and return their ids in order; see ``Outbox.stash_many``."""
        if self._kind is None:
            return await self._run_sync(lambda stash: stash.stash_many(records))
        await self.check()
        ids: list[int] = []
        for chunk in in_chunks(records):
            ids += await self._insert(chunk)
        return ids

    async def check(self) -> None:
        """Refuse, or warn, if a statement would be committed by itself."""
        if self._kind is None:
            await self._run_sync(Stash.check)
        elif await self._kind.is_autonomous(self._connection):
            complain(self._outside_transaction)

    async def fetch(self, sql: str) -> list[Any]:
        """The first column of what a statement without parameters gives, in the transaction."""
        if self._kind is None:
            return await self._run_sync(lambda stash: stash.fetch(sql))
        return await self._kind.fetch(self._connection, sql, (), prepare=False)

    async def _insert(self, records: Sequence[Record]) -> list[int]:
        assert self._kind is not None
        statement = insert_statement(self._table, records, self._kind.style)
        try:
            return await self._kind.fetch(self._connection, *statement, prepare=self._prepare)
        except Exception as error:
            problem = wrong_schema(error, self._table, records)
            if problem is None:
                raise
            raise problem from error

    async def _run_sync(self, work: Callable[[Stash], T]) -> T:
        """Do it on the synchronous side of an SQLAlchemy connection or session."""

        def run(connection: Any) -> T:
            return work(Stash(connection, self._table, self._outside_transaction))

        connection: Any = self._connection
        done: T = await connection.run_sync(run)
        return done


def complain(outside_transaction: OutsideTransaction) -> None:
    """Say, as loudly as was asked for, that there is no transaction."""
    if outside_transaction == "refuse":
        raise NotInTransaction
    # The caller of Outbox.stash, past its Stash.
    warnings.warn(
        "stashed outside a transaction: the event can exist without the data",
        RuntimeWarning,
        stacklevel=5,
    )
