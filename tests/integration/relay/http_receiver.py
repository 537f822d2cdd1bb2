"""A receiver of HTTP in the test's own loop: uvicorn with Starlette, or sockets that misbehave."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

LOOPBACK = "127.0.0.1"
PATIENCE = 60.0
Answer = Callable[[Request], Awaitable[Response]]


@dataclass
class Seen:
    """One request as it came."""

    path: str
    headers: dict[str, str]
    body: bytes
    port: int
    """Of the sender: the same for requests on one connection."""


@dataclass
class Receiver:
    """Keeps what it got; answers 202, or what it is told."""

    answer: Answer | None = None
    seen: list[Seen] = field(default_factory=list)
    now: int = 0
    most: int = 0
    """How many requests were being worked on, and how many at most at a time."""
    address: str = ""

    @property
    def connections(self) -> int:
        return len(Counter(seen.port for seen in self.seen))

    @property
    def url(self) -> str:
        return f"http://{self.address}/receive"

    async def receive(self, request: Request) -> Response:
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            port = request.client.port if request.client else 0
            body = await request.body()
            self.seen.append(Seen(request.url.path, dict(request.headers), body, port))
            return Response(status_code=202) if self.answer is None else await self.answer(request)
        finally:
            self.now -= 1

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not condition():  # noqa: ASYNC110 - what it waits for tells nobody
                await asyncio.sleep(0.005)


@asynccontextmanager
async def serving(receiver: Receiver, app: Any = None) -> AsyncIterator[Receiver]:
    """The receiver behind uvicorn on a free port, ended with the block."""
    routes = [Route("/{path:path}", receiver.receive, methods=["POST"])]
    config = uvicorn.Config(
        app or Starlette(routes=routes),
        host=LOOPBACK,
        port=0,
        log_level="critical",
        lifespan="off",
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve())
    try:
        await receiver.until(lambda: server.started or task.done())
        port = server.servers[0].sockets[0].getsockname()[1]
        receiver.address = f"{LOOPBACK}:{port}"
        yield receiver
    finally:
        server.should_exit = True
        await task


@asynccontextmanager
async def misbehaving(
    talk: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> AsyncIterator[str]:
    """The URL of a server whose every connection is handled by ``talk``, then closed."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await talk(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(handle, LOOPBACK, 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield f"http://{LOOPBACK}:{port}/receive"
    finally:
        server.close()
        await server.wait_closed()
