"""How a command connects to PostgreSQL: in autocommit, and every problem told in a line."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from windrow.config import Database, redact
from windrow.errors import Unreachable, WindrowError
from windrow.extras import require
from windrow.outbox.errors import DatabaseFailed

if TYPE_CHECKING:
    import psycopg


@contextmanager
def connect_postgres(database: Database) -> Iterator[psycopg.Connection[Any]]:
    """A connection for one command, which tells what the driver or the server says in a line.

    Raises:
        Unreachable: It refused, or did not answer within ``connect_timeout``.
        DatabaseFailed: A statement failed.
    """
    driver: Any = require("psycopg")
    try:
        # libpq counts whole seconds.
        connection = driver.connect(
            database.dsn.reveal(),
            connect_timeout=math.ceil(database.connect_timeout),
            autocommit=True,
        )
    except driver.Error as error:
        problem: WindrowError = Unreachable(
            "PostgreSQL", database.dsn.address, _line(database, error)
        )
    else:
        with connection:
            try:
                yield connection
            except driver.Error as error:
                problem = DatabaseFailed(_line(database, error))
            else:
                return
    # Raised out here so that the driver's error, which may quote the password, is not its context.
    raise problem


def _line(database: Database, error: Exception) -> str:
    first_line = str(error).partition("\n")[0].strip()
    return redact(database.dsn.hide_in(first_line))
