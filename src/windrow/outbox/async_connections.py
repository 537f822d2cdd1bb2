"""How does a caller's asynchronous connection run a statement, and would it commit by itself?

SQLAlchemy's are not here: they run the synchronous side in their own way (``run_sync``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from windrow.extras import require
from windrow.outbox.connections import ACTIVE, IDLE, ancestry, name_of
from windrow.outbox.errors import UnsupportedConnection
from windrow.outbox.statement import Parameters, ParamStyle

if TYPE_CHECKING:
    import psycopg
    import sqlalchemy.ext.asyncio

AsyncConnection: TypeAlias = (
    "psycopg.AsyncConnection[Any] | sqlalchemy.ext.asyncio.AsyncConnection"
    " | sqlalchemy.ext.asyncio.AsyncSession | AsyncpgConnection"
)


class AsyncpgConnection(Protocol):
    """What is asked of asyncpg's connections, taken from a pool or not."""

    async def fetch(self, query: str, /, *args: Any) -> Any:
        """Run a statement and return its rows."""

    def is_in_transaction(self) -> bool:
        """Whether a transaction is open, by the word of the server."""


class AsyncKind(Protocol):
    """One sort of asynchronous connection."""

    style: ParamStyle

    async def is_autonomous(self, connection: Any) -> bool:
        """Whether a statement would be committed by itself, apart from the caller's changes."""

    async def fetch(
        self, connection: Any, sql: str, parameters: Parameters, prepare: bool
    ) -> list[Any]:
        """Run it on the caller's transaction and return the first column of what it gives."""


class AsyncPsycopg:
    """psycopg 3; whatever cursors and rows the caller has chosen, these are our own."""

    style: ParamStyle = "binary_format"

    async def is_autonomous(  # noqa: D102 - see AsyncKind
        self, connection: psycopg.AsyncConnection[Any]
    ) -> bool:
        if not connection.autocommit:
            return False
        if connection.pgconn.transaction_status == ACTIVE:
            async with connection.pipeline():
                pass  # an inner pipeline waits for what was sent before it
        return connection.pgconn.transaction_status == IDLE

    async def fetch(  # noqa: D102 - see AsyncKind
        self,
        connection: psycopg.AsyncConnection[Any],
        sql: str,
        parameters: Parameters,
        prepare: bool,
    ) -> list[Any]:
        tuple_row = require("psycopg.rows").tuple_row
        async with require("psycopg").AsyncCursor(connection, row_factory=tuple_row) as cursor:
            await cursor.execute(sql, parameters, prepare=prepare or None)
            return [row[0] for row in await cursor.fetchall()]


class Asyncpg:
    """asyncpg, which prepares every statement and keeps it."""

    style: ParamStyle = "numeric_dollar"

    async def is_autonomous(self, connection: AsyncpgConnection) -> bool:  # noqa: D102
        return not connection.is_in_transaction()

    async def fetch(  # noqa: D102 - see AsyncKind
        self, connection: AsyncpgConnection, sql: str, parameters: Parameters, prepare: bool
    ) -> list[Any]:
        return [row[0] for row in await connection.fetch(sql, *parameters)]


_KINDS: dict[tuple[str, str], AsyncKind] = {
    ("psycopg", "AsyncConnection"): AsyncPsycopg(),
    ("asyncpg", "Connection"): Asyncpg(),
    ("asyncpg", "PoolConnectionProxy"): Asyncpg(),
}
_OF_SQLALCHEMY = {("sqlalchemy", "AsyncConnection"), ("sqlalchemy", "AsyncSession")}


def async_kind_of(connection: object) -> AsyncKind | None:
    """How to use that connection; None for SQLAlchemy's, which have ``run_sync``.

    Raises:
        UnsupportedConnection: It is not an asynchronous connection.
    """
    cls = type(connection)
    for name in ancestry(cls):
        if name in _KINDS:
            return _KINDS[name]
        if name in _OF_SQLALCHEMY:
            return None
    raise UnsupportedConnection(
        name_of(cls), "it is not an asynchronous connection; use the methods without _async"
    )
