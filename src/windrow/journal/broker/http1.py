"""Just enough of HTTP/1.1 for the gateway: requests with bodies, streamed answers with trailers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from types import MappingProxyType
from urllib.parse import parse_qs, unquote, urlsplit

from windrow.errors import Failed

MAX_HEAD_BYTES = 64 * 1024
BODY_CHUNK = 64 * 1024
HEAD_TIMEOUT = 30.0


class BadRequest(Failed):
    """What came is no request that this gateway takes."""

    def __init__(self, reason: str, status: HTTPStatus = HTTPStatus.BAD_REQUEST) -> None:
        super().__init__(reason, status)
        self.reason, self.status = reason, status

    def __str__(self) -> str:
        return self.reason


@dataclass(frozen=True, slots=True)
class Request:
    """The head of a request; names of headers are in lower case."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]

    @property
    def keeps_alive(self) -> bool:
        """Whether another request may follow on the connection."""
        return self.headers.get("connection", "").lower() != "close"


async def read_request(reader: asyncio.StreamReader) -> Request | None:
    """The next request of a connection; None when it has ended.

    Raises:
        BadRequest: It is malformed, too large, or came too slowly.
    """
    try:
        async with asyncio.timeout(HEAD_TIMEOUT):
            head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if error.partial.strip():
            raise BadRequest("the request ended within its head") from error
        return None
    except asyncio.LimitOverrunError as error:
        too_large = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
        raise BadRequest("the request's head is too large", too_large) from error
    except TimeoutError:
        return None
    return _parse(head)


def _parse(head: bytes) -> Request:
    try:
        first, *lines = head.decode("latin-1").strip("\r\n").split("\r\n")
        method, target, version = first.split(" ")
        headers = {}
        for line in lines:
            name, colon, value = line.partition(":")
            if not colon or name != name.strip() or not name:
                raise ValueError(line)
            headers[name.lower()] = value.strip()
        parts = urlsplit(target)
        query = {name: values[-1] for name, values in parse_qs(parts.query, True).items()}
    except ValueError as error:
        raise BadRequest("not a request of HTTP/1.1") from error
    if version not in ("HTTP/1.1", "HTTP/1.0"):
        raise BadRequest(f"{version} is not spoken here", HTTPStatus.HTTP_VERSION_NOT_SUPPORTED)
    if version == "HTTP/1.0":
        headers["connection"] = "close"
    return Request(method, unquote(parts.path), query, headers)


async def read_body(reader: asyncio.StreamReader, request: Request) -> AsyncIterator[bytes]:
    """The body in pieces, however it is framed.

    Raises:
        BadRequest: Its framing is wrong.
        EOFError: The connection ended within it.
    """
    if "chunked" in request.headers.get("transfer-encoding", "").lower():
        async for piece in _read_chunks(reader):
            yield piece
        return
    length = request.headers.get("content-length", "0")
    if not length.isdecimal():
        raise BadRequest("content-length is not a number")
    left = int(length)
    while left:
        piece = await reader.read(min(left, BODY_CHUNK))
        if not piece:
            raise EOFError("the connection ended within the body")
        left -= len(piece)
        yield piece


async def _read_chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while True:
        line = await reader.readline()
        try:
            left = int(line.split(b";")[0].strip(), 16)
        except ValueError as error:
            if not line:
                raise EOFError("the connection ended within the body") from error
            raise BadRequest("a chunk without a length") from error
        if left == 0:
            while (await reader.readline()).strip():
                pass  # trailers say nothing that an append needs
            return
        while left:
            piece = await reader.read(min(left, BODY_CHUNK))
            if not piece:
                raise EOFError("the connection ended within the body")
            left -= len(piece)
            yield piece
        await reader.readline()


class Answer:
    """The answer to one request: a head, then nothing, one body, or pieces with a trailer."""

    def __init__(
        self,
        writer: asyncio.StreamWriter,
        request: Request,
        common: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Prepare an answer; ``common`` are headers that it has whatever it says."""
        self._writer, self._request, self._common = writer, request, common
        self.is_begun = False

    async def send(
        self,
        status: HTTPStatus,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        content_type: str = "text/plain; charset=utf-8",
    ) -> None:
        """A whole answer at once."""
        fields = dict(headers or {})
        if status is not HTTPStatus.NO_CONTENT:
            fields |= {"Content-Type": content_type, "Content-Length": str(len(body))}
        self._head(status, fields)
        if self._request.method != "HEAD":
            self._writer.write(body)
        await self._writer.drain()

    def begin(self, status: HTTPStatus, headers: Mapping[str, str]) -> None:
        """The head of an answer whose length nobody knows yet."""
        self._head(status, {**headers, "Transfer-Encoding": "chunked"})

    async def piece(self, content: bytes) -> None:
        """A part of the body."""
        if content:
            self._writer.write(b"%x\r\n" % len(content))
            self._writer.write(content)
            self._writer.write(b"\r\n")
            await self._writer.drain()

    async def end(self, trailers: Mapping[str, str]) -> None:
        """The end of the body."""
        lines = "".join(f"{name}: {_one_line(value)}\r\n" for name, value in trailers.items())
        self._writer.write(f"0\r\n{lines}\r\n".encode("latin-1", "replace"))
        await self._writer.drain()

    def _head(self, status: HTTPStatus, headers: Mapping[str, str]) -> None:
        self.is_begun = True
        fields = {**self._common, **headers}
        if not self._request.keeps_alive:
            fields["Connection"] = "close"
        lines = [f"HTTP/1.1 {status.value} {status.phrase}"]
        lines += [f"{name}: {_one_line(value)}" for name, value in fields.items()]
        self._writer.write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace"))


def _one_line(value: str) -> str:
    return value.replace("\r", " ").replace("\n", " ")
