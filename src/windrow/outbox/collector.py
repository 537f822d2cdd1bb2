"""Keep records until every lock of the transaction is taken, then stash them all at once.

An id that is drawn before its key's lock can be smaller than that of the transaction which had the
lock first: both rows seen together would leave in the wrong order. Drawn at the end, it cannot.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Any, Self

from windrow.outbox.errors import TransactionEnded
from windrow.outbox.record import Record
from windrow.outbox.stash import AsyncStash, OutsideTransaction, Stash
from windrow.outbox.table import Table


class Collector:
    """Records on their way to the outbox, in the order in which they were collected."""

    def __init__(
        self,
        connection: Any,
        table: Table,
        outside_transaction: OutsideTransaction,
        doorbell: bool = False,
    ) -> None:
        self._connection, self._table = connection, table
        self._outside_transaction = outside_transaction
        self._options = {"prepare": False, "doorbell": doorbell}
        self._records: list[Record] = []
        self._transaction: Any = None

    def stash(self, record: Record) -> None:
        """Keep a record for the end of the transaction."""
        self._records.append(record)

    def stash_many(self, records: Iterable[Record]) -> None:
        """Keep records for the end of the transaction."""
        self._records.extend(records)

    def __enter__(self) -> Self:
        stash = self._stash()
        stash.check()
        self._transaction = stash.enter()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        records, self._records = self._records, []
        if kind is None and records:
            stash = self._stash()
            self._compare(stash.is_within(self._transaction), len(records))
            stash.stash_many(records)

    async def __aenter__(self) -> Self:
        stash = self._async_stash()
        await stash.check()
        self._transaction = await stash.enter()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        records, self._records = self._records, []
        if kind is None and records:
            stash = self._async_stash()
            self._compare(await stash.is_within(self._transaction), len(records))
            await stash.stash_many(records)

    def _compare(self, is_within: bool, count: int) -> None:
        """Refuse to stash in another transaction than the one that was entered.

        Where it was allowed to have none, each statement is one of its own.
        """
        if not is_within and self._outside_transaction == "refuse":
            raise TransactionEnded(count)

    def _stash(self) -> Stash:
        return Stash(self._connection, self._table, self._outside_transaction, **self._options)

    def _async_stash(self) -> AsyncStash:
        return AsyncStash(self._connection, self._table, self._outside_transaction, **self._options)
