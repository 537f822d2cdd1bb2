"""How does a caller's connection run a statement, and would it commit by itself?

Connections are told apart by the names in their class's ancestry, so that none of the libraries has
to be installed, nor imported before the caller has done so.
Those of other databases than PostgreSQL are in ``windrow.outbox.dialects.kinds``.

"In a transaction" means that the driver would not commit by itself. A connection that opens its
transaction with the first statement (psycopg without autocommit, SQLAlchemy) counts as inside: the
record then waits for the same commit as whatever follows.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast, get_args

from windrow.extras import require
from windrow.outbox.dialects.kinds import PyMySQLKind, SQLiteKind
from windrow.outbox.errors import UnsupportedConnection
from windrow.outbox.record import Record
from windrow.outbox.refusals import wrong_schema
from windrow.outbox.statement import Parameters, ParamStyle, bind, insert_statement
from windrow.outbox.table import Table

if TYPE_CHECKING:
    import sqlite3

    import psycopg
    import sqlalchemy
    import sqlalchemy.orm

SyncConnection: TypeAlias = (
    "psycopg.Connection[Any] | sqlalchemy.Connection | sqlalchemy.orm.Session"
    " | sqlalchemy.orm.scoped_session[Any] | sqlite3.Connection | DBAPIConnection"
)

WHICH_TRANSACTION = "SELECT now()"
"""The moment a transaction began is its name within a session. Asking for it also opens one, where
the driver does so with the first statement, so that none can begin and end unnoticed."""

IDLE, ACTIVE = 0, 1
"""libpq's transaction status: none, and not known before the pipeline has been read."""

_OTHER_DATABASES = ("MySQLdb", "mysql", "mariadb", "oracledb")
_ASYNC = (
    ("psycopg", "AsyncConnection"),
    ("asyncpg", "Connection"),
    ("asyncpg", "PoolConnectionProxy"),
    ("sqlalchemy", "AsyncConnection"),
    ("sqlalchemy", "AsyncSession"),
)


class DBAPIConnection(Protocol):
    """What PEP 249 asks of a connection; Django's have it too."""

    def cursor(self) -> Any:
        """A cursor to run statements with."""

    def commit(self) -> None:
        """End the transaction; never called here."""

    def rollback(self) -> None:
        """Undo the transaction; never called here."""


class Kind(Protocol):
    """One sort of connection."""

    def style(self, connection: Any) -> ParamStyle:
        """How parameters are written for it."""

    def is_autonomous(self, connection: Any) -> bool:
        """Whether a statement would be committed by itself, apart from the caller's changes."""

    def insert(
        self, connection: Any, table: Table, records: Sequence[Record], prepare: bool
    ) -> list[int]:
        """Add the records on the caller's transaction, and return their ids in order.

        Raises:
            WrongSchema: The table is missing, or lacks what a record needs.
        """

    def enter(self, connection: Any) -> Any:
        """What tells this transaction from others, and opens it if the first statement does."""

    def is_within(self, connection: Any, entered: Any) -> bool:
        """Whether it is still the transaction that was entered; asked once."""


class PostgresKind:
    """What connections to PostgreSQL have in common."""

    def style(self, connection: Any) -> ParamStyle:
        """How parameters are written for it."""
        raise NotImplementedError

    def fetch(self, connection: Any, sql: str, parameters: Parameters, prepare: bool) -> list[Any]:
        """Run it on the caller's transaction and return the first column of what it gives."""
        raise NotImplementedError

    def insert(  # noqa: D102 - see Kind
        self, connection: Any, table: Table, records: Sequence[Record], prepare: bool
    ) -> list[int]:
        statement = insert_statement(table, records, self.style(connection))
        try:
            return self.fetch(connection, *statement, prepare=prepare)
        except Exception as error:
            problem = wrong_schema(error, table, records)
            if problem is None:
                raise
            raise problem from error

    def enter(self, connection: Any) -> Any:  # noqa: D102 - see Kind
        none = bind([], self.style(connection))
        return self.fetch(connection, WHICH_TRANSACTION, none, prepare=False)

    def is_within(self, connection: Any, entered: Any) -> bool:  # noqa: D102 - see Kind
        return bool(self.enter(connection) == entered)


class Psycopg(PostgresKind):
    """psycopg 3; whatever cursors and rows the caller has chosen, these are our own."""

    def style(self, connection: psycopg.Connection[Any]) -> ParamStyle:  # noqa: D102 - see Kind
        return "binary_format"

    def is_autonomous(self, connection: psycopg.Connection[Any]) -> bool:  # noqa: D102 - see Kind
        if not connection.autocommit:
            return False
        if connection.pgconn.transaction_status == ACTIVE:
            with connection.pipeline():
                pass  # an inner pipeline waits for what was sent before it
        return connection.pgconn.transaction_status == IDLE

    def fetch(  # noqa: D102 - see Kind
        self,
        connection: psycopg.Connection[Any],
        sql: str,
        parameters: Parameters,
        prepare: bool,
    ) -> list[Any]:
        tuple_row = require("psycopg.rows").tuple_row
        with require("psycopg").Cursor(connection, row_factory=tuple_row) as cursor:
            cursor.execute(sql, parameters, prepare=prepare or None)
            return [row[0] for row in cursor]


class DBAPI(PostgresKind):
    """Any other driver of the DB-API."""

    def style(self, connection: DBAPIConnection) -> ParamStyle:  # noqa: D102 - see Kind
        return _paramstyle_of(type(connection))

    def is_autonomous(self, connection: Any) -> bool:  # noqa: D102 - see Kind
        return _commits_by_itself(connection)

    def fetch(  # noqa: D102 - see Kind
        self, connection: DBAPIConnection, sql: str, parameters: Parameters, prepare: bool
    ) -> list[Any]:
        cursor = connection.cursor()
        try:
            cursor.execute(sql, parameters)
            return [_first(row) for row in cursor.fetchall()]
        finally:
            cursor.close()


class Django(PostgresKind):
    """A connection of ``django.db.connections``."""

    def style(self, connection: Any) -> ParamStyle:  # noqa: D102 - see Kind
        if connection.vendor != "postgresql":
            raise _another_database(f"Django connection to {connection.vendor}")
        return "format"

    def is_autonomous(self, connection: Any) -> bool:  # noqa: D102 - see Kind
        return not connection.in_atomic_block and bool(connection.get_autocommit())

    def fetch(  # noqa: D102 - see Kind
        self, connection: Any, sql: str, parameters: Parameters, prepare: bool
    ) -> list[Any]:
        with connection.cursor() as cursor:
            cursor.execute(sql, parameters)
            return [row[0] for row in cursor.fetchall()]


class SQLAlchemyConnection(PostgresKind):
    """SQLAlchemy's Connection: through it, so that it knows of the transaction."""

    def style(self, connection: sqlalchemy.Connection) -> ParamStyle:  # noqa: D102 - see Kind
        dialect = connection.dialect
        if dialect.name != "postgresql":
            raise _another_database(f"SQLAlchemy connection to {dialect.name}")
        if dialect.driver == "psycopg":
            return "binary_format"
        return cast("ParamStyle", dialect.paramstyle)

    def is_autonomous(self, connection: sqlalchemy.Connection) -> bool:  # noqa: D102 - see Kind
        # Even inside begin() nothing holds the statements together at isolation level AUTOCOMMIT.
        return _commits_by_itself(connection.connection.dbapi_connection)

    def fetch(  # noqa: D102 - see Kind
        self, connection: sqlalchemy.Connection, sql: str, parameters: Parameters, prepare: bool
    ) -> list[Any]:
        return list(connection.exec_driver_sql(sql, parameters).scalars())


class SQLAlchemySession(PostgresKind):
    """SQLAlchemy's Session, plain or scoped."""

    def __init__(self) -> None:
        self._below = SQLAlchemyConnection()

    def style(self, connection: sqlalchemy.orm.Session) -> ParamStyle:  # noqa: D102 - see Kind
        return self._below.style(connection.connection())

    def is_autonomous(self, connection: sqlalchemy.orm.Session) -> bool:  # noqa: D102 - see Kind
        return self._below.is_autonomous(connection.connection())

    def fetch(  # noqa: D102 - see Kind
        self, connection: sqlalchemy.orm.Session, sql: str, parameters: Parameters, prepare: bool
    ) -> list[Any]:
        # Changes that wait in the session take their locks now, before the id is drawn.
        connection.flush()
        return self._below.fetch(connection.connection(), sql, parameters, prepare)


_SYNC: dict[tuple[str, str], Kind] = {
    ("psycopg", "Connection"): Psycopg(),
    ("sqlalchemy", "Connection"): SQLAlchemyConnection(),
    ("sqlalchemy", "Session"): SQLAlchemySession(),
    ("sqlalchemy", "scoped_session"): SQLAlchemySession(),
    ("django", "BaseDatabaseWrapper"): Django(),
    ("django", "ConnectionProxy"): Django(),
    ("pymysql", "Connection"): PyMySQLKind(),
    ("sqlite3", "Connection"): SQLiteKind(),
}
_found: dict[type, Kind] = {}


def kind_of(connection: object) -> Kind:
    """How to use that connection.

    Raises:
        UnsupportedConnection: It is asynchronous, of another database, or no connection at all.
    """
    cls = type(connection)
    kind = _found.get(cls)
    if kind is None:
        kind = _found[cls] = _find_kind(cls)
    return kind


def _find_kind(cls: type) -> Kind:
    known = ancestry(cls)
    for name in known:
        if name in _SYNC:
            return _SYNC[name]
        if name in _ASYNC:
            raise UnsupportedConnection(name_of(cls), "it is asynchronous; use the _async methods")
    if any(library in _OTHER_DATABASES for library, _ in known):
        raise _another_database(name_of(cls))
    if not hasattr(cls, "cursor"):
        raise UnsupportedConnection(name_of(cls), "it is not a connection that windrow knows")
    return DBAPI()


def ancestry(cls: type) -> list[tuple[str, str]]:
    """The class and what it descends from, each as (library, class)."""
    return [(base.__module__.partition(".")[0], base.__name__) for base in cls.__mro__]


def name_of(cls: type) -> str:
    """The class as people write it."""
    return f"{cls.__module__.partition('.')[0]} {cls.__name__}"


def _paramstyle_of(cls: type) -> ParamStyle:
    """The DB-API makes it a global of the driver's module: that of the class, or one above it."""
    module = cls.__module__
    while module:
        style: Any = getattr(sys.modules.get(module), "paramstyle", None)
        if style in get_args(ParamStyle):
            return cast("ParamStyle", style)
        module = module.rpartition(".")[0]
    raise UnsupportedConnection(
        name_of(cls), "its module has no paramstyle, so it is no DB-API driver"
    )


def _commits_by_itself(connection: Any) -> bool:
    if getattr(connection, "autocommit", False) is not True:
        return False
    # psycopg and psycopg2 also know whether the caller has sent a BEGIN.
    if hasattr(connection, "pgconn"):
        return bool(connection.pgconn.transaction_status == IDLE)
    if hasattr(connection, "get_transaction_status"):
        return bool(connection.get_transaction_status() == IDLE)
    return True


def _first(row: Any) -> Any:
    return next(iter(row.values())) if isinstance(row, Mapping) else row[0]


def _another_database(kind: str) -> UnsupportedConnection:
    return UnsupportedConnection(kind, "an outbox whose order is kept has to be in PostgreSQL")
