"""A table as a target: rows and the high-water in one transaction.

The high-water is a row of ``windrow_progress``, which is made on demand. A transaction begins with
the compare-and-set of that row: whoever comes second waits for the first and then finds another
body than it expected, before it has written anything.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from windrow.errors import Unreachable
from windrow.extras import require
from windrow.graph.delivery_steps import DeliveredMismatched, DeliveredMoved, Unknown
from windrow.graph.high_water import Delivered, HighWaters
from windrow.graph.sink_rows import SinkRow
from windrow.graph.sink_task import Mismatched, WriterFenced, WriteUnknown, Written
from windrow.graph.snapshot import ProcessorUid, canonical
from windrow.outbox.table import Table, in_format
from windrow.spark.places import Place
from windrow.spark.targets.errors import RowRefused, TargetUnusable, WriteFailed
from windrow.spark.targets.postgres_rows import TableOptions, one_by_one, statements
from windrow.spark.targets.rows import position_text

if TYPE_CHECKING:
    import psycopg

    from windrow.config import Dsn

T = TypeVar("T")

PROGRESS = "windrow_progress"
DELIVERED = -1
"""In place of a target: the record of what was delivered."""

CONNECT_TIMEOUT = 10
TRIES = 3
NO_TABLE = "it does not exist; create it first"
SETTINGS = (
    "SET synchronous_commit = on",
    # A task that is paused in its transaction must not keep its successor waiting for ever.
    "SET idle_in_transaction_session_timeout = '60s'",
    "SET lock_timeout = '90s'",
)


class PostgresTarget:
    """Writes rows to a table.

    Args:
        place: The table, with the options ``schema``, ``mode``, ``key`` and ``columns``.
    """

    def __init__(self, place: Place) -> None:
        require("psycopg")
        dsn = place.connections.postgres_dsn
        if dsn is None:
            raise TargetUnusable("table", place.address, "no database is configured")
        self._dsn: Dsn = dsn
        self._partitions = place.partitions or 1
        self._options = TableOptions.read(place.address, place.options)
        self._progress = Table(PROGRESS, self._options.table.schema)
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None
        self._shape: dict[str, str] = {}

    def targets(self) -> int:
        """How many tasks may write at a time: as many as were declared, or one."""
        return self._partitions

    # -- the high-water --------------------------------------------------------------------------

    def read_high_water(self, uid: ProcessorUid, target: int) -> HighWaters:
        """The marks that were committed."""
        body = self._read(uid, target)
        return HighWaters(uid, target) if body is None else HighWaters.from_json(json.loads(body))

    def write(
        self, rows: Sequence[SinkRow], expected: HighWaters, marks: HighWaters
    ) -> Written | Mismatched | WriteUnknown | WriterFenced:
        """Write the rows and the marks in one transaction, if the marks are the expected ones."""
        uid, target = expected.uid, expected.target
        old = None if expected.is_blank else _body(expected)
        try:
            moved = self._retried(lambda: self._move(uid, target, old, _body(marks), rows))
        except _CommitLost:
            return WriteUnknown()
        if moved:
            return Written()
        found = self.read_high_water(uid, target)
        return WriterFenced(marks.epoch, found.epoch) if found.epoch > marks.epoch else Mismatched()

    def fence(self, uid: ProcessorUid, epoch: int) -> Sequence[HighWaters]:
        """Write the epoch into the marks of every target; returns them."""
        return [self._fence(uid, target, epoch) for target in range(self._partitions)]

    def _fence(self, uid: ProcessorUid, target: int, epoch: int) -> HighWaters:
        while True:
            found = self.read_high_water(uid, target)
            owned = found.owned_by(epoch)
            if owned == found or isinstance(self.write((), found, owned), Written):
                return owned

    # -- the record of what was delivered --------------------------------------------------------

    def read_delivered(self, uid: ProcessorUid) -> Delivered | None:
        """The record as it was committed."""
        body = self._read(uid, DELIVERED)
        return None if body is None else Delivered.from_json(json.loads(body))

    def commit_delivered(
        self, expected: Delivered | None, delivered: Delivered
    ) -> DeliveredMoved | DeliveredMismatched | Unknown:
        """Move the record, if it is the expected one."""
        uid, new = delivered.uid, _body(delivered)
        old = None if expected is None else _body(expected)
        try:
            moved = self._retried(lambda: self._move(uid, DELIVERED, old, new, ()))
        except _CommitLost as error:
            return Unknown(str(error))
        if moved:
            return DeliveredMoved()
        found = self.read_delivered(uid)
        return DeliveredMoved() if found == delivered else DeliveredMismatched(found)

    def close(self) -> None:
        """End the connection; does nothing the second time."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    # -- transactions ----------------------------------------------------------------------------

    def _move(
        self, uid: ProcessorUid, target: int, old: str | None, new: str, rows: Sequence[SinkRow]
    ) -> bool:
        """One transaction: the compare-and-set first, then the rows."""
        connection = self._open()
        with connection.cursor() as cursor:
            cursor.execute(*self._compare_and_set(uid, target, old, new))
            if cursor.rowcount == 0:
                return False
            if rows:
                self._insert(connection, cursor, rows)
        self._commit(connection)
        return True

    def _compare_and_set(
        self, uid: ProcessorUid, target: int, old: str | None, new: str
    ) -> tuple[Any, tuple[Any, ...]]:
        name, table = _uid_text(uid), in_format(self._progress.sql)
        if old is None:
            sql = f"INSERT INTO {table} VALUES (%s, %s, %s) ON CONFLICT DO NOTHING"
            return sql, (name, target, new)
        sql = f"UPDATE {table} SET body = %s WHERE uid = %s AND target = %s AND body = %s"
        return sql, (new, name, target, old)

    def _insert(self, connection: Any, cursor: Any, rows: Sequence[SinkRow]) -> None:
        errors = require("psycopg")
        shape = self._columns(cursor)
        try:
            for statement in statements(rows, self._options, shape):
                cursor.execute(statement.sql, statement.parameters)
        except RowRefused:
            self._shape = {}  # the table may have another column by the next try
            raise
        except (errors.DataError, errors.IntegrityError, errors.ProgrammingError) as error:
            connection.rollback()
            raise self._refusal(rows, error) from error

    def _refusal(self, rows: Sequence[SinkRow], error: Exception) -> RowRefused:
        """Which row it was: each is tried by itself, and all of them are taken back."""
        errors = require("psycopg")
        position, reason = "one of its inputs", str(error)
        connection = self._open()
        with connection.cursor() as cursor:
            for statement in one_by_one(rows, self._options, self._columns(cursor)):
                try:
                    cursor.execute(statement.sql, statement.parameters)
                except errors.Error as found:
                    position, reason = position_text(statement.rows[0]), str(found)
                    break
        self._shape = {}
        return RowRefused(f"table {self._options.table}", position, " ".join(reason.split()))

    def _commit(self, connection: Any) -> None:
        """From here on until the answer nobody knows whether the transaction was made."""
        errors = require("psycopg")
        try:
            connection.commit()
        except errors.IntegrityError as error:  # a constraint that is looked at in the end
            raise RowRefused(f"table {self._options.table}", "its inputs", str(error)) from error
        except errors.Error as error:
            self.close()
            raise _CommitLost(self._dsn.hide_in(str(error))) from error

    def _read(self, uid: ProcessorUid, target: int) -> str | None:
        def read() -> str | None:
            connection = self._open()
            table = in_format(self._progress.sql)
            query: Any = f"SELECT body FROM {table} WHERE uid = %s AND target = %s"
            row = connection.execute(query, (_uid_text(uid), target)).fetchone()
            return None if row is None else str(row[0])

        return self._retried(read)

    def _retried(self, work: Callable[[], T]) -> T:
        """Do it again where it certainly did not happen: on a new connection, with the table."""
        errors = require("psycopg")
        is_missing = False
        for attempt in range(1, TRIES + 1):
            try:
                if is_missing:
                    self._create_progress()
                return work()
            except errors.errors.UndefinedTable as error:
                is_missing = True
                if attempt == TRIES:
                    raise TargetUnusable("table", str(self._options.table), NO_TABLE) from error
            except errors.OperationalError as error:
                if attempt == TRIES:
                    raise self._failure(error) from error
            except errors.Error as error:
                raise self._failure(error) from error
            finally:
                self._end_transaction()
        raise AssertionError("every try returns or raises")

    def _failure(self, error: Exception) -> Unreachable | WriteFailed:
        reason = self._dsn.hide_in(" ".join(str(error).split()))
        if self._connection is None or self._connection.closed:
            return Unreachable("PostgreSQL", self._dsn.address, reason)
        return WriteFailed(f"table {self._options.table}", reason)

    def _end_transaction(self) -> None:
        """Leave nothing open, neither a transaction nor a connection that is of no more use."""
        if self._connection is None:
            return
        with suppress(require("psycopg").Error):
            self._connection.rollback()
        if self._connection.closed:
            self.close()

    # -- the database ----------------------------------------------------------------------------

    def _open(self) -> psycopg.Connection[tuple[Any, ...]]:
        if self._connection is None or self._connection.closed:
            connect = require("psycopg").connect
            connection = connect(
                self._dsn.reveal(),
                connect_timeout=CONNECT_TIMEOUT,
                application_name="windrow",
            )
            for setting in SETTINGS:
                connection.execute(setting)
            connection.commit()
            self._connection = connection
        return self._connection

    def _create_progress(self) -> None:
        """Make the table; of two that do so at once, one waits for the other."""
        connection = self._open()
        create: Any = (
            f"CREATE TABLE IF NOT EXISTS {self._progress.sql} (uid text NOT NULL,"
            " target integer NOT NULL, body text NOT NULL, PRIMARY KEY (uid, target))"
        )
        connection.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (PROGRESS,))
        connection.execute(create)
        connection.commit()

    def _columns(self, cursor: Any) -> dict[str, str]:
        if not self._shape:
            cursor.execute(
                "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute"
                " WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped",
                (self._options.table.sql,),
            )
            self._shape = dict(cursor.fetchall())
        return self._shape


class _CommitLost(Exception):
    """The answer to a commit was lost."""


def _body(record: HighWaters | Delivered) -> str:
    return canonical(record.to_json()).decode()


def _uid_text(uid: ProcessorUid) -> str:
    return canonical(uid.to_json()).decode()
