"""Every sort of connection a service may bring, each in a transaction of its own.

A synchronous kind is a context manager, an asynchronous one likewise: it gives a connection in a
transaction, which commits where the block ends and rolls back if it ends in an error.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
)
from typing import Any

import asyncpg
import psycopg
import sqlalchemy as sa
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import dict_row
from sqlalchemy import orm
from sqlalchemy.ext import asyncio as sa_async

from tests.integration.outbox.dbapi_driver import driver

SyncKind = Callable[[str], AbstractContextManager[Any]]
AsyncKind = Callable[[str], AbstractAsyncContextManager[Any]]


@contextmanager
def psycopg_implicit(dsn: str) -> Iterator[psycopg.Connection[Any]]:
    """Without autocommit: the first statement opens the transaction."""
    with psycopg.connect(dsn) as connection:
        yield connection


@contextmanager
def psycopg_block(dsn: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(dsn, autocommit=True) as connection, connection.transaction():
        yield connection


@contextmanager
def psycopg_by_hand(dsn: str) -> Iterator[psycopg.Connection[Any]]:
    """With autocommit, and a BEGIN that only the server knows of."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("BEGIN")
        try:
            yield connection
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")


@contextmanager
def psycopg_pipeline(dsn: str) -> Iterator[psycopg.Connection[Any]]:
    with (
        psycopg.connect(dsn, autocommit=True) as connection,
        connection.pipeline(),
        connection.transaction(),
    ):
        yield connection


@contextmanager
def psycopg_other_cursors(dsn: str) -> Iterator[psycopg.Connection[Any]]:
    """Rows are dicts and parameters are written as ``$1`` on the caller's own cursors."""
    with psycopg.connect(dsn, row_factory=dict_row) as connection:
        connection.cursor_factory = psycopg.RawCursor
        yield connection


def engine_on(dsn: str, **options: Any) -> sa.Engine:
    return sa.create_engine(
        "postgresql+psycopg://", creator=lambda: psycopg.connect(dsn), poolclass=sa.NullPool,
        **options,
    )  # fmt: skip


@contextmanager
def sqlalchemy_begin(dsn: str) -> Iterator[sa.Connection]:
    with engine_on(dsn).begin() as connection:
        yield connection


@contextmanager
def sqlalchemy_connect(dsn: str) -> Iterator[sa.Connection]:
    """The first statement opens the transaction, and the caller commits it."""
    with engine_on(dsn).connect() as connection:
        yield connection
        connection.commit()


@contextmanager
def sqlalchemy_session(dsn: str) -> Iterator[orm.Session]:
    with orm.Session(engine_on(dsn)) as session, session.begin():
        yield session


@contextmanager
def sqlalchemy_scoped_session(dsn: str) -> Iterator[orm.scoped_session[orm.Session]]:
    sessions = orm.scoped_session(orm.sessionmaker(engine_on(dsn)))
    try:
        yield sessions
        sessions.commit()
    finally:
        sessions.remove()


@contextmanager
def django_connection(dsn: str) -> Iterator[Any]:
    """A connection as ``django.db.connections`` has them, under a name of its own."""
    import django
    from django.conf import settings
    from django.db import connections
    from django.db.utils import ConnectionHandler

    if not settings.configured:
        settings.configure(USE_TZ=True)
        django.setup()
    parts = conninfo_to_dict(dsn)
    database = {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts["dbname"],
        "USER": parts.get("user", ""),
        "PASSWORD": parts.get("password", ""),
        "HOST": parts.get("host", ""),
        "PORT": parts.get("port", ""),
    }
    alias = f"outbox_{secrets.token_hex(4)}"
    handler = ConnectionHandler({"default": {}, alias: database})
    connection = handler[alias]
    connections[alias] = connection
    try:
        yield connection
    finally:
        connection.close()
        del connections[alias]


@contextmanager
def django_atomic(dsn: str) -> Iterator[Any]:
    from django.db import transaction

    with django_connection(dsn) as connection, transaction.atomic(using=connection.alias):
        yield connection


@contextmanager
def django_proxy(dsn: str) -> Iterator[Any]:
    """What ``django.db.connection`` is."""
    from django.db import connections, transaction
    from django.utils.connection import ConnectionProxy

    with django_connection(dsn) as connection, transaction.atomic(using=connection.alias):
        yield ConnectionProxy(connections, connection.alias)


def dbapi(style: str) -> SyncKind:
    connect = driver(style)

    @contextmanager
    def kind(dsn: str) -> Iterator[Any]:
        connection = connect(dsn)
        try:
            yield connection
            connection.commit()
        finally:
            connection.close()

    return kind


@asynccontextmanager
async def async_psycopg_implicit(dsn: str) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        yield connection


@asynccontextmanager
async def async_psycopg_pipeline(dsn: str) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
    connection = await psycopg.AsyncConnection.connect(dsn, autocommit=True)
    async with connection, connection.pipeline(), connection.transaction():
        yield connection


@asynccontextmanager
async def asyncpg_connection(dsn: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(dsn)
    try:
        async with connection.transaction():
            yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def asyncpg_pool(dsn: str) -> AsyncIterator[Any]:
    async with (
        asyncpg.create_pool(dsn, min_size=1, max_size=1) as pool,
        pool.acquire() as connection,
        connection.transaction(),
    ):
        yield connection


def async_engine_on(dsn: str, library: str, **options: Any) -> sa_async.AsyncEngine:
    connect = asyncpg.connect if library == "asyncpg" else psycopg.AsyncConnection.connect

    async def create(*_: Any, **__: Any) -> Any:
        return await connect(dsn)

    return sa_async.create_async_engine(
        f"postgresql+{library}://", async_creator=create, poolclass=sa.NullPool, **options
    )


def async_sqlalchemy_connection(library: str) -> AsyncKind:
    @asynccontextmanager
    async def kind(dsn: str) -> AsyncIterator[sa_async.AsyncConnection]:
        async with async_engine_on(dsn, library).begin() as connection:
            yield connection

    return kind


def async_sqlalchemy_session(library: str) -> AsyncKind:
    @asynccontextmanager
    async def kind(dsn: str) -> AsyncIterator[sa_async.AsyncSession]:
        async with sa_async.AsyncSession(async_engine_on(dsn, library)) as session, session.begin():
            yield session

    return kind


SYNC_KINDS: dict[str, SyncKind] = {
    "psycopg, implicit": psycopg_implicit,
    "psycopg, transaction block": psycopg_block,
    "psycopg, BEGIN by hand": psycopg_by_hand,
    "psycopg, pipeline": psycopg_pipeline,
    "psycopg, other cursors": psycopg_other_cursors,
    "SQLAlchemy, begin": sqlalchemy_begin,
    "SQLAlchemy, connect": sqlalchemy_connect,
    "SQLAlchemy, Session": sqlalchemy_session,
    "SQLAlchemy, scoped_session": sqlalchemy_scoped_session,
    "Django": django_atomic,
    "Django, proxy": django_proxy,
    **{
        f"DB-API, {style}": dbapi(style)
        for style in ("format", "pyformat", "qmark", "numeric", "named")
    },
}
ASYNC_KINDS: dict[str, AsyncKind] = {
    "psycopg, implicit": async_psycopg_implicit,
    "psycopg, pipeline": async_psycopg_pipeline,
    "asyncpg": asyncpg_connection,
    "asyncpg, pool": asyncpg_pool,
    "SQLAlchemy, AsyncConnection on asyncpg": async_sqlalchemy_connection("asyncpg"),
    "SQLAlchemy, AsyncConnection on psycopg": async_sqlalchemy_connection("psycopg"),
    "SQLAlchemy, AsyncSession on asyncpg": async_sqlalchemy_session("asyncpg"),
    "SQLAlchemy, AsyncSession on psycopg": async_sqlalchemy_session("psycopg"),
}
