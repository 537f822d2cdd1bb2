"""One port for gRPC, HTTP/1 and frames: look at a connection's first bytes, then hand it on.

gRPC's server cannot take over a connection that somebody else accepted, so its bytes are copied
between two sockets. That costs a little of every call (see ``docs/performance.md``): the front is
only there if the gateway is to share the broker's port.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress

from windrow.journal.frames.format import HELLO

TakeFrames = Callable[[asyncio.Transport, bytes], None]

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HIGH_WATER = 1 << 20
FIRST_BYTES_TIMEOUT = 10.0

HttpHandler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Front:
    """Accepts all connections of a port and tells the protocols apart."""

    def __init__(self, grpc_socket: str, handle_http: HttpHandler, take_frames: TakeFrames) -> None:
        self._grpc_socket, self._handle_http = grpc_socket, handle_http
        self._take_frames = take_frames
        self._server: asyncio.Server | None = None
        self._open: set[_Caller] = set()

    async def start(self, listening: socket.socket, tls: ssl.SSLContext | None = None) -> None:
        """Accept the connections of a bound socket."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: _Caller(self), sock=listening, ssl=tls, backlog=512
        )

    def close(self) -> None:
        """Accept no more; connections go on."""
        if self._server is not None:
            self._server.close()

    def abort(self) -> None:
        """Accept no more, and drop what is open."""
        self.close()
        for caller in list(self._open):
            caller.abort()


class _Caller(asyncio.Protocol):
    """The caller's end: undecided at first, then a pipe to gRPC or a reader of HTTP/1."""

    def __init__(self, front: Front) -> None:
        self._front = front
        self._first = bytearray()
        self._transport: asyncio.Transport | None = None
        self._pipe: _GrpcEnd | None = None
        self._reader: asyncio.StreamReaderProtocol | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(high=HIGH_WATER)
        _send_at_once(transport)
        self._front._open.add(self)
        # A caller that says nothing must not hold a connection for ever.
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(FIRST_BYTES_TIMEOUT, self.abort)

    def data_received(self, data: bytes) -> None:
        if self._pipe is not None:
            self._pipe.send(data)
        elif self._reader is not None:
            self._reader.data_received(data)
        else:
            self._first += data
            self._decide()

    def _decide(self) -> None:
        first = bytes(self._first)
        if first.startswith(PREFACE):
            self._pipe = _GrpcEnd(self)
            self._pipe.send(first)
            self._task = asyncio.create_task(self._connect(self._pipe))
        elif first.startswith(HELLO):
            assert self._transport is not None
            self._front._open.discard(self)
            self._front._take_frames(self._transport, first[len(HELLO) :])
        elif PREFACE.startswith(first) or HELLO.startswith(first):
            return
        else:
            self._become_http()
        if self._timer is not None:
            self._timer.cancel()

    async def _connect(self, pipe: _GrpcEnd) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.create_unix_connection(lambda: pipe, self._front._grpc_socket)
        except OSError:
            self.abort()

    def _become_http(self) -> None:
        assert self._transport is not None
        reader = asyncio.StreamReader()
        self._reader = asyncio.StreamReaderProtocol(reader)
        self._reader.connection_made(self._transport)
        writer = asyncio.StreamWriter(
            self._transport, self._reader, reader, asyncio.get_running_loop()
        )
        self._reader.data_received(bytes(self._first))
        self._task = asyncio.create_task(self._serve_http(reader, writer))

    async def _serve_http(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._front._handle_http(reader, writer)
        finally:
            with suppress(OSError):
                writer.close()

    def eof_received(self) -> bool:
        if self._reader is not None:
            return bool(self._reader.eof_received())
        if self._pipe is not None:
            self._pipe.close()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._front._open.discard(self)
        if self._timer is not None:
            self._timer.cancel()
        if self._reader is not None:
            self._reader.connection_lost(exc)
        if self._pipe is not None:
            self._pipe.close()

    def pause_writing(self) -> None:
        if self._reader is not None:
            self._reader.pause_writing()
        elif self._pipe is not None:
            self._pipe.pause_reading()

    def resume_writing(self) -> None:
        if self._reader is not None:
            self._reader.resume_writing()
        elif self._pipe is not None:
            self._pipe.resume_reading()

    def send(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def pause_reading(self) -> None:
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()


class _GrpcEnd(asyncio.Protocol):
    """The end towards gRPC's own socket; keeps what came before it was connected."""

    def __init__(self, caller: _Caller) -> None:
        self._caller = caller
        self._transport: asyncio.Transport | None = None
        self._waiting: list[bytes] = []
        self._is_closed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(high=HIGH_WATER)
        if self._is_closed:
            transport.close()
            return
        for data in self._waiting:
            transport.write(data)
        self._waiting.clear()

    def send(self, data: bytes) -> None:
        if self._transport is None:
            self._waiting.append(data)
        else:
            self._transport.write(data)

    def data_received(self, data: bytes) -> None:
        self._caller.send(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._caller.close()

    def pause_writing(self) -> None:
        self._caller.pause_reading()

    def resume_writing(self) -> None:
        self._caller.resume_reading()

    def pause_reading(self) -> None:
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def close(self) -> None:
        self._is_closed = True
        if self._transport is not None:
            self._transport.close()


def _send_at_once(transport: asyncio.Transport) -> None:
    """Have answers wait for no acknowledgement of earlier ones: it takes 40 ms.

    Of the sockets that we have bound ourselves asyncio does not know that they speak TCP.
    """
    connection = transport.get_extra_info("socket")
    if connection.family in (socket.AF_INET, socket.AF_INET6):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
