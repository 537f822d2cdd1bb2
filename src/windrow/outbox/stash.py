"""Stash records on one connection: the shell around the INSERT, in both colours."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from windrow.outbox.async_connections import async_kind_of
from windrow.outbox.connections import WHICH_TRANSACTION, PostgresKind, kind_of, name_of
from windrow.outbox.doorbell import ring_statement
from windrow.outbox.errors import NotInTransaction, UnsupportedConnection
from windrow.outbox.record import Record
from windrow.outbox.refusals import no_doorbell, wrong_schema
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
        doorbell: bool = False,
    ) -> None:
        self._connection, self._table = connection, table
        self._outside_transaction = outside_transaction
        self._prepare, self._doorbell = prepare, doorbell
        self._kind = kind_of(connection)
        self._style = self._kind.style(connection)
        if doorbell and not isinstance(self._kind, PostgresKind):
            advice = "a doorbell rings in PostgreSQL only; leave it out"
            raise UnsupportedConnection(name_of(type(connection)), advice)

    def stash(self, record: Record) -> int:
        """Add a record to the outbox and return its id; see ``Outbox.stash``."""
        self.check()
        (number,) = self._insert([record])
        self._ring()
        return number

    def stash_many(self, records: Iterable[Record]) -> list[int]:
        """Add records to the outbox and return their ids in order; see ``Outbox.stash_many``."""
        self.check()
        ids = [number for chunk in in_chunks(records) for number in self._insert(chunk)]
        self._ring()
        return ids

    def _ring(self) -> None:
        if self._doorbell and isinstance(self._kind, PostgresKind):
            sql, none = ring_statement(self._table), bind([], self._style)
            try:
                self._kind.fetch(self._connection, sql, none, prepare=False)
            except Exception as error:
                raise no_doorbell(error, self._table) or error from error

    def check(self) -> None:
        """Refuse, or warn, if a statement would be committed by itself."""
        if self._kind.is_autonomous(self._connection):
            complain(self._outside_transaction)

    def enter(self) -> Any:
        """What tells this transaction from others; see ``Kind.enter``."""
        return self._kind.enter(self._connection)

    def is_within(self, entered: Any) -> bool:
        """Whether it is still the transaction that was entered."""
        return self._kind.is_within(self._connection, entered)

    def _insert(self, records: Sequence[Record]) -> list[int]:
        return self._kind.insert(self._connection, self._table, records, self._prepare)


class AsyncStash:
    """An outbox on one asynchronous connection, for as long as its transaction lasts."""

    def __init__(
        self,
        connection: AsyncConnection,
        table: Table,
        outside_transaction: OutsideTransaction,
        *,
        prepare: bool = True,
        doorbell: bool = False,
    ) -> None:
        self._connection, self._table = connection, table
        self._outside_transaction = outside_transaction
        self._prepare, self._doorbell = prepare, doorbell
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
        await self._ring()
        return ids

    async def _ring(self) -> None:
        if self._doorbell and self._kind is not None:
            try:
                await self._kind.fetch(
                    self._connection, ring_statement(self._table), (), prepare=False
                )
            except Exception as error:
                raise no_doorbell(error, self._table) or error from error

    async def check(self) -> None:
        """Refuse, or warn, if a statement would be committed by itself."""
        if self._kind is None:
            await self._run_sync(Stash.check)
        elif await self._kind.is_autonomous(self._connection):
            complain(self._outside_transaction)

    async def enter(self) -> Any:
        """What tells this transaction from others; see ``Kind.enter``."""
        if self._kind is None:
            return await self._run_sync(Stash.enter)
        return await self._kind.fetch(self._connection, WHICH_TRANSACTION, (), prepare=False)

    async def is_within(self, entered: Any) -> bool:
        """Whether it is still the transaction that was entered."""
        return bool(await self.enter() == entered)

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
            outside, doorbell = self._outside_transaction, self._doorbell
            return work(Stash(connection, self._table, outside, doorbell=doorbell))

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
