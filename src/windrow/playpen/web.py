"""What both services have in common: bodies with an end, answers in JSON, errors as answers."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib import resources
from typing import TYPE_CHECKING, Any, TypeVar

from windrow.playpen.errors import BadRequest, MaybeWritten, NotWritten
from windrow.playpen.openapi import Description, describe, docs_page

if TYPE_CHECKING:
    from starlette.exceptions import HTTPException
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import Response
    from starlette.routing import BaseRoute
    from starlette.types import ASGIApp, Message

MAX_BODY = 1 << 20
T = TypeVar("T")


def as_json(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """An answer in JSON."""
    from starlette.responses import Response

    return Response(json.dumps(value), status, headers, "application/json")


async def read_body(request: Request) -> bytes:
    """All of the body.

    Raises:
        BadRequest: It is longer than ``MAX_BODY``.
    """
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY:
            raise BadRequest(f"the body is longer than {MAX_BODY} bytes", 413)
    return bytes(body)


def number(request: Request, name: str, default: int, highest: int) -> int:
    """A whole number of the query.

    Raises:
        BadRequest: It is none, or out of its range.
    """
    given = request.query_params.get(name)
    if given is None:
        return default
    if not (given.isascii() and given.isdigit() and len(given) < 20 and int(given) <= highest):
        raise BadRequest(f"{name} must be a whole number from 0 to {highest}")
    return int(given)


async def in_thread(
    pool: ThreadPoolExecutor, work: Callable[..., T], *args: object, **named: object
) -> T:
    """Do blocking work in a thread of the pool."""
    return await asyncio.get_running_loop().run_in_executor(pool, lambda: work(*args, **named))


async def call(app: ASGIApp, request: Request, body: bytes) -> Response:
    """The answer of another application to a request whose body was read already."""
    from starlette.responses import Response

    answer = Response()
    content = bytearray()

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            answer.status_code = message["status"]
            answer.raw_headers = [*message["headers"]]
        else:
            content.extend(message.get("body", b""))

    await app(request.scope, receive, send)
    answer.body = bytes(content)
    return answer


def read_page(name: str) -> str:
    """A page as one file, with what it shares with others put in."""
    directory = resources.files("windrow.playpen.pages")

    def content(file: str) -> str:
        return directory.joinpath(file).read_text(encoding="utf-8")

    return re.sub(r"\{\{([\w.]+)\}\}", lambda shared: content(shared[1]), content(name))


def common_routes(page: str, description: Description) -> list[BaseRoute]:
    """The page of a service, what it can do, and whether it lives."""
    from starlette.responses import HTMLResponse
    from starlette.routing import Route

    content = read_page(page)
    document = describe(description)

    async def show_page(request: Request) -> Response:
        return HTMLResponse(content)

    async def show_docs(request: Request) -> Response:
        return HTMLResponse(docs_page(document))

    async def show_openapi(request: Request) -> Response:
        return as_json(document)

    async def health(request: Request) -> Response:
        return as_json({"status": "ok", "pid": os.getpid()})

    return [
        Route("/", show_page, methods=["GET"]),
        Route("/docs", show_docs, methods=["GET"]),
        Route("/openapi.json", show_openapi, methods=["GET"]),
        Route("/healthz", health, methods=["GET"]),
    ]


def error_handlers() -> dict[Any, Callable[[Request, Any], Awaitable[Response]]]:
    """Every refusal is JSON that says what is wrong, and whether anything was written."""
    from starlette.exceptions import HTTPException
    from starlette.requests import ClientDisconnect

    return {
        BadRequest: _refuse,
        NotWritten: _not_written,
        MaybeWritten: _maybe_written,
        HTTPException: _http_error,
        ClientDisconnect: _gone,
    }


async def _refuse(request: Request, error: BadRequest) -> Response:
    return as_json({"error": str(error)}, error.status)


async def _not_written(request: Request, error: NotWritten) -> Response:
    return as_json({"error": str(error), "outcome": "not written"}, 503)


async def _maybe_written(request: Request, error: MaybeWritten) -> Response:
    return as_json({"error": str(error), "outcome": "unknown"}, 500)


async def _http_error(request: Request, error: HTTPException) -> Response:
    text = f"{error.detail}: {request.method} {request.url.path}; see /docs"
    return as_json({"error": text}, error.status_code, error.headers)


async def _gone(request: Request, error: ClientDisconnect) -> Response:
    return as_json({"error": "the client has gone"}, 499)
