"""The HTTP gateway: journals by GET, HEAD and PUT, for whoever has no gRPC at hand.

``GET /<journal>?offset=&block=`` streams content from an offset on, ``HEAD`` tells what it would
be, ``PUT`` appends the body as one transaction. ``/metrics`` and ``/debug/ready`` are here too.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import aclosing
from http import HTTPStatus
from typing import Any

from google.protobuf import json_format
from google.protobuf.message import Message

from windrow.errors import WindrowError
from windrow.journal.broker.cors import is_preflight, origin_headers, preflight_headers
from windrow.journal.broker.http1 import Answer, BadRequest, Request, read_body, read_request
from windrow.journal.broker.metrics import BrokerMetrics
from windrow.journal.broker.service import Handlers
from windrow.journal.broker.tokens import (
    Authority,
    Capability,
    Forbidden,
    NotYours,
    Unauthenticated,
    current_claims,
)
from windrow.journal.errors import InvalidField
from windrow.journal.messages import fragment_from_pb, header_from_pb, sum_from_pb
from windrow.journal.status import Status
from windrow.journal.wire import protocol_pb2 as pb
from windrow.telemetry import get_logger
from windrow.telemetry.metrics import CONTENT_TYPE

_log = get_logger(__name__)

_NO_END = 2**63 - 1
_HTTP_STATUS = {
    Status.JOURNAL_NOT_FOUND: HTTPStatus.NOT_FOUND,
    Status.OFFSET_NOT_YET_AVAILABLE: HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE,
    Status.NO_JOURNAL_PRIMARY_BROKER: HTTPStatus.SERVICE_UNAVAILABLE,
    Status.INSUFFICIENT_JOURNAL_BROKERS: HTTPStatus.SERVICE_UNAVAILABLE,
}
_HTTP_ERROR: dict[type[Exception], HTTPStatus] = {
    Unauthenticated: HTTPStatus.UNAUTHORIZED,
    Forbidden: HTTPStatus.FORBIDDEN,
    NotYours: HTTPStatus.FORBIDDEN,
    InvalidField: HTTPStatus.BAD_REQUEST,
}


class Gateway:
    """Answers the requests of HTTP/1 connections."""

    def __init__(
        self,
        handlers: Handlers,
        authority: Authority,
        metrics: BrokerMetrics,
        problem: Callable[[], str | None],
        is_ready: asyncio.Event,
        allowed_origins: Collection[str] = (),
    ) -> None:
        self._is_ready, self._allowed_origins = is_ready, allowed_origins
        self._handlers, self._authority, self._metrics = handlers, authority, metrics
        self._problem = problem

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one connection until it ends."""
        try:
            while await self._serve_one(reader, writer):
                pass
        except (ConnectionError, EOFError):
            pass  # the caller left
        finally:
            writer.close()

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        nobody = Request("GET", "", {}, {"connection": "close"})
        try:
            request = await read_request(reader)
        except BadRequest as error:
            await Answer(writer, nobody).send(error.status, body=_line(str(error)))
            return False
        if request is None:
            return False
        answer = Answer(writer, request, origin_headers(request, self._allowed_origins))
        try:
            await self._answer(request, reader, answer)
        except (BadRequest, WindrowError) as error:
            await self._refuse(answer, error)
            return False
        # Only of a PUT do we know that its body was read to the end.
        has_body = "content-length" in request.headers or "transfer-encoding" in request.headers
        return request.keeps_alive and not has_body

    async def _refuse(self, answer: Answer, error: Exception) -> None:
        if answer.is_begun:
            await answer.end({"X-Close-Error": str(error)})
            return
        status = error.status if isinstance(error, BadRequest) else _HTTP_ERROR.get(type(error))
        await answer.send(status or HTTPStatus.INTERNAL_SERVER_ERROR, body=_line(str(error)))

    async def _answer(self, request: Request, reader: asyncio.StreamReader, answer: Answer) -> None:
        if self._allowed_origins and is_preflight(request):
            await answer.send(HTTPStatus.NO_CONTENT, preflight_headers())
            return
        match request.method, request.path:
            case "GET", "/metrics" | "/debug/metrics":
                body = self._metrics.exposition()
                await answer.send(HTTPStatus.OK, body=body, content_type=CONTENT_TYPE)
            case "GET" | "HEAD", "/debug/ready":
                problem = self._problem()
                status = HTTPStatus.OK if problem is None else HTTPStatus.SERVICE_UNAVAILABLE
                await answer.send(status, body=_line(problem or "ready"))
            case "POST", "/v1/journals/list":
                await self._admit(request, Capability.LIST)
                message = await _json_body(reader, request, pb.ListRequest())
                await _stream_json(answer, self._handlers.list.journals(message))
            case "POST", "/v1/journals/read":
                await self._admit(request, Capability.READ)
                read = await _json_body(reader, request, pb.ReadRequest())
                await _stream_json(answer, self._handlers.read.read(read, _metadata(request)))
            case "GET" | "HEAD", _:
                await self._admit(request, Capability.READ)
                await self._read(request, answer)
            case "PUT", _:
                await self._admit(request, Capability.APPEND)
                await self._append(request, reader, answer)
            case _:
                raise BadRequest("not a method of this gateway", HTTPStatus.METHOD_NOT_ALLOWED)

    async def _admit(self, request: Request, wanted: Capability) -> None:
        await self._is_ready.wait()
        current_claims.set(self._authority.verify(request.headers, wanted))

    async def _read(self, request: Request, answer: Answer) -> None:
        message = pb.ReadRequest(
            journal=_journal(request),
            offset=_number(request, "offset", 0),
            block=_flag(request, "block"),
            metadata_only=request.method == "HEAD",
        )
        async with aclosing(self._handlers.read.read(message, _metadata(request))) as responses:
            first = await anext(responses)
            headers = _read_headers(request, first)
            status = Status(first.status)
            if status is not Status.OK:
                await answer.send(_http_status(status), headers, _line(status.name))
            elif request.method == "HEAD":
                await answer.send(HTTPStatus.PARTIAL_CONTENT, headers)
            else:
                await self._stream(answer, headers, responses)

    async def _stream(
        self, answer: Answer, headers: dict[str, str], responses: AsyncIterator[pb.ReadResponse]
    ) -> None:
        answer.begin(HTTPStatus.PARTIAL_CONTENT, {**headers, "Trailer": "X-Close-Error"})
        ended = Status.OK
        async for response in responses:
            await answer.piece(response.content)
            ended = Status(response.status) or ended
        await answer.end({"X-Close-Error": "EOF" if ended is Status.OK else ended.name})

    async def _append(self, request: Request, reader: asyncio.StreamReader, answer: Answer) -> None:
        first = pb.AppendRequest(journal=_journal(request), offset=_number(request, "offset", 0))

        async def requests() -> AsyncIterator[pb.AppendRequest]:
            yield first
            try:
                async for piece in read_body(reader, request):
                    yield pb.AppendRequest(content=piece)
            except EOFError:
                return  # without the commit mark nothing of it stays
            yield pb.AppendRequest()

        response = await self._handlers.append.append(requests(), _metadata(request))
        status = Status(response.status)
        headers = _route_headers(request, response.header)
        if status is not Status.OK:
            await answer.send(_http_status(status), headers, _line(status.name))
            return
        commit = response.commit
        headers |= {
            "X-Commit-Begin": str(commit.begin),
            "X-Commit-End": str(commit.end),
            "X-Commit-SHA1-Sum": sum_from_pb(commit.sum).hex(),
        }
        await answer.send(HTTPStatus.NO_CONTENT, headers)


def _read_headers(request: Request, first: pb.ReadResponse) -> dict[str, str]:
    headers = _route_headers(request, first.header)
    headers["X-Write-Head"] = str(first.write_head)
    if Status(first.status) is Status.OK:
        headers["Content-Range"] = f"bytes {first.offset}-{_NO_END}/*"
    if first.HasField("fragment"):
        fragment = fragment_from_pb(first.fragment)
        headers["X-Fragment-Name"] = fragment.content_name()
        if fragment.mod_time:
            headers["X-Fragment-Last-Modified"] = _http_time(fragment.mod_time)
        if first.fragment_url:
            headers["X-Fragment-Location"] = first.fragment_url
    return headers


def _route_headers(request: Request, message: pb.Header) -> dict[str, str]:
    header = header_from_pb(message)
    route = header.route
    token = json_format.MessageToJson(message.route, indent=None)
    headers = {"X-Route-Token": token}
    server = header.process_id or route.primary_id
    endpoint = None if server is None else route.endpoint_of(server)
    if endpoint is not None:
        headers["Location"] = f"{endpoint}/{_journal(request)}"
    return headers


def _http_status(status: Status) -> HTTPStatus:
    return _HTTP_STATUS.get(status, HTTPStatus.INTERNAL_SERVER_ERROR)


def _http_time(seconds: int) -> str:
    from email.utils import formatdate

    return formatdate(seconds, usegmt=True)


def _journal(request: Request) -> str:
    return request.path.removeprefix("/")


def _number(request: Request, name: str, default: int) -> int:
    text = request.query.get(name)
    if text is None:
        return default
    if not text.removeprefix("-").isdecimal():
        raise BadRequest(f"{name} is not a number: {text!r}")
    return int(text)


def _flag(request: Request, name: str) -> bool:
    text = request.query.get(name, "false")
    if text.lower() not in ("true", "false", "1", "0", ""):
        raise BadRequest(f"{name} is true or false, not {text!r}")
    return text.lower() in ("true", "1", "")


def _metadata(request: Request) -> list[tuple[str, str | bytes]]:
    token = request.headers.get("authorization")
    return [] if token is None else [("authorization", token)]


async def _json_body(reader: asyncio.StreamReader, request: Request, message: Any) -> Any:
    body = b"".join([piece async for piece in read_body(reader, request)])
    try:
        return json_format.Parse(body or b"{}", message)
    except json_format.ParseError as error:
        raise BadRequest(f"not the JSON of a {type(message).__name__}: {error}") from error


async def _stream_json(answer: Answer, messages: Any) -> None:
    async with aclosing(messages) as stream:
        async for message in stream:
            if not answer.is_begun:
                answer.begin(HTTPStatus.OK, {"Content-Type": "application/json"})
            await answer.piece(_json_line(message))
    await answer.end({})


def _json_line(message: Message) -> bytes:
    return json.dumps({"result": json_format.MessageToDict(message)}).encode() + b"\n"


def _line(text: str) -> bytes:
    return text.encode() + b"\n"
