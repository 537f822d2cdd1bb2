"""The rows of a query on MariaDB, MySQL or SQLite: what their drivers give, many at a time."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from windrow.config import Dsn
from windrow.errors import Unreachable, WindrowError
from windrow.extras import require
from windrow.outbox.dialects.connecting import mysql_arguments
from windrow.verify.columns.batches import column_of, make_batch
from windrow.verify.errors import BadQuery, UnreadableSource
from windrow.verify.sources.queries import check_columns, first_line

ROWS: Final = 1 << 10
"""Asked for at a time: so few are turned into columns while the processor's cache has them."""
BATCH: Final = 1 << 16
_LOST: Final = (2006, 2013, 1053, 1927)
"""MySQL's numbers for a connection that is gone."""


class SqliteQuery:
    """A query on a file of SQLite, which is opened for reading."""

    def __init__(self, dsn: Dsn, query: str, name: str) -> None:
        self._path, self._query, self._name = dsn.address, query, name

    def __str__(self) -> str:
        return self._name

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows in their order.

        Raises:
            Unreachable: There is no such file, or it is none of SQLite's.
            BadQuery: It does not understand the query.
        """
        with closing(self._connect()) as connection:
            try:
                yield from _rows(self._name, connection.cursor(), self._query)
            except sqlite3.Error as error:
                raise BadQuery(self._name, str(error)) from error

    def _connect(self) -> sqlite3.Connection:
        try:
            uri = f"{Path(self._path).absolute().as_uri()}?mode=ro"
            connection = sqlite3.connect(uri, uri=True, check_same_thread=False)
            connection.execute("PRAGMA schema_version").close()
            connection.text_factory = bytes  # which is what is compared
        except sqlite3.Error as error:
            raise Unreachable("SQLite", self._path, str(error)) from error
        return connection


class MysqlQuery:
    """A query on MariaDB or MySQL, whose rows stay with the server until they are asked for."""

    def __init__(self, dsn: Dsn, query: str, name: str, connect_timeout: float) -> None:
        self._dsn, self._query, self._name = dsn, query, name
        self._connect_timeout = math.ceil(connect_timeout)

    def __str__(self) -> str:
        return self._name

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows in their order.

        Raises:
            Unreachable: The database refused, or did not answer.
            BadQuery: It does not understand the query.
            UnreadableSource: It broke off.
        """
        driver: Any = require("pymysql")
        cursors: Any = require("pymysql.cursors")
        with closing(self._connect(driver)) as connection:
            try:
                with connection.cursor() as cursor:
                    cursor.execute("START TRANSACTION READ ONLY")
                rows = cursors.SSCursor(connection)
                yield from _rows(self._name, rows, self._query)
            except driver.Error as error:
                problem = self._problem(error)
            else:
                return
            finally:
                _give_up_rest(connection)
        raise problem

    def _connect(self, driver: Any) -> Any:
        try:
            return driver.connect(
                **mysql_arguments(self._dsn),
                charset="utf8mb4",
                connect_timeout=max(1, self._connect_timeout),
            )
        except driver.Error as error:
            reason = self._dsn.hide_in(first_line(error))
        raise Unreachable("MariaDB or MySQL", self._dsn.address, reason)

    def _problem(self, error: Any) -> WindrowError:
        said = self._dsn.hide_in(first_line(error))
        is_lost = bool(error.args) and error.args[0] in _LOST
        return (UnreadableSource if is_lost else BadQuery)(self._name, said)


def _give_up_rest(connection: Any) -> None:
    """Have nobody wait for the rows that are still to come: PyMySQL would read them to the end."""
    result = getattr(connection, "_result", None)
    if result is not None:
        result.unbuffered_active = False


def _rows(name: str, cursor: Any, query: str) -> Iterator[pa.RecordBatch]:
    cursor.execute(query)
    columns = len(cursor.description)
    check_columns(name, columns)
    read = 0
    for pieces in _pieces(cursor):
        found = [pa.concat_arrays(column) for column in zip(*pieces, strict=True)]
        yield make_batch(name, read, found[0] if columns == 2 else None, found[-1])
        read += len(found[-1])


def _pieces(cursor: Any) -> Iterator[list[list[pa.Array]]]:
    """Columns of a few rows each, as many together as make a batch."""
    pieces: list[list[pa.Array]] = []
    while rows := cursor.fetchmany(ROWS):
        pieces.append([column_of(column) for column in zip(*rows, strict=True)])
        if len(pieces) == BATCH // ROWS:
            yield pieces
            pieces = []
    if pieces:
        yield pieces
