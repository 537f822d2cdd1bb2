"""An HTTP receiver that works on each message once, its answers in PostgreSQL."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tests.integration.relay.http_receiver import Receiver, serving
from windrow.embedded.ports import free_port
from windrow.inbox import Answer, IdempotentReceiver, NoInbox, PostgresAnswers
from windrow.inbox.postgres_answers import purge_answers
from windrow.outbox.table import Table

PATIENCE = 60.0
PROGRAM = Path(__file__).with_name("crashing_receiver.py")


@asynccontextmanager
async def idempotent(receiver: Receiver, dsn: str, **settings: Any) -> AsyncIterator[str]:
    """The receiver behind the middleware and uvicorn; gives its URL."""
    answers = PostgresAnswers(dsn)
    inner = Starlette(routes=[Route("/receive", receiver.receive, methods=["POST"])])
    try:
        async with serving(receiver, IdempotentReceiver(inner, answers, **settings)):
            yield receiver.url
    finally:
        await answers.close()


async def post(url: str, message_id: str) -> httpx.Response:
    async with httpx.AsyncClient(timeout=PATIENCE) as client:
        return await client.post(url, headers={"Idempotency-Key": message_id}, content=b"{}")


def test_a_repeat_gets_the_same_answer_also_from_another_process(
    inbox_database: str, message_id: str
) -> None:
    async def answer(request: Request) -> Response:
        body = f"ü {len(receiver.seen)}".encode()
        return Response(body, 201, {"X-Note": "é", "Set-Cookie": "a=1"})

    receiver = Receiver(answer)

    async def scenario() -> list[httpx.Response]:
        async with idempotent(receiver, inbox_database) as url:
            answers = [await post(url, message_id), await post(url, message_id)]
        async with idempotent(receiver, inbox_database) as url:
            return [*answers, await post(url, message_id)]

    answers = asyncio.run(scenario())
    assert len(receiver.seen) == 1
    assert {(a.status_code, a.content) for a in answers} == {(201, "ü 1".encode())}
    assert {a.headers["x-note"] for a in answers} == {"é"}
    assert [a.headers.get("idempotent-replayed") for a in answers] == [None, "true", "true"]


def test_a_concurrent_repeat_waits_and_a_failure_lets_it_begin(
    inbox_database: str, message_id: str
) -> None:
    async def scenario() -> list[int]:
        may_fail = asyncio.Event()

        async def answer(request: Request) -> Response:
            if len(receiver.seen) == 1:
                await may_fail.wait()
                return Response(status_code=500)
            return Response(status_code=201)

        receiver = Receiver(answer)
        async with idempotent(receiver, inbox_database, wait=PATIENCE) as url:
            first = asyncio.create_task(post(url, message_id))
            await receiver.until(lambda: len(receiver.seen) == 1)
            others = [asyncio.create_task(post(url, message_id)) for _ in range(5)]
            may_fail.set()
            statuses = [(await request).status_code for request in (first, *others)]
        assert len(receiver.seen) == 2
        return statuses

    assert asyncio.run(scenario()) == [500] + [201] * 5


def test_a_concurrent_repeat_that_waited_in_vain_gets_503_with_retry_after(
    inbox_database: str, message_id: str
) -> None:
    async def scenario() -> httpx.Response:
        may_go = asyncio.Event()

        async def answer(request: Request) -> Response:
            await may_go.wait()
            return Response(status_code=201)

        receiver = Receiver(answer)
        async with idempotent(receiver, inbox_database, wait=0) as url:
            first = asyncio.create_task(post(url, message_id))
            await receiver.until(lambda: receiver.now == 1)
            second = await post(url, message_id)
            may_go.set()
            assert (await first).status_code == 201
        return second

    second = asyncio.run(scenario())
    assert (second.status_code, second.headers["retry-after"]) == (503, "1")


def test_a_receiver_killed_at_work_is_taken_over_when_its_hold_ends(
    inbox_database: str, message_id: str
) -> None:
    with psycopg.connect(inbox_database, autocommit=True) as connection:
        connection.execute("CREATE TABLE works (id INTEGER GENERATED ALWAYS AS IDENTITY)")

    def works() -> int:
        with psycopg.connect(inbox_database) as connection:
            row = connection.execute("SELECT count(*) FROM works").fetchone()
        return int(row[0]) if row else 0

    async def scenario() -> list[httpx.Response]:
        with child(inbox_database, "hangs") as (process, url):
            first = asyncio.create_task(post(url, message_id))
            await Receiver().until(lambda: works() == 1)
            process.kill()
            with pytest.raises(httpx.TransportError):
                await first
        with child(inbox_database, "works") as (_, url):
            return [await post(url, message_id), await post(url, message_id)]

    answers = asyncio.run(scenario())
    assert [(a.status_code, a.json()) for a in answers] == [(201, {"work": 2})] * 2
    assert works() == 2


@contextmanager
def child(dsn: str, manner: str) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, str(PROGRAM), str(port), manner], env=os.environ | {"INBOX_DSN": dsn}
    )
    try:
        deadline = time.monotonic() + PATIENCE
        while not _listens(port):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
        yield process, f"http://127.0.0.1:{port}/receive"
    finally:
        process.kill()
        process.wait()


def _listens(port: int) -> bool:
    try:
        httpx.get(f"http://127.0.0.1:{port}/")
    except httpx.TransportError:
        return False
    return True


def test_a_missing_table_is_told_with_the_command_that_makes_it(
    inbox_database: str, message_id: str
) -> None:
    async def scenario() -> None:
        answers = PostgresAnswers(inbox_database, "elsewhere")
        with pytest.raises(NoInbox, match="windrow inbox init"):
            await answers.begin(message_id, 1)
        await answers.close()

    asyncio.run(scenario())


def test_old_answers_are_purged_and_young_ones_kept(inbox_database: str, message_id: str) -> None:
    async def keep(key: str) -> None:
        answers = PostgresAnswers(inbox_database)
        begun: Any = await answers.begin(key, 60)
        await answers.finish(key, begun.token, Answer(200, (), b""))
        await answers.close()

    asyncio.run(keep(f"old {message_id}"))
    asyncio.run(keep(f"young {message_id}"))
    with psycopg.connect(inbox_database, autocommit=True) as connection:
        connection.execute(
            "UPDATE inbox_answers SET claimed_at = now() - interval '1 hour' WHERE key = %s",
            (f"old {message_id}",),
        )
        assert purge_answers(connection, Table("inbox"), 1800, 10) == 1
        rows = connection.execute("SELECT key FROM inbox_answers").fetchall()
    assert (f"young {message_id}",) in rows
