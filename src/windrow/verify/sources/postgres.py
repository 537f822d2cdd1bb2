"""The rows of a query on PostgreSQL, by a cursor: many at a time, as the text of the server."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from windrow.config import Dsn
from windrow.errors import Unreachable, WindrowError
from windrow.extras import require
from windrow.verify.columns.batches import make_batch
from windrow.verify.errors import BadQuery, UnreadableSource
from windrow.verify.sources.queries import check_columns, first_line

BLOCK: Final = 1024 * 1024
"""Bytes of keys and ids to hold at a time, as far as the last rows tell how long they are."""
FIRST_ROWS: Final = 100
MOST_ROWS: Final = 1 << 16
_ASKED_WRONGLY: Final = ("22", "25", "42")
"""Classes of errors that are about the query: its data, its wish to write, its names."""


class PostgresQuery:
    """A query of keys and ids, run in a transaction that cannot write."""

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
        driver: Any = require("psycopg")
        connection = self._connect(driver)
        try:
            yield from self._read(connection)
        except driver.Error as error:
            problem = self._problem(error)
        else:
            return
        finally:
            connection.close()
        raise problem  # out here, so that the driver's error, which may quote a DSN, is not told

    def _connect(self, driver: Any) -> Any:
        try:
            return driver.connect(self._dsn.reveal(), connect_timeout=self._connect_timeout)
        except driver.Error as error:
            reason = self._dsn.hide_in(first_line(error))
        raise Unreachable("PostgreSQL", self._dsn.address, reason)

    def _read(self, connection: Any) -> Iterator[pa.RecordBatch]:
        connection.read_only = True
        cursor = connection.cursor()
        described = cursor.execute(f"SELECT * FROM ({self._query}\n) AS source LIMIT 0").description
        check_columns(self._name, len(described))
        # All rows are wanted, not the first ones soon, for which cursors are planned otherwise.
        cursor.execute("SET LOCAL cursor_tuple_fraction = 1.0")
        cursor.execute(f"DECLARE records NO SCROLL CURSOR FOR ({self._query}\n)")
        read, rows = 0, FIRST_ROWS
        while True:
            cursor.execute(f"FETCH {rows} FROM records", prepare=False)
            columns = _columns(cursor.pgresult, len(described))
            if not len(columns[-1]):
                return
            batch = make_batch(
                self._name, read, columns[0] if len(columns) == 2 else None, columns[-1]
            )
            yield batch
            read += len(batch)
            rows = rows_of(BLOCK, len(batch), batch.nbytes)

    def _problem(self, error: Any) -> WindrowError:
        said = self._dsn.hide_in(first_line(error))
        if error.sqlstate is not None and error.sqlstate[:2] in _ASKED_WRONGLY:
            return BadQuery(self._name, said)
        return UnreadableSource(self._name, said)


def rows_of(block: int, rows: int, size: int) -> int:
    """How many rows to ask for next, for a block of so many bytes, when ``rows`` had ``size``."""
    return min(MOST_ROWS, max(1, block * rows // max(1, size)))


def _columns(result: Any, columns: int) -> list[pa.Array]:
    """The values as the server wrote them, as text.

    Straight from libpq's memory: psycopg would make objects of their types first, and by COPY each
    row would come as a message of its own, at four times the cost.
    """
    value, rows = result.get_value, range(result.ntuples)
    return [pa.array([value(row, n) for row in rows], pa.binary()) for n in range(columns)]
