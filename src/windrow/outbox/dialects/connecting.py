"""Connect to an outbox in MySQL or SQLite, and run what belongs together as one transaction."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from windrow.config import Dsn
from windrow.errors import Unreachable
from windrow.extras import require
from windrow.outbox.dialects.names import MYSQL, SQLITE, Dialect

PORT = 3306
_TIMEOUTS = ("innodb_lock_wait_timeout", "lock_wait_timeout")


def dialect_of(dsn: Dsn) -> Dialect | None:
    """Which of the two it is; None is PostgreSQL."""
    return {"mysql": MYSQL, "sqlite": SQLITE}.get(dsn.system)


@contextmanager
def connected(
    dsn: Dsn, connect_timeout: float, answer_timeout: float, *, create: bool = False
) -> Iterator[Any]:
    """A connection in autocommit, closed in the end; see ``connect``."""
    with closing(connect(dsn, connect_timeout, answer_timeout, create=create)) as connection:
        yield connection


def connect(
    dsn: Dsn, connect_timeout: float, answer_timeout: float, *, create: bool = False
) -> Any:
    """A connection in autocommit.

    Args:
        dsn: Of MySQL or SQLite.
        connect_timeout: How long to wait for it.
        answer_timeout: How long to wait for a statement; on SQLite, for other writers.
        create: Whether to make a file of SQLite that does not exist.

    Raises:
        Unreachable: It refused, or did not answer in time.
    """
    if dsn.system == "mysql":
        return _connect_mysql(dsn, connect_timeout, answer_timeout)
    path = Path(dsn.address).absolute()
    mode = "rwc" if create else "rw"
    try:
        connection = sqlite3.connect(
            f"{path.as_uri()}?mode={mode}",
            uri=True,
            timeout=answer_timeout,
            isolation_level=None,  # transactions begin where we say so
            check_same_thread=False,  # one thread at a time, not always the same one
        )
        connection.execute("PRAGMA user_version").close()  # a file of another kind is refused here
    except sqlite3.Error as error:
        raise Unreachable("SQLite", dsn.address, str(error)) from error
    return connection


def _connect_mysql(dsn: Dsn, connect_timeout: float, answer_timeout: float) -> Any:
    driver: Any = require("pymysql")
    # Whoever waits for a lock for longer than we wait for the answer would get it for nobody.
    patience = max(1, math.floor(answer_timeout / 2))
    settings = ", ".join(f"{name} = {patience}" for name in _TIMEOUTS)
    try:
        connection: Any = driver.connect(
            **mysql_arguments(dsn),
            charset="utf8mb4",
            autocommit=True,
            connect_timeout=max(1, math.ceil(connect_timeout)),
            read_timeout=answer_timeout,
            write_timeout=answer_timeout,
            init_command=f"SET {settings}, sql_mode = 'STRICT_ALL_TABLES'",
        )
        # At the level above, a claim would lock the gaps between rows too, and writers with them.
        run(connection, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        return connection
    except driver.Error as error:
        problem = Unreachable("MariaDB or MySQL", dsn.address, dsn.hide_in(_said(error)))
    raise problem  # out here, so that the driver's error is not its context


def version_of(connection: Any, dialect: Dialect) -> str:
    """Which release answers."""
    function = "sqlite_version()" if dialect is SQLITE else "VERSION()"
    ((version,),) = run(connection, f"SELECT {function}")
    return str(version)


def mysql_arguments(dsn: Dsn) -> dict[str, Any]:
    """What ``pymysql.connect`` wants to know."""
    parts = urlsplit(dsn.reveal())
    options = dict(parse_qsl(parts.query))
    arguments: dict[str, Any] = {
        "host": parts.hostname or "localhost",
        "port": parts.port or PORT,
        "user": unquote(parts.username or ""),
        "password": unquote(parts.password or ""),
        "database": unquote(parts.path.removeprefix("/")) or None,
    }
    kept = ("unix_socket", "ssl_ca")
    return arguments | {name: options[name] for name in kept if name in options}


@contextmanager
def transaction(connection: Any, dialect: Dialect) -> Iterator[None]:
    """What is inside is done as a whole, or not at all.

    On SQLite it takes the right to write at once: to ask for it later can fail at any statement.
    """
    run(connection, "BEGIN IMMEDIATE" if dialect is SQLITE else "BEGIN")
    try:
        yield
        run(connection, "COMMIT")
    except BaseException:
        with suppress(Exception):  # a connection that is lost rolls back by itself
            run(connection, "ROLLBACK")
        raise


def run(
    connection: Any, sql: str, parameters: tuple[Any, ...] | None = None
) -> list[tuple[Any, ...]]:
    """Run a statement and return the rows it gives.

    To PyMySQL a percent sign is itself where there are no parameters, not even an empty tuple.
    """
    with closing(connection.cursor()) as cursor:
        cursor.execute(sql, *(() if parameters is None else (parameters,)))
        return list(cursor.fetchall())


def _said(error: Exception) -> str:
    """What the driver says, without the number that comes first in its arguments."""
    return " ".join(str(error.args[-1] if error.args else error).split())
