"""One connection to PostgreSQL that comes back by itself.

Behind a transaction pooler nothing may stay on the server between two transactions: there every
setting travels with its statement, and statements are not prepared.

A statement whose answer does not come in time is given up: the link is shut and the session makes a
new one. What was given up may still be on its way, so the server is asked to end by itself what
nobody waits for any more: it would hold locks that a successor needs.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from windrow.errors import Unreachable
from windrow.extras import require
from windrow.outbox.errors import DatabaseFailed, PostgresOnly
from windrow.outbox.stores.id_array import INT8_ARRAY, Ids, encode, teach
from windrow.outbox.stores.watchdog import watchdog

if TYPE_CHECKING:
    import psycopg
    from psycopg.pq.abc import PGresult

Settings = dict[str, str]

PLAN: Settings = {
    # On a table analysed while it was empty the planner would scan and sort the whole of it.
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_sort": "off",
    # A backlog makes a read look dear enough to be compiled, each time anew: that takes longer
    # than the read itself.
    "jit": "off",
    # PostgreSQL puts by what a mark returns until its last row is written: in memory, not on disk.
    "work_mem": "32768",
}
LAZY_COMMIT: Settings = {"synchronous_commit": "off"}
DURABLE_COMMIT: Settings = {"synchronous_commit": "on"}
LEFT_BEHIND: Settings = {
    # A client that sleeps in the middle of a transaction, or of reading an answer, holds the fence:
    # nobody could take over while it sleeps.
    "idle_in_transaction_session_timeout": "3000",
    "tcp_user_timeout": "3000",
    # A statement that waits for a lock goes on waiting though its client has hung up.
    "client_connection_check_interval": "1000",
}
ANSWER_TIMEOUT = 10.0
BINARY = 1
"""libpq's name for parameters and results in binary form."""
OTHER_SYSTEMS = {"mysql": "MySQL", "mariadb": "MariaDB", "sqlite": "SQLite"}


class Session:
    """One connection with its settings, made when it is first needed, made anew when it is lost.

    Belongs to one thread; only ``interrupt`` may be called from another.
    """

    def __init__(
        self,
        dsn: str,
        settings: Settings,
        *,
        connect_timeout: float = 5.0,
        answer_timeout: float = ANSWER_TIMEOUT,
        pooler: bool = False,
    ) -> None:
        system = dsn.strip().partition(":")[0]
        if system in OTHER_SYSTEMS:  # libpq would quote it whole, with its password
            raise PostgresOnly("this command", OTHER_SYSTEMS[system])
        self.answer_timeout = answer_timeout
        """How long the answer to a statement is waited for."""
        self.answer_due: float | None = None
        self._dsn = dsn
        self._settings = settings | LEFT_BEHIND
        self._connect_timeout = connect_timeout
        self._pooler = pooler
        self._connection: psycopg.Connection[Any] | None = None
        self._prepared: dict[str, bytes] = {}
        """What ``run_with_ids`` has prepared on this connection, and under which name."""
        self._was_given_up = False

    def run(self, query: str, parameters: dict[str, Any]) -> psycopg.Cursor[Any]:
        """Run one statement as one transaction, and fetch nothing yet.

        Raises:
            Unreachable: There was no connection, and none could be made.
            DatabaseFailed: The statement failed, or the link broke and it may have been applied.
        """
        connection = self._connection or self._connect()
        error_type: type[Exception] = require("psycopg").Error
        self._expect_answer()
        try:
            if self._pooler:
                return self._run_pooled(connection, query, parameters)
            return connection.execute(query, parameters, binary=True)
        except error_type as error:
            raise self._lost(error) from error
        finally:
            self.answer_due = None

    def run_with_ids(self, query: str, ids: Sequence[int]) -> int:
        """Run a statement of which ``%(ids)s`` is the only parameter; returns how many it hit.

        By libpq itself: the driver takes as long over a statement as the server does, and that is
        a good part of what a hot key waits for. Not through a pooler, which may hand the next
        statement to a server that has prepared nothing.

        Raises:
            Unreachable: There was no connection, and none could be made.
            DatabaseFailed: The statement failed, or the link broke and it may have been applied.
        """
        if self._pooler:
            return self.run(query, {"ids": Ids(ids)}).rowcount
        libpq = (self._connection or self._connect()).pgconn
        error_type: type[Exception] = require("psycopg").Error
        self._expect_answer()
        try:
            if query not in self._prepared:
                self._prepared[query] = b"windrow_%d" % len(self._prepared)
                self._check(libpq.prepare(self._prepared[query], _numbered(query), [INT8_ARRAY]))
            result = libpq.exec_prepared(self._prepared[query], [encode(ids)], [BINARY], BINARY)
            self._check(result)
            return result.command_tuples or 0
        except error_type as error:
            raise self._lost(error) from error
        finally:
            self.answer_due = None

    def _check(self, result: PGresult) -> None:
        if result.status != require("psycopg.pq").ExecStatus.COMMAND_OK:
            raise require("psycopg.errors").error_from_result(result, encoding="utf-8")

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
            self._expect_answer()
            return connection.execute(query, parameters, binary=True)

        self._expect_answer()
        try:
            with connection.transaction():
                if self._pooler:
                    connection.execute(_for_this_transaction(self._settings))
                yield run
                self._expect_answer()
        except error_type as error:
            raise self._lost(error) from error
        finally:
            self.answer_due = None

    def _run_pooled(
        self, connection: psycopg.Connection[Any], query: str, parameters: dict[str, Any]
    ) -> psycopg.Cursor[Any]:
        with connection.transaction(), connection.pipeline():
            connection.execute(_for_this_transaction(self._settings))
            return connection.cursor(binary=True).execute(query, parameters)

    def _connect(self) -> psycopg.Connection[Any]:
        driver = require("psycopg")
        self._was_given_up = False
        try:
            connection: psycopg.Connection[Any] = driver.connect(
                self._dsn,
                autocommit=True,
                connect_timeout=max(1, round(self._connect_timeout)),
                prepare_threshold=None if self._pooler else 1,
                client_encoding="utf8",
            )
            self._connection = connection
            watchdog.watch(self)
            self._prepare(connection)
        except driver.Error as error:
            reason = self._lost(error).reason
            raise Unreachable("PostgreSQL", _address(self._dsn), reason) from error
        finally:
            self.answer_due = None
        return connection

    def _prepare(self, connection: psycopg.Connection[Any]) -> None:
        # Values go to the target as they are: decoding them to str and back would be for nothing.
        as_bytes = require("psycopg.types.string").ByteaBinaryLoader
        connection.adapters.register_loader("varchar", as_bytes)
        teach(connection)
        if not self._pooler:
            self._expect_answer()
            connection.execute(
                "; ".join(f"SET {name} = {value}" for name, value in self._settings.items())
            )

    def _expect_answer(self) -> None:
        self.answer_due = time.monotonic() + self.answer_timeout

    def _lost(self, error: Exception) -> DatabaseFailed:
        """What is wrong, with the connection closed: a new one is in a known state."""
        self.close()
        if self._was_given_up:
            return DatabaseFailed(f"no answer within {self.answer_timeout:g} s")
        return DatabaseFailed(_reason(error))

    def give_up(self) -> None:
        """The answer is overdue: wait for it no longer."""
        self._was_given_up = True
        self.interrupt()

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
        watchdog.release(self)
        connection, self._connection = self._connection, None
        self._prepared.clear()
        if connection is not None:
            connection.close()


def _numbered(query: str) -> bytes:
    """As the server wants it: the driver's marks for parameters are its own."""
    return query.replace("%(ids)s", "$1").replace("%%", "%").encode()


def _for_this_transaction(settings: Settings) -> str:
    calls = (f"set_config('{name}', '{value}', true)" for name, value in settings.items())
    return f"SELECT {', '.join(calls)}"


def _address(dsn: str) -> str:
    parts = require("psycopg.conninfo").conninfo_to_dict(dsn)
    host = parts.get("host") or parts.get("hostaddr") or "the local socket"
    return f"{host}:{parts.get('port') or 5432}/{parts.get('dbname') or ''}"


def _reason(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
