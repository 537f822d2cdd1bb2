"""One connection to PostgreSQL that comes back by itself.

Behind a transaction pooler nothing may stay on the server between two transactions: there every
setting travels with its statement, and statements are not prepared.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from windrow.errors import Unreachable
from windrow.extras import require
from windrow.outbox.errors import DatabaseFailed

if TYPE_CHECKING:
    import psycopg

Settings = dict[str, str]

PLAN: Settings = {
    # On a table analysed while it was empty the planner would scan and sort the whole of it.
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_sort": "off",
}
LAZY_COMMIT: Settings = {"synchronous_commit": "off"}
DURABLE_COMMIT: Settings = {"synchronous_commit": "on"}


class Session:
    """One connection with its settings, made when it is first needed, made anew when it is lost.

    Belongs to one thread; only ``interrupt`` may be called from another.
    """

    def __init__(
        self, dsn: str, settings: Settings, *, connect_timeout: float = 5.0, pooler: bool = False
    ) -> None:
        self._dsn = dsn
        self._settings = settings
        self._connect_timeout = connect_timeout
        self._pooler = pooler
        self._connection: psycopg.Connection[Any] | None = None

    def run(self, query: str, parameters: dict[str, Any]) -> psycopg.Cursor[Any]:
        """Run one statement as one transaction, and fetch nothing yet.

        Raises:
            Unreachable: There was no connection, and none could be made.
            DatabaseFailed: The statement failed, or the link broke and it may have been applied.
        """
        connection = self._connection or self._connect()
        error_type: type[Exception] = require("psycopg").Error
        try:
            if self._pooler:
                return self._run_pooled(connection, query, parameters)
            return connection.execute(query, parameters, binary=True)
        except error_type as error:
            # Whatever state it is in, a new connection is in a known one.
            self.close()
            raise DatabaseFailed(_reason(error)) from error

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Callable[[str, dict[str, Any]], psycopg.Cursor[Any]]]:
        """Run several statements as one transaction; an error inside undoes them all.

        Raises:
            Unreachable: There was no connection, and none could be made.
            DatabaseFailed: A statement or the commit failed; it may have been applied.
        """
        connection = self._connection or self._connect()
        error_type: type[Exception] = require("psycopg").Error

        def run(query: str, parameters: dict[str, Any]) -> psycopg.Cursor[Any]:
            return connection.execute(query, parameters, binary=True)

        try:
            with connection.transaction():
                if self._pooler:
                    for name, value in self._settings.items():
                        connection.execute(f"SET LOCAL {name} = {value}")
                yield run
        except error_type as error:
            self.close()
            raise DatabaseFailed(_reason(error)) from error

    def _run_pooled(
        self, connection: psycopg.Connection[Any], query: str, parameters: dict[str, Any]
    ) -> psycopg.Cursor[Any]:
        with connection.transaction(), connection.pipeline():
            for name, value in self._settings.items():
                connection.execute(f"SET LOCAL {name} = {value}")
            return connection.cursor(binary=True).execute(query, parameters)

    def _connect(self) -> psycopg.Connection[Any]:
        driver = require("psycopg")
        try:
            connection: psycopg.Connection[Any] = driver.connect(
                self._dsn,
                autocommit=True,
                connect_timeout=max(1, round(self._connect_timeout)),
                prepare_threshold=None if self._pooler else 1,
                client_encoding="utf8",
            )
        except driver.OperationalError as error:
            raise Unreachable("PostgreSQL", _address(self._dsn), _reason(error)) from error
        # Values go to the target as they are: decoding them to str and back would be for nothing.
        as_bytes = require("psycopg.types.string").ByteaBinaryLoader
        connection.adapters.register_loader("varchar", as_bytes)
        if not self._pooler:
            for name, value in self._settings.items():
                connection.execute(f"SET {name} = {value}")
        self._connection = connection
        return connection

    def interrupt(self) -> None:
        """Break a statement that hangs on a dead link: its thread gets ``DatabaseFailed``."""
        connection = self._connection
        if connection is None:
            return
        with contextlib.suppress(Exception):  # it may be closing at this very moment
            descriptor = os.dup(connection.fileno())
            with socket.socket(fileno=descriptor) as link:
                link.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection, if there is one; the next statement makes a new one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _address(dsn: str) -> str:
    parts = require("psycopg.conninfo").conninfo_to_dict(dsn)
    host = parts.get("host") or parts.get("hostaddr") or "the local socket"
    return f"{host}:{parts.get('port') or 5432}/{parts.get('dbname') or ''}"


def _reason(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
