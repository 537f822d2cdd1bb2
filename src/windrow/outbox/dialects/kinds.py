"""Connections of PyMySQL and sqlite3: how they stash, and whether they would commit by themselves.

The ids of one INSERT follow each other: SQLite has one writer at a time, and InnoDB draws the ids
of an INSERT whose rows it can count at once, whatever its lock mode.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from typing import Any

from windrow.extras import require
from windrow.outbox.dialects.insert import MAX_BYTES, MAX_RECORDS, insert_statement
from windrow.outbox.dialects.names import MYSQL, SQLITE
from windrow.outbox.errors import WrongSchema
from windrow.outbox.record import Record
from windrow.outbox.statement import ParamStyle, in_chunks
from windrow.outbox.table import Table

IN_TRANSACTION = 1
"""MySQL's server status: a BEGIN was sent, or a statement has begun a transaction."""
NO_TABLE, NO_COLUMN, NO_SAVEPOINT = 1146, 1054, 1305


class PyMySQLKind:
    """PyMySQL's connection, with or without autocommit."""

    def style(self, connection: Any) -> ParamStyle:  # noqa: D102 - see Kind
        return "format"

    def is_autonomous(self, connection: Any) -> bool:  # noqa: D102 - see Kind
        is_open = connection.server_status & IN_TRANSACTION
        return bool(connection.get_autocommit()) and not is_open

    def insert(  # noqa: D102 - see Kind
        self, connection: Any, table: Table, records: Sequence[Record], prepare: bool
    ) -> list[int]:
        ids: list[int] = []
        with _mysql_cursor(connection) as cursor:
            for chunk in in_chunks(records, MAX_RECORDS, MAX_BYTES):
                try:
                    cursor.execute(*insert_statement(MYSQL, table, chunk))
                except require("pymysql").Error as error:
                    _explain(error, error.args[:1], table)
                    raise
                first, step = cursor.lastrowid, 1 if len(chunk) == 1 else _step(cursor)
                ids += [first + step * number for number in range(len(chunk))]
        return ids

    def enter(self, connection: Any) -> str:  # noqa: D102 - see Kind
        # A transaction that ends takes its savepoints along.
        savepoint = f"windrow_{secrets.token_hex(4)}"
        if not self.is_autonomous(connection):
            with _mysql_cursor(connection) as cursor:
                cursor.execute(f"SAVEPOINT {savepoint}")
        return savepoint

    def is_within(self, connection: Any, entered: Any) -> bool:  # noqa: D102 - see Kind
        try:
            with _mysql_cursor(connection) as cursor:
                cursor.execute(f"RELEASE SAVEPOINT {entered}")
        except require("pymysql").Error as error:
            if error.args[:1] == (NO_SAVEPOINT,):
                return False
            raise
        return True


class SQLiteKind:
    """sqlite3's connection, whether it begins transactions by itself or is told to."""

    def style(self, connection: sqlite3.Connection) -> ParamStyle:  # noqa: D102 - see Kind
        return "qmark"

    def is_autonomous(self, connection: sqlite3.Connection) -> bool:  # noqa: D102 - see Kind
        if connection.in_transaction:
            return False
        mode = getattr(connection, "autocommit", None)  # since Python 3.12
        return mode if isinstance(mode, bool) else connection.isolation_level is None

    def insert(  # noqa: D102 - see Kind
        self, connection: sqlite3.Connection, table: Table, records: Sequence[Record], prepare: bool
    ) -> list[int]:
        ids: list[int] = []
        with closing(connection.cursor()) as cursor:
            for chunk in in_chunks(records, MAX_RECORDS, MAX_BYTES):
                try:
                    cursor.execute(*insert_statement(SQLITE, table, chunk))
                except sqlite3.OperationalError as error:
                    _explain(error, _numbers(error), table)
                    raise
                last = cursor.lastrowid or 0
                ids += range(last - len(chunk) + 1, last + 1)
        return ids

    def enter(self, connection: sqlite3.Connection) -> str:  # noqa: D102 - see Kind
        savepoint = f"windrow_{secrets.token_hex(4)}"
        if not self.is_autonomous(connection):
            if not connection.in_transaction:  # begin one as the driver would, later on
                connection.execute(f"BEGIN {connection.isolation_level or ''}")
            connection.execute(f"SAVEPOINT {savepoint}")
        return savepoint

    def is_within(self, connection: sqlite3.Connection, entered: Any) -> bool:  # noqa: D102
        try:
            connection.execute(f"RELEASE SAVEPOINT {entered}")
        except sqlite3.OperationalError as error:
            if "no such savepoint" in str(error):
                return False
            raise
        return True


def _mysql_cursor(connection: Any) -> Any:
    """A plain cursor, whatever kind the caller has chosen for itself."""
    return connection.cursor(require("pymysql.cursors").Cursor)


def _step(cursor: Any) -> int:
    """How far apart ids are: servers of a cluster each have their own."""
    cursor.execute("SELECT @@auto_increment_increment")
    return int(cursor.fetchone()[0])


def _numbers(error: sqlite3.OperationalError) -> tuple[int, ...]:
    """SQLite has no numbers for these."""
    text = str(error)
    if text.startswith("no such table"):
        return (NO_TABLE,)
    return (NO_COLUMN,) if "has no column named" in text else ()


def _explain(error: Exception, numbers: tuple[Any, ...], table: Table) -> None:
    """Raise what it says about the outbox; return if it is about something else."""
    if numbers == (NO_TABLE,):
        raise WrongSchema(str(table), "does not exist", "windrow init") from error
    if numbers == (NO_COLUMN,):
        raise WrongSchema(str(table), "lacks a column of an outbox", "windrow check") from error
