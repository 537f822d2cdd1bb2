"""Where nothing holds the event and the data together, and where nothing can be stashed at all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import asyncpg
import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy import orm

from tests.fixtures.relaying import OutboxDatabase
from tests.integration.outbox.dbapi_driver import driver
from tests.integration.outbox.kinds import (
    ASYNC_KINDS,
    SYNC_KINDS,
    AsyncKind,
    SyncKind,
    async_engine_on,
    django_connection,
    engine_on,
)
from tests.integration.outbox.writers import RECORDS, as_row, stored
from windrow.outbox import NotInTransaction, Outbox, UnsupportedConnection


@contextmanager
def psycopg_autocommit(dsn: str) -> Iterator[Any]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield connection


@contextmanager
def psycopg_autocommit_pipeline(dsn: str) -> Iterator[Any]:
    """Where the driver does not know the state before it has read what the server said."""
    with psycopg.connect(dsn, autocommit=True) as connection, connection.pipeline():
        connection.execute("SELECT 1")
        yield connection


@contextmanager
def sqlalchemy_autocommit(dsn: str) -> Iterator[Any]:
    """Where even begin() holds nothing together."""
    engine = engine_on(dsn, isolation_level="AUTOCOMMIT")
    with engine.begin() as connection:
        yield connection


@contextmanager
def session_autocommit(dsn: str) -> Iterator[Any]:
    with orm.Session(engine_on(dsn, isolation_level="AUTOCOMMIT")) as session:
        yield session


@contextmanager
def dbapi_autocommit(dsn: str) -> Iterator[Any]:
    connection: Any = driver("format")(dsn)
    connection.autocommit = connection._connection.autocommit = True
    yield connection
    connection.close()


OUTSIDE: dict[str, SyncKind] = {
    "psycopg": psycopg_autocommit,
    "psycopg, pipeline": psycopg_autocommit_pipeline,
    "SQLAlchemy": sqlalchemy_autocommit,
    "SQLAlchemy, Session": session_autocommit,
    "Django": django_connection,
    "DB-API": dbapi_autocommit,
}


@pytest.mark.proves("outbox-atomic")
@pytest.mark.parametrize("kind", OUTSIDE)
def test_outside_a_transaction_every_way_in_is_refused(
    shared_outbox: OutboxDatabase, kind: str
) -> None:
    writer = Outbox()
    with OUTSIDE[kind](shared_outbox.dsn) as connection:
        with pytest.raises(NotInTransaction, match="outside a transaction"):
            writer.stash(connection, RECORDS[0])
        with pytest.raises(NotInTransaction):
            writer.stash_many(connection, RECORDS)
        with pytest.raises(NotInTransaction):
            writer.prepare(connection).stash(RECORDS[0])
        with pytest.raises(NotInTransaction), writer.collect(connection) as events:
            events.stash(RECORDS[0])
    assert stored(shared_outbox) == []


@pytest.mark.parametrize("kind", OUTSIDE)
def test_a_choice_to_warn_stashes_outside_a_transaction(
    shared_outbox: OutboxDatabase, kind: str
) -> None:
    with (
        OUTSIDE[kind](shared_outbox.dsn) as connection,
        pytest.warns(RuntimeWarning, match="without the data") as caught,
    ):
        Outbox(outside_transaction="warn").stash(connection, RECORDS[0])
    assert stored(shared_outbox) == [as_row(RECORDS[0])]
    assert [warning.filename for warning in caught] == [__file__]


@asynccontextmanager
async def async_psycopg_autocommit(dsn: str) -> AsyncIterator[Any]:
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        yield connection


@asynccontextmanager
async def async_psycopg_autocommit_pipeline(dsn: str) -> AsyncIterator[Any]:
    async with async_psycopg_autocommit(dsn) as connection, connection.pipeline():
        await connection.execute("SELECT 1")
        yield connection


@asynccontextmanager
async def asyncpg_without(dsn: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(dsn)
    yield connection
    await connection.close()


@asynccontextmanager
async def async_sqlalchemy_autocommit(dsn: str) -> AsyncIterator[Any]:
    engine = async_engine_on(dsn, "asyncpg", isolation_level="AUTOCOMMIT")
    async with engine.begin() as connection:
        yield connection


ASYNC_OUTSIDE: dict[str, AsyncKind] = {
    "psycopg": async_psycopg_autocommit,
    "psycopg, pipeline": async_psycopg_autocommit_pipeline,
    "asyncpg": asyncpg_without,
    "SQLAlchemy": async_sqlalchemy_autocommit,
}


@pytest.mark.parametrize("kind", ASYNC_OUTSIDE)
def test_outside_a_transaction_every_asynchronous_way_in_is_refused(
    shared_outbox: OutboxDatabase, kind: str
) -> None:
    writer = Outbox()

    async def attempt() -> None:
        async with ASYNC_OUTSIDE[kind](shared_outbox.dsn) as connection:
            with pytest.raises(NotInTransaction):
                await writer.stash_async(connection, RECORDS[0])
            with pytest.raises(NotInTransaction):
                await writer.stash_many_async(connection, RECORDS)
            with pytest.raises(NotInTransaction):
                async with writer.collect(connection) as events:
                    events.stash(RECORDS[0])

    asyncio.run(attempt())
    assert stored(shared_outbox) == []


@pytest.mark.parametrize("kind", ASYNC_OUTSIDE)
def test_a_choice_to_warn_stashes_asynchronously_too(
    shared_outbox: OutboxDatabase, kind: str
) -> None:
    async def attempt() -> None:
        async with ASYNC_OUTSIDE[kind](shared_outbox.dsn) as connection:
            with pytest.warns(RuntimeWarning, match="without the data"):
                await Outbox(outside_transaction="warn").stash_async(connection, RECORDS[0])

    asyncio.run(attempt())
    assert stored(shared_outbox) == [as_row(RECORDS[0])]


def test_a_prepared_stash_is_refused_once_its_transaction_has_ended(
    shared_outbox: OutboxDatabase,
) -> None:
    with shared_outbox.connect() as connection:
        with connection.transaction():
            prepared = Outbox().prepare(connection)
            prepared.stash(RECORDS[0])
        with pytest.raises(NotInTransaction):
            prepared.stash(RECORDS[1])
    assert stored(shared_outbox) == [as_row(RECORDS[0])]


def test_an_asynchronous_connection_is_refused_by_name_and_with_the_method_to_use(
    shared_outbox: OutboxDatabase,
) -> None:
    async def attempt() -> None:
        for kind in ASYNC_KINDS.values():
            async with kind(shared_outbox.dsn) as connection:
                with pytest.raises(UnsupportedConnection, match="use the _async methods"):
                    Outbox().stash(connection, RECORDS[0])

    asyncio.run(attempt())


def test_a_synchronous_connection_is_refused_by_the_asynchronous_methods(
    shared_outbox: OutboxDatabase,
) -> None:
    for kind in SYNC_KINDS.values():
        with (
            kind(shared_outbox.dsn) as connection,
            pytest.raises(UnsupportedConnection, match="use the methods without _async"),
        ):
            asyncio.run(Outbox().stash_async(connection, RECORDS[0]))


def test_sqlalchemy_on_another_database_is_refused() -> None:
    with (
        sa.create_engine("sqlite://").connect() as connection,
        pytest.raises(UnsupportedConnection, match=r"to sqlite: .* has to be in PostgreSQL"),
    ):
        Outbox().stash(connection, RECORDS[0])
