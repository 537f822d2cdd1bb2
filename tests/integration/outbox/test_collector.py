"""Records that wait for the end of their transaction, and why they should."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from uuid import uuid4

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy import orm

from tests.fixtures.relaying import OutboxDatabase, wait_for
from tests.integration.outbox.kinds import ASYNC_KINDS, SYNC_KINDS, engine_on
from windrow.outbox import Outbox, Record, TransactionEnded, UnsupportedConnection
from windrow.outbox.stores.postgres import PostgresStore


def keys(outbox: OutboxDatabase) -> list[str]:
    with outbox.connect() as connection:
        return [row[0] for row in connection.execute("SELECT kafka_key FROM outbox ORDER BY id")]


def record(key: str) -> Record:
    return Record("orders", key, "v")


# --- the interleaving it is for -----------------------------------------------------------------

Write = Callable[[Outbox, psycopg.Connection[Any], Record], None]


def stash_then_lock(outbox: Outbox, connection: psycopg.Connection[Any], event: Record) -> None:
    """The order that breaks: the id is drawn, and then the lock is waited for."""
    outbox.stash(connection, event)
    connection.execute("UPDATE accounts SET version = version + 1")


def collect_then_lock(outbox: Outbox, connection: psycopg.Connection[Any], event: Record) -> None:
    with outbox.collect(connection) as events:
        events.stash(event)
        connection.execute("UPDATE accounts SET version = version + 1")


def waits_for_lock(connection: psycopg.Connection[Any], pid: int) -> bool:
    query = "SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = %s"
    row = connection.execute(query, (pid,)).fetchone()
    return row is not None and bool(row[0])


@pytest.mark.parametrize(
    ("write", "order"),
    [
        (stash_then_lock, ["second", "first"]),
        (collect_then_lock, ["first", "second"]),
    ],
    ids=["stashed before the lock", "collected"],
)
def test_an_event_collected_before_its_lock_still_follows_the_one_that_had_the_lock_first(
    outbox: OutboxDatabase, write: Write, order: list[str]
) -> None:
    """The holder's event is sent, its relay dies before the purge, and the next one reads both."""
    with outbox.connect() as watching:
        watching.execute("CREATE TABLE accounts (version INTEGER)")
        watching.execute("INSERT INTO accounts VALUES (0)")

        holder, waiter = psycopg.connect(outbox.dsn), psycopg.connect(outbox.dsn)
        holder.execute("UPDATE accounts SET version = version + 1")
        later = threading.Thread(
            target=write, args=(Outbox(), waiter, Record("orders", "account", "second"))
        )
        later.start()
        wait_for(lambda: waits_for_lock(watching, waiter.info.backend_pid), "it waits")
        Outbox().stash(holder, Record("orders", "account", "first"))
        holder.commit()
        later.join(30.0)
        waiter.commit()
        holder.close()
        waiter.close()
    with PostgresStore(outbox.dsn, outbox.table) as store:
        store.raise_epoch("the next one")
        values = [row.value for row in store.read(uuid4(), 10)]
    assert values == [value.encode() for value in order]


# --- blocks -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", SYNC_KINDS)
def test_nothing_is_stashed_before_the_block_ends(shared_outbox: OutboxDatabase, kind: str) -> None:
    outbox = Outbox()
    with SYNC_KINDS[kind](shared_outbox.dsn) as connection, outbox.collect(connection) as events:
        events.stash(record("collected"))
        outbox.stash(connection, record("stashed"))
    assert keys(shared_outbox) == ["stashed", "collected"]


@pytest.mark.parametrize("kind", ASYNC_KINDS)
def test_nothing_is_stashed_before_the_asynchronous_block_ends(
    shared_outbox: OutboxDatabase, kind: str
) -> None:
    outbox = Outbox()

    async def write() -> None:
        async with (
            ASYNC_KINDS[kind](shared_outbox.dsn) as connection,
            outbox.collect(connection) as events,
        ):
            events.stash(record("collected"))
            await outbox.stash_async(connection, record("stashed"))

    asyncio.run(write())
    assert keys(shared_outbox) == ["stashed", "collected"]


@pytest.mark.parametrize("kind", SYNC_KINDS)
def test_a_block_that_ends_in_an_error_stashes_nothing(
    shared_outbox: OutboxDatabase, kind: str
) -> None:
    """Even if the caller goes on and commits."""
    with SYNC_KINDS[kind](shared_outbox.dsn) as connection:
        with suppress(ZeroDivisionError), Outbox().collect(connection) as events:
            events.stash(record("dropped"))
            raise ZeroDivisionError
        Outbox().stash(connection, record("kept"))
    assert keys(shared_outbox) == ["kept"]


def test_a_collector_around_its_transaction_does_not_stash_after_the_commit(
    shared_outbox: OutboxDatabase,
) -> None:
    """It opens the transaction itself, so that what is inside becomes a savepoint of it."""
    connection = psycopg.connect(shared_outbox.dsn)
    with connection:
        with Outbox().collect(connection) as events, connection.transaction():
            events.stash(record("together"))
        assert keys(shared_outbox) == []
    assert keys(shared_outbox) == ["together"]


@pytest.mark.parametrize("statement_after", [False, True])
def test_a_commit_inside_the_block_is_told_and_not_passed_over(
    shared_outbox: OutboxDatabase, statement_after: bool
) -> None:
    """The records would be left to another transaction, which nobody may ever commit."""
    with psycopg.connect(shared_outbox.dsn) as connection:
        events = Outbox().collect(connection)
        events.__enter__()
        events.stash(record("too late"))
        connection.commit()
        if statement_after:
            connection.execute("SELECT 1")
        with pytest.raises(TransactionEnded, match="1 collected records were not stashed"):
            events.__exit__(None, None, None)
    assert keys(shared_outbox) == []


def test_an_asynchronous_connection_needs_an_asynchronous_block(
    shared_outbox: OutboxDatabase,
) -> None:
    async def write() -> None:
        for kind in ASYNC_KINDS.values():
            async with kind(shared_outbox.dsn) as connection:
                with (
                    pytest.raises(UnsupportedConnection, match="asynchronous"),
                    Outbox().collect(connection),
                ):
                    pass

    asyncio.run(write())


# --- sessions -----------------------------------------------------------------------------------


class Base(orm.DeclarativeBase):
    """The user's own tables."""


class Account(Base):
    __tablename__ = "accounts"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    version: orm.Mapped[int] = orm.mapped_column(default=0)


@pytest.fixture
def engine(outbox: OutboxDatabase) -> sa.Engine:
    engine = engine_on(outbox.dsn)
    Base.metadata.create_all(engine)
    return engine


def test_a_session_stashes_right_before_its_own_commit_and_after_its_flush(
    outbox: OutboxDatabase, engine: sa.Engine
) -> None:
    statements: list[str] = []

    @sa.event.listens_for(engine, "before_cursor_execute")
    def note(connection: Any, cursor: Any, statement: str, *rest: Any) -> None:
        statements.append(statement.partition(" (")[0])

    with orm.Session(engine) as session:
        events = Outbox().collect(session)
        events.stash(record("first"))
        session.add(Account(id=1))
        assert statements == []
        session.commit()
        assert statements == ["INSERT INTO accounts", 'INSERT INTO "outbox"']
        events.stash(record("second"))
        session.commit()
        session.commit()
    assert keys(outbox) == ["first", "second"]


def test_what_waits_in_a_session_is_flushed_before_a_stash(
    outbox: OutboxDatabase, engine: sa.Engine
) -> None:
    """Otherwise the id would be drawn before the row is locked."""
    statements: list[str] = []

    @sa.event.listens_for(engine, "before_cursor_execute")
    def note(connection: Any, cursor: Any, statement: str, *rest: Any) -> None:
        statements.append(statement.partition(" (")[0])

    with orm.Session(engine) as session, session.begin():
        session.add(Account(id=1))
        Outbox().stash(session, record("first"))
    assert statements == ["INSERT INTO accounts", 'INSERT INTO "outbox"']


@pytest.mark.parametrize("end", ["rollback", "close", "error in the commit"])
def test_what_a_session_rolls_back_is_forgotten(
    outbox: OutboxDatabase, engine: sa.Engine, end: str
) -> None:
    with orm.Session(engine) as session:
        session.add(Account(id=1))
        session.commit()
        events = Outbox().collect(session)
        session.execute(sa.text("SELECT 1"))
        events.stash(record("undone"))
        if end == "rollback":
            session.rollback()
        elif end == "close":
            session.close()
        else:
            session.add(Account(id=1))
            with pytest.raises(sa.exc.IntegrityError):
                session.commit()
            session.rollback()
        events.stash(record("done"))
        session.commit()
    assert keys(outbox) == ["done"]


def test_a_savepoint_that_is_rolled_back_takes_its_own_records_with_it(
    outbox: OutboxDatabase, engine: sa.Engine
) -> None:
    with orm.Session(engine) as session, session.begin():
        events = Outbox().collect(session)
        events.stash(record("before"))
        with session.begin_nested():
            events.stash(record("released"))
        with suppress(ZeroDivisionError), session.begin_nested():
            events.stash(record("undone"))
            with session.begin_nested():
                events.stash(record("released inside what is undone"))
            raise ZeroDivisionError
        events.stash(record("after"))
        assert session.scalar(sa.text("SELECT count(*) FROM outbox")) == 0
    assert keys(outbox) == ["before", "released", "after"]


def test_a_session_that_commits_inside_the_block_loses_nothing(
    outbox: OutboxDatabase, engine: sa.Engine
) -> None:
    with orm.Session(engine) as session:
        with Outbox().collect(session) as events:
            with session.begin():
                events.stash(record("inside"))
            events.stash(record("left"))
        session.commit()
        events.stash(record("the block is over"))
        session.commit()
    assert keys(outbox) == ["inside", "left"]


@pytest.mark.parametrize("kind", [name for name in ASYNC_KINDS if "AsyncSession" in name])
def test_an_asynchronous_session_stashes_right_before_its_commit(
    shared_outbox: OutboxDatabase, kind: str
) -> None:
    async def write() -> None:
        async with ASYNC_KINDS[kind](shared_outbox.dsn) as session:
            Outbox().collect(session).stash(record("collected"))
            await Outbox().stash_async(session, record("stashed"))

    asyncio.run(write())
    assert keys(shared_outbox) == ["stashed", "collected"]
