"""Running a test's coroutine against the scripted server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from tests.fixtures.journal_server import JournalServer
from windrow.journal.client.appender import Appender
from windrow.journal.client.client import JournalClient

JOURNAL = "a/journal"
PATIENCE = 30.0

Test = Callable[[JournalServer, JournalClient], Awaitable[None]]


def with_server(test: Test, **options: Any) -> None:
    """Run a test with a server that has one journal, and a client of it."""

    async def running() -> None:
        async with asyncio.timeout(PATIENCE), JournalServer() as server:
            server.create(JOURNAL)
            async with JournalClient(server.address, **options) as client:
                await test(server, client)

    asyncio.run(running())


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something the server or the client will have done."""
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 - others' state, which no event tells
            await asyncio.sleep(0.002)


async def write_for_ever(appender: Appender) -> None:
    """Write until something stops it."""
    while True:
        await appender.write(b"x" * 1024)
