"""``windrow init``, ``migrate`` and ``check`` where the outbox is in MySQL or SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from windrow.config import Database, redact
from windrow.extras import require
from windrow.outbox.dialects import schema
from windrow.outbox.dialects.connecting import connected
from windrow.outbox.dialects.names import MYSQL, Dialect
from windrow.outbox.dialects.schema import script
from windrow.outbox.errors import DatabaseFailed, PostgresOnly, WrongSchema
from windrow.outbox.health import Finding
from windrow.outbox.schema import Migration
from windrow.outbox.table import Table

__all__ = ["check", "init", "migrate", "refuse", "script"]


def refuse(options: Mapping[str, bool], dialect: Dialect) -> None:
    """Refuse options that mean nothing here.

    Raises:
        PostgresOnly: One of them was given.
    """
    for option, is_given in options.items():
        if is_given:
            raise PostgresOnly(option, dialect.title)


def init(database: Database, dialect: Dialect, table: Table) -> list[Migration]:
    """Create the outbox; returns the steps taken."""
    with _told(database, dialect, create=True) as connection:
        return schema.migrate(connection, dialect, table)


def migrate(
    database: Database, dialect: Dialect, table: Table, *, dry_run: bool
) -> list[Migration]:
    """Apply what is missing, or only say what that is.

    Raises:
        WrongSchema: There is no outbox.
    """
    with _told(database, dialect) as connection:
        if not schema.columns_of(connection, dialect, table):
            raise WrongSchema(str(table), "does not exist", "windrow init")
        act = schema.pending if dry_run else schema.migrate
        return act(connection, dialect, table)


def check(database: Database, dialect: Dialect, table: Table) -> list[Finding]:
    """What is off with the outbox."""
    with _told(database, dialect) as connection:
        return schema.check(connection, dialect, table)


@contextmanager
def _told(database: Database, dialect: Dialect, *, create: bool = False) -> Iterator[Any]:
    """A connection for one command, which tells what the driver or the server says in a line.

    Raises:
        Unreachable: It refused, or did not answer in time.
        DatabaseFailed: A statement failed.
    """
    error_type: Any = require("pymysql").Error if dialect is MYSQL else sqlite3.Error
    timeouts = database.connect_timeout, database.answer_timeout
    try:
        with connected(database.dsn, *timeouts, create=create) as connection:
            yield connection
            return
    except error_type as error:
        said = str(error.args[-1] if error.args else error)
        problem = DatabaseFailed(redact(database.dsn.hide_in(said)))
    # Raised out here so that the driver's error, which may quote a secret, is not its context.
    raise problem
