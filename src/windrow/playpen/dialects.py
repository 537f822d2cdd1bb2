"""What differs between the databases that heroes live in: drivers, marks, types, and errors."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from typing import Any, ClassVar, Protocol

from windrow.config import Dsn
from windrow.config.redaction import redact
from windrow.errors import Unreachable
from windrow.extras import require
from windrow.outbox.dialects.connecting import connect, run
from windrow.outbox.dialects.connecting import dialect_of as other_dialect
from windrow.outbox.dialects.schema import MOMENT_TYPE, migrate
from windrow.outbox.schema import migrate as migrate_postgres
from windrow.outbox.table import Table, in_format

_COLUMNS = "name, team, created_at, correlation, message_id, via"
_HEROES = (
    "CREATE TABLE IF NOT EXISTS heroes (id {id} PRIMARY KEY, name VARCHAR(200) NOT NULL,"
    " team VARCHAR(200), created_at {moment} NOT NULL, correlation VARCHAR(128) NOT NULL,"
    " message_id VARCHAR(36) NOT NULL UNIQUE, via VARCHAR(8) NOT NULL){options}"
)

_IDS = {"mysql": "BIGINT AUTO_INCREMENT", "sqlite": "INTEGER"}
CONNECT_TIMEOUT = 5.0
ANSWER_TIMEOUT = 30.0


class Dialect(Protocol):
    """One kind of database."""

    name: ClassVar[str]
    concurrency: ClassVar[int]
    """How many threads it has something to gain from."""
    errors: tuple[type[Exception], ...]
    """What the driver raises for anything that goes wrong."""

    def connect(self) -> Any:
        """A connection that commits nothing by itself."""

    def prepare(self, table: Table) -> None:
        """Make the tables that are not there yet."""

    def begin(self, connection: Any) -> None:
        """Begin a transaction that will write."""

    def insert_hero(self, connection: Any, values: Sequence[Any]) -> int:
        """Write a hero and return its id."""

    def select(self, connection: Any, sql: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
        """All rows of a query whose parameters are written as ``{}``."""

    def quoted(self, table: Table, suffix: str) -> str:
        """The name of the outbox or of a companion, as ``select`` takes it."""

    def is_refusal(self, error: Exception) -> bool:
        """Whether the database has answered, so that a failed commit is certain to have failed."""

    def say(self, error: Exception) -> str:
        """What went wrong in a line, without any secret."""


class PostgresDialect:
    """PostgreSQL, by psycopg."""

    name: ClassVar[str] = "PostgreSQL"
    concurrency: ClassVar[int] = 8

    def __init__(self, dsn: Dsn) -> None:
        self._dsn, self._driver = dsn, require("psycopg")
        self.errors: tuple[type[Exception], ...] = (self._driver.Error,)

    def connect(self) -> Any:  # noqa: D102 - see Dialect
        return self._driver.connect(self._dsn.reveal(), connect_timeout=int(CONNECT_TIMEOUT))

    def prepare(self, table: Table) -> None:  # noqa: D102 - see Dialect
        with self.connect() as connection:
            # Two producers that start at the same time would both make the table.
            connection.execute("SELECT pg_advisory_xact_lock(hashtext('windrow playpen'))")
            connection.execute(_HEROES.format(id="BIGSERIAL", moment="TIMESTAMPTZ", options=""))
            connection.commit()
            migrate_postgres(connection, table)
            connection.commit()

    def begin(self, connection: Any) -> None:
        """The first statement does."""

    def insert_hero(self, connection: Any, values: Sequence[Any]) -> int:  # noqa: D102
        sql = f"INSERT INTO heroes ({_COLUMNS}) VALUES (%s, %s, %s, %s, %s, %s) RETURNING id"
        return int(connection.execute(sql, values, prepare=True).fetchone()[0])

    def select(  # noqa: D102 - see Dialect
        self, connection: Any, sql: str, parameters: Sequence[Any]
    ) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = connection.execute(
            sql.replace("{}", "%s"), parameters
        ).fetchall()
        return rows

    def quoted(self, table: Table, suffix: str) -> str:  # noqa: D102 - see Dialect
        return in_format(table.companion(suffix))

    def is_refusal(self, error: Exception) -> bool:  # noqa: D102 - see Dialect
        # Class 57 is the server that goes away: whether it had committed before, it does not say.
        state = getattr(error, "sqlstate", None)
        return state is not None and not state.startswith(("08", "57"))

    def say(self, error: Exception) -> str:  # noqa: D102 - see Dialect
        return self._dsn.hide_in(_line(error))


class OtherDialect:
    """MariaDB or MySQL by PyMySQL, and SQLite: what the two have in common."""

    name: ClassVar[str]
    concurrency: ClassVar[int]
    errors: tuple[type[Exception], ...]

    def __init__(self, dsn: Dsn) -> None:
        self._dsn = dsn
        found = other_dialect(dsn)
        assert found is not None, "not PostgreSQL"
        self._dialect = found

    def connect(self) -> Any:  # noqa: D102 - see Dialect
        return connect(self._dsn, CONNECT_TIMEOUT, ANSWER_TIMEOUT, create=True)

    def prepare(self, table: Table) -> None:  # noqa: D102 - see Dialect
        system = self._dialect.system
        with closing(self.connect()) as connection:
            migrate(connection, self._dialect, table)
            options = " CHARACTER SET utf8mb4" if system == "mysql" else ""
            moment = MOMENT_TYPE[system]
            run(connection, _HEROES.format(id=_IDS[system], moment=moment, options=options))

    def insert_hero(self, connection: Any, values: Sequence[Any]) -> int:  # noqa: D102
        marks = self._dialect.marks(values)
        with closing(connection.cursor()) as cursor:
            cursor.execute(
                f"INSERT INTO heroes ({_COLUMNS}) VALUES ({marks})",
                [_in_utc(value) for value in values],
            )
            return int(cursor.lastrowid)

    def select(  # noqa: D102 - see Dialect
        self, connection: Any, sql: str, parameters: Sequence[Any]
    ) -> list[tuple[Any, ...]]:
        return run(connection, sql.replace("{}", self._dialect.mark), tuple(parameters))

    def quoted(self, table: Table, suffix: str) -> str:  # noqa: D102 - see Dialect
        return self._dialect.parametrised(table, suffix)

    def say(self, error: Exception) -> str:  # noqa: D102 - see Dialect
        return self._dsn.hide_in(_line(error))


class MariaDBDialect(OtherDialect):
    """MariaDB or MySQL."""

    name: ClassVar[str] = "MariaDB"
    concurrency: ClassVar[int] = 8

    def __init__(self, dsn: Dsn) -> None:
        super().__init__(dsn)
        self.errors = (require("pymysql").MySQLError, OSError, Unreachable)

    def connect(self) -> Any:  # noqa: D102 - see Dialect
        connection = super().connect()
        connection.autocommit(False)
        return connection

    def begin(self, connection: Any) -> None:
        """The first statement does."""

    def is_refusal(self, error: Exception) -> bool:  # noqa: D102 - see Dialect
        # From 2000 on they are the client's own: the connection is gone.
        code = error.args[0] if error.args else 0
        return isinstance(code, int) and 1000 <= code < 2000


class SQLiteDialect(OtherDialect):
    """SQLite: a file with one writer at a time."""

    name: ClassVar[str] = "SQLite"
    concurrency: ClassVar[int] = 1

    def __init__(self, dsn: Dsn) -> None:
        super().__init__(dsn)
        self.errors = (sqlite3.Error, Unreachable)

    def begin(self, connection: Any) -> None:
        """With the right to write: asked for later, it could be refused without waiting."""
        connection.execute("BEGIN IMMEDIATE")

    def is_refusal(self, error: Exception) -> bool:  # noqa: D102 - see Dialect
        return True  # there is no connection that could be lost


def dialect_of(dsn: str) -> Dialect:
    """What speaks to the database of that address.

    Raises:
        ValueError: It is the address of none of the three; it is not quoted.
        MissingExtra: Its driver is not installed.
    """
    address = Dsn(dsn)
    match address.system:
        case "postgresql":
            return PostgresDialect(address)
        case "mysql":
            return MariaDBDialect(address)
        case "sqlite":
            return SQLiteDialect(address)


def moment(value: Any) -> datetime:
    """A time as a column holds it: aware, in UTC without saying so, as text, or in seconds."""
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    elif isinstance(value, int | float):
        value = datetime.fromtimestamp(value, UTC)
    assert isinstance(value, datetime)
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def _in_utc(value: Any) -> Any:
    """A moment as it is in the outbox: UTC that does not say so; anything else as it is."""
    if not isinstance(value, datetime):
        return value
    return value.astimezone(UTC).replace(tzinfo=None).isoformat(" ", timespec="microseconds")


def _line(error: Exception) -> str:
    first_line = str(error).partition("\n")[0].strip()
    return redact(first_line) or type(error).__name__
