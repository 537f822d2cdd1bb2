"""One connection to an outbox in MySQL or SQLite that comes back by itself."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from windrow.config import Dsn
from windrow.errors import Unreachable
from windrow.extras import require
from windrow.outbox.claims.sql import Statement
from windrow.outbox.dialects.connecting import connect, run, transaction
from windrow.outbox.dialects.names import MYSQL, Dialect
from windrow.outbox.errors import DatabaseFailed

T = TypeVar("T")
Rows = list[tuple[Any, ...]]
Run = Callable[[Statement], Rows]

TRIES = 5
UNDONE = (1205, 1213)
"""MySQL's numbers for a wait that was too long and for a deadlock: nothing was done."""


class ClaimSession:
    """Made when it is first needed, made anew when it is lost. Belongs to one thread at a time."""

    def __init__(
        self, dsn: Dsn, dialect: Dialect, connect_timeout: float, answer_timeout: float
    ) -> None:
        self.dialect = dialect
        self._dsn = dsn
        self._timeouts = connect_timeout, answer_timeout
        self._connection: Any = None

    def read(self, statement: Statement) -> Rows:
        """Run one statement that changes nothing."""
        return self._guarded(lambda connection: run(connection, *statement))

    def change(self, work: Callable[[Run], T]) -> T:
        """Do something as one transaction; what the database undid by itself is done again.

        Raises:
            Unreachable: There is no connection, or somebody else did not let go of the database.
            DatabaseFailed: It may have been done, or not.
        """

        def once(connection: Any) -> T:
            with transaction(connection, self.dialect):
                return work(lambda statement: run(connection, *statement))

        for number in range(1, TRIES + 1):
            try:
                return self._guarded(once, is_last=number == TRIES)
            except _Undone:
                continue
        raise AssertionError("the last try either ends or fails")

    def on_connection(self, work: Callable[[Any], T]) -> T:
        """Do something with the driver's connection itself."""
        return self._guarded(work)

    def close(self) -> None:
        """Close the connection, if there is one; the next statement makes a new one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):  # it may be lost already
                connection.close()

    def _guarded(self, work: Callable[[Any], T], *, is_last: bool = True) -> T:
        if self._connection is None:
            self._connection = connect(self._dsn, *self._timeouts)
        try:
            return work(self._connection)
        except self._error_type as error:
            if self._is_undone(error):
                if not is_last:
                    raise _Undone from error
                raise Unreachable(self.dialect.title, self._dsn.address, _said(error)) from error
            self.close()
            raise DatabaseFailed(self._dsn.hide_in(_said(error))) from error

    @property
    def _error_type(self) -> type[Exception]:
        error: type[Exception] = (
            require("pymysql").Error if self.dialect is MYSQL else sqlite3.Error
        )
        return error

    def _is_undone(self, error: Exception) -> bool:
        if self.dialect is MYSQL:
            return bool(error.args) and error.args[0] in UNDONE
        # It waited for as long as it may: to try at once once more would only double that.
        return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY


class _Undone(Exception):
    """Nothing was done, and it may be tried again."""


def _said(error: Exception) -> str:
    return " ".join(str(error.args[-1] if error.args else error).split()) or type(error).__name__
