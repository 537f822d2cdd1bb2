"""What a user writes with the outbox: the type checker has to accept it, and refuse the slips.

Never run. Each ``type: ignore`` marks a mistake that has to be one: where it is not, the checker
complains about the comment.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import asyncpg
import psycopg
import sqlalchemy.orm
from psycopg.rows import DictRow
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession

from windrow.outbox import AsyncStash, Collector, Outbox, Record, Stash, Table

outbox = Outbox()
elsewhere = Outbox(Table("outbox", "shop"), outside_transaction="warn")

event = Record(
    topic="orders",
    key="order-1",
    value=b"{}",
    headers={"trace": "1", "baggage": None},
    partition=3,
    timestamp=datetime.now(UTC),
)
by_pairs = Record("orders", "order-1", "text", headers=[("trace", "1"), ("trace", b"2")])


def with_psycopg(connection: psycopg.Connection, rows: psycopg.Connection[DictRow]) -> list[int]:
    with connection.transaction():
        number: int = outbox.stash(connection, event)
        return [number, *outbox.stash_many(rows, (event for _ in range(3)))]


def with_sqlalchemy(
    connection: sqlalchemy.Connection,
    session: sqlalchemy.orm.Session,
    sessions: sqlalchemy.orm.scoped_session[sqlalchemy.orm.Session],
) -> None:
    outbox.stash(connection, event)
    outbox.stash(session, event)
    outbox.stash(sessions, event)


class SomeConnection:
    """Of a driver that keeps to PEP 249."""

    def cursor(self) -> Any: ...
    def commit(self) -> None: ...
    def rollback(self) -> None: ...


def with_any_driver(connection: SomeConnection) -> Iterator[int]:
    prepared: Stash = outbox.prepare(connection)
    yield prepared.stash(event)


def at_the_end(connection: psycopg.Connection) -> None:
    with connection.transaction(), outbox.collect(connection) as events:
        kept: Collector = events
        kept.stash(event)
        kept.stash_many([event, by_pairs])


async def asynchronously(
    connection: psycopg.AsyncConnection,
    native: asyncpg.Connection,
    alchemy: AsyncConnection,
    session: AsyncSession,
) -> int:
    await outbox.stash_async(connection, event)
    await outbox.stash_async(native, event)
    await outbox.stash_async(alchemy, event)
    async with session.begin(), outbox.collect(session) as events:
        events.stash(event)
    prepared: AsyncStash = outbox.prepare_async(connection)
    ids: list[int] = await outbox.stash_many_async(session, [event])
    return await prepared.stash(event) + len(ids)


async def slips(
    connection: psycopg.Connection, asynchronous: psycopg.AsyncConnection, session: AsyncSession
) -> None:
    outbox.stash(asynchronous, event)  # type: ignore[arg-type]
    outbox.stash(session, event)  # type: ignore[arg-type]
    await outbox.stash_async(connection, event)  # type: ignore[arg-type]
    outbox.stash(connection, "event")  # type: ignore[arg-type]
    Record("orders", key=7)  # type: ignore[arg-type]
    Outbox(outside_transaction="ignore")  # type: ignore[arg-type]
