"""A collector that an SQLAlchemy session empties by itself, right before it commits."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from windrow.extras import require
from windrow.outbox.async_connections import async_kind_of
from windrow.outbox.collector import Collector
from windrow.outbox.connections import ancestry, kind_of
from windrow.outbox.stash import OutsideTransaction, Stash
from windrow.outbox.table import Table

if TYPE_CHECKING:
    from sqlalchemy.orm import Session, SessionTransaction


def session_of(connection: Any) -> Session | None:
    """The synchronous session behind it; None if it is not a session."""
    known = ancestry(type(connection))
    if ("sqlalchemy", "AsyncSession") in known:
        return connection.sync_session  # type: ignore[no-any-return]  # it is that class
    if ("sqlalchemy", "scoped_session") in known:
        return connection()  # type: ignore[no-any-return]
    return connection if ("sqlalchemy", "Session") in known else None


class SessionCollector(Collector):
    """Stashes before each commit of the session, and forgets what the session rolls back."""

    def __init__(
        self,
        connection: Any,
        session: Session,
        table: Table,
        outside_transaction: OutsideTransaction,
        doorbell: bool = False,
    ) -> None:
        super().__init__(connection, table, outside_transaction, doorbell)
        self._session = session
        self._collected_before: dict[SessionTransaction, int] = {}
        self._listeners = {
            "before_commit": self._on_before_commit,
            "after_transaction_create": self._on_transaction_begun,
            "after_soft_rollback": self._on_rolled_back,
            "after_transaction_end": self._on_transaction_ended,
        }
        for event, listener in self._listeners.items():
            require("sqlalchemy.event").listen(session, event, listener)

    def close(self) -> None:
        """Let go of the session: what is collected from here on stays where it is."""
        for event, listener in self._listeners.items():
            require("sqlalchemy.event").remove(self._session, event, listener)

    def __enter__(self) -> Self:
        kind_of(self._connection)  # refuses an asynchronous one
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
        if kind is None:
            self._write()

    async def __aenter__(self) -> Self:
        async_kind_of(self._connection)  # refuses a synchronous one
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
        if kind is None:
            await self._connection.run_sync(lambda session: self._write())

    def _write(self) -> None:
        if self._records:
            stash = Stash(self._session, self._table, self._outside_transaction, **self._options)
            stash.stash_many(self._records)
            self._records.clear()

    def _on_before_commit(self, session: Session) -> None:
        # The release of a savepoint comes by here as well, and later statements may take locks.
        if not session.in_nested_transaction():
            self._write()

    def _on_transaction_begun(self, session: Session, transaction: SessionTransaction) -> None:
        if transaction.nested:
            self._collected_before[transaction] = len(self._records)

    def _on_rolled_back(self, session: Session, transaction: SessionTransaction) -> None:
        # A savepoint that is not known is older than this collector.
        if transaction.nested:
            del self._records[self._collected_before.get(transaction, 0) :]

    def _on_transaction_ended(self, session: Session, transaction: SessionTransaction) -> None:
        if transaction.parent is None:
            self._records.clear()  # stashed before the commit, or rolled back, or abandoned
            self._collected_before.clear()
