"""Answers in PostgreSQL, shared by all processes of a receiver."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from windrow.config.dsn import Dsn
from windrow.extras import require
from windrow.inbox.answers import Answer, Begun, InProgress
from windrow.inbox.errors import NoInbox
from windrow.inbox.statements import purge_sql
from windrow.outbox.queries import load_queries
from windrow.outbox.refusals import sqlstate_of
from windrow.outbox.table import Table, in_format

if TYPE_CHECKING:
    import psycopg

UNDEFINED = ("42P01", "42703")
CONNECTIONS = 4


class PostgresAnswers:
    """Answers in the table beside the inbox; ``windrow inbox init`` makes both.

    A connection is held for the length of a statement only, not while the request is worked on.

    Args:
        dsn: The database.
        table: The inbox: ``inbox`` or ``schema.inbox``.
        connections: How many statements run at a time.
    """

    def __init__(
        self,
        dsn: str | Dsn,
        table: str | Table = "inbox",
        *,
        connections: int = CONNECTIONS,
    ) -> None:
        self._dsn = dsn if isinstance(dsn, Dsn) else Dsn(dsn)
        self._table = Table.parse(table) if isinstance(table, str) else table
        answers = in_format(self._table.companion("_answers"))
        queries = load_queries("windrow.inbox", "answers.sql")
        self._sql = {name: sql.format(answers=answers) for name, sql in queries.items()}
        self._free = asyncio.Semaphore(connections)
        self._idle: list[psycopg.AsyncConnection[Any]] = []

    async def begin(self, key: str, hold: float) -> Begun | Answer | InProgress:
        """Take a request on for so many seconds, or say what has become of it."""
        token = uuid.uuid4()
        async with self._connection() as connection:
            while True:
                taken = await self._rows(connection, "begin", key=key, token=token, hold=hold)
                if taken:
                    return Begun(token)
                rows = await self._rows(connection, "look", key=key)
                if rows:
                    return _found(*rows[0])
                # It was abandoned between the two statements: ours to take after all.

    async def finish(self, key: str, token: uuid.UUID, answer: Answer) -> None:
        """Keep the answer; does nothing if another has taken the request on since."""
        pairs = [(name.decode("latin-1"), text.decode("latin-1")) for name, text in answer.headers]
        async with self._connection() as connection:
            await self._rows(
                connection,
                "finish",
                key=key,
                token=token,
                status=answer.status,
                headers=json.dumps(pairs),
                body=answer.body,
            )

    async def abandon(self, key: str, token: uuid.UUID) -> None:
        """Let the request be taken on again at once."""
        async with self._connection() as connection:
            await self._rows(connection, "abandon", key=key, token=token)

    async def close(self) -> None:
        """Let go of the connections."""
        idle, self._idle = self._idle, []
        for connection in idle:
            await connection.close()

    async def _rows(
        self, connection: psycopg.AsyncConnection[Any], query: str, **values: Any
    ) -> list[tuple[Any, ...]]:
        try:
            cursor = await connection.execute(self._sql[query], values)
            return await cursor.fetchall()
        except require("psycopg").Error as error:
            if sqlstate_of(error) in UNDEFINED:
                raise NoInbox(str(self._table)) from error
            raise

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        async with self._free:
            connection = self._idle.pop() if self._idle else await self._connect()
            is_whole = False
            try:
                yield connection
                is_whole = True
            finally:
                # One that failed may be in any state; a new one is soon made.
                if is_whole and not connection.closed:
                    self._idle.append(connection)
                else:
                    await connection.close()

    async def _connect(self) -> psycopg.AsyncConnection[Any]:
        connect = require("psycopg").AsyncConnection.connect
        made: psycopg.AsyncConnection[Any] = await connect(self._dsn.reveal(), autocommit=True)
        return made


def purge_answers(
    connection: psycopg.Connection[Any], table: Table, older_than: float, batch: int
) -> int:
    """Delete the oldest answers beyond an age, so many at most; returns how many."""
    row = connection.execute(
        purge_sql(table, "format", "_answers"),
        (older_than, batch),
    ).fetchone()
    return int(row[0]) if row else 0


def _found(status: int | None, headers: str | None, body: bytes | None) -> Answer | InProgress:
    if status is None:
        return InProgress()
    pairs = json.loads(headers or "[]")
    return Answer(
        status,
        tuple((name.encode("latin-1"), text.encode("latin-1")) for name, text in pairs),
        None if body is None else bytes(body),
    )
