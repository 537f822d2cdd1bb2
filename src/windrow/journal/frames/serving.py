"""The broker's side: connections that speak frames, and the calls of the service on them.

A call is answered by the very method that answers it over gRPC, which is given a context with the
part of gRPC's that it uses.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Protocol

import grpc

from windrow.journal.frames.format import (
    GATHERED,
    HELLO,
    HIGH_WATER,
    BrokenFrames,
    Ending,
    FrameReader,
    Kind,
    Metadata,
    Opening,
    frame,
)
from windrow.journal.not_written import FailureKind
from windrow.journal.wire import protocol_pb2 as pb
from windrow.telemetry import get_logger

_log = get_logger(__name__)

STOPPING = "the broker is shutting down, and has not begun this call; try another one"


class Service(Protocol):
    """The methods that are served."""

    async def Append(self, requests: Any, context: Any) -> Any:
        """Perform one append."""

    def Replicate(self, requests: Any, context: Any) -> AsyncIterator[Any]:
        """Serve a primary."""

    def Read(self, request: Any, context: Any) -> AsyncIterator[Any]:
        """Give out content."""


class FrameServer:
    """All connections that speak frames."""

    def __init__(self, service: Service, max_message_bytes: int) -> None:
        self.limit = max_message_bytes
        self.is_stopping = False
        self._methods = {
            "Append": _Method(pb.AppendRequest.FromString, service.Append),
            "Replicate": _Method(pb.ReplicateRequest.FromString, service.Replicate, True),
            "Read": _Method(pb.ReadRequest.FromString, _of_one(service.Read), True, gathers=True),
        }
        self._open: set[_Served] = set()

    def take(self, transport: asyncio.Transport, first: bytes) -> None:
        """Serve a connection, of which these bytes behind the greeting have come already."""
        served = _Served(self, transport)
        self._open.add(served)
        transport.set_protocol(served)
        transport.write(HELLO)
        if self.is_stopping:
            served.say_farewell()
        elif first:
            served.data_received(first)

    async def stop(self, grace: float) -> None:
        """Begin no more calls, and give those under way so many seconds to end."""
        self.is_stopping = True
        for served in tuple(self._open):
            served.say_farewell()
        if tasks := [served.task for served in self._open if served.task is not None]:
            await asyncio.wait(tasks, timeout=grace)
        self.abort()

    def abort(self) -> None:
        """Drop all connections."""
        for served in tuple(self._open):
            served.abort()

    def on_lost(self, served: _Served) -> None:
        """A connection is gone."""
        self._open.discard(served)

    def method(self, name: str) -> _Method:
        """What answers calls of that name.

        Raises:
            BrokenFrames: Nothing does.
        """
        if name not in self._methods:
            raise BrokenFrames(f"no method {name!r} is served in frames")
        return self._methods[name]


@dataclass(frozen=True, slots=True)
class _Method:
    """A method of the service: how its messages are read, and how it answers."""

    parse: Callable[[bytes], Any]
    call: Callable[[Any, Any], Any]
    is_stream: bool = False
    """Whether it answers with many messages."""
    gathers: bool = False
    """Whether those that come in one breath, and the end with them, are sent together."""


def _of_one(method: Callable[[Any, Any], Any]) -> Callable[[Any, Any], AsyncGenerator[Any, None]]:
    """A method that takes one message, as one that takes a stream of them."""

    async def call(requests: Requests, context: Context) -> AsyncGenerator[Any, None]:
        async for request in requests:
            async with aclosing(method(request, context)) as answers:
                async for answer in answers:
                    yield answer
            return
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the call says nothing")

    return call


class Requests:
    """The messages of a caller, as the service's methods iterate over them."""

    def __init__(self, parse: Callable[[bytes], Any], resume: Callable[[], None]) -> None:
        self.held_bytes = 0
        self._parse, self._resume = parse, resume
        self._payloads: deque[bytes] = deque()
        self._has_ended = False
        self._waiter: asyncio.Future[None] | None = None

    def put(self, payload: bytes) -> None:
        """A message came."""
        self._payloads.append(payload)
        self.held_bytes += len(payload)
        self._wake()

    def end(self) -> None:
        """No more messages come."""
        self._has_ended = True
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def rest(self) -> Iterator[Any] | None:
        """All messages that are left, if the last one is here; else None, and nothing is taken."""
        if not self._has_ended:
            return None
        payloads, self._payloads, self.held_bytes = self._payloads, deque(), 0
        return map(self._parse, payloads)

    def __aiter__(self) -> Requests:
        return self

    async def __anext__(self) -> Any:
        while not self._payloads:
            if self._has_ended:
                raise StopAsyncIteration
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        payload = self._payloads.popleft()
        self.held_bytes -= len(payload)
        self._resume()
        return self._parse(payload)


class Context:
    """What the service's methods use of gRPC's context."""

    def __init__(self, metadata: Metadata) -> None:
        self.ending = Ending()
        self.is_cancelled = False
        self._metadata = metadata

    def invocation_metadata(self) -> Metadata:
        """What came with the call."""
        return self._metadata

    def cancelled(self) -> bool:
        """Whether the caller is gone."""
        return self.is_cancelled

    async def abort(
        self, code: grpc.StatusCode, details: str = "", trailing_metadata: Metadata = ()
    ) -> None:
        """End the call with an error."""
        self.ending = Ending(code.name, details, tuple(trailing_metadata))
        raise grpc.aio.AbortError


class _Served(asyncio.Protocol):
    """One connection, with one call at a time."""

    def __init__(self, server: FrameServer, transport: asyncio.Transport) -> None:
        self.task: asyncio.Task[None] | None = None
        self._server, self._transport = server, transport
        self._reader = FrameReader(server.limit)
        self._requests: Requests | None = None
        """Of the call whose messages may still come; None between calls."""
        self._context = Context(())
        self._is_paused = False
        self._drained: asyncio.Future[None] | None = None
        self._unsent: list[bytes] = []
        self._unsent_bytes = 0
        self._flushing: asyncio.Handle | None = None

    # -- what comes ------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        try:
            for kind, payload in self._reader.feed(data):
                self._on_frame(kind, payload)
        except BrokenFrames as error:
            self._refuse(str(error))

    def _refuse(self, reason: str) -> None:
        if self.task is not None and self._requests is None:
            self._transport.abort()  # a call that came as a whole may succeed: say nothing of it
            return
        self._write(frame(Kind.END, Ending("INVALID_ARGUMENT", reason).encode()))
        self._transport.close()

    def _on_frame(self, kind: int, payload: bytes) -> None:
        requests = self._requests
        if requests is not None and self.task is None:
            # The call ended before its caller did, who may not know yet.
            if kind == Kind.DONE:
                self._requests = None
        elif kind == Kind.OPEN and requests is None and self.task is None:
            self._open(Opening.decode(payload))
        elif kind == Kind.MESSAGE and requests is not None:
            requests.put(payload)
            if requests.held_bytes > HIGH_WATER and not self._is_paused:
                self._is_paused = True
                self._transport.pause_reading()
        elif kind == Kind.DONE and requests is not None:
            self._requests = None
            requests.end()
        elif not self._transport.is_closing():
            raise BrokenFrames(f"a frame of kind {kind} out of turn")

    def _open(self, opening: Opening) -> None:
        if self._server.is_stopping:
            return  # it was told already
        method, context = self._server.method(opening.method), Context(opening.metadata)
        requests = Requests(method.parse, self._resume)
        self._requests, self._context = requests, context
        self.task = asyncio.create_task(self._answer(method, requests, context))

    def _resume(self) -> None:
        requests = self._requests
        if self._is_paused and (requests is None or requests.held_bytes <= HIGH_WATER // 2):
            self._is_paused = False
            if not self._transport.is_closing():
                self._transport.resume_reading()

    # -- what is answered ------------------------------------------------------------------------

    async def _answer(self, method: _Method, requests: Requests, context: Context) -> None:
        last = b""
        try:
            if method.is_stream:
                await self._answer_many(method.call(requests, context), method.gathers)
            else:
                answer = await method.call(requests, context)
                last = frame(Kind.MESSAGE, answer.SerializeToString())
        except grpc.aio.AbortError:
            pass  # the context has it
        except asyncio.CancelledError:
            self._transport.abort()
            raise
        except Exception as error:
            _log.exception("call failed")
            context.ending = Ending("UNKNOWN", f"{type(error).__name__}: {error}")
        self._end(last, context.ending)

    async def _answer_many(self, answers: AsyncGenerator[Any, None], gathers: bool) -> None:
        write = self._put if gathers else self._write
        async with aclosing(answers):
            async for answer in answers:
                write(frame(Kind.MESSAGE, answer.SerializeToString()))
                if self._drained is not None:
                    await self._drained
                elif gathers and not self._unsent:
                    await asyncio.sleep(0)  # of a long answer to a quick reader others get a turn

    def _end(self, last: bytes, ending: Ending) -> None:
        self._write(last + frame(Kind.END, ending.encode()))
        self.task = None
        if self._requests is not None:
            self._requests.held_bytes = 0
            self._resume()  # nobody hears what still comes, but its end is to be seen
        if self._server.is_stopping:
            self.say_farewell()

    def _put(self, data: bytes) -> None:
        """Send it with what else is put or written in this turn of the loop."""
        self._unsent.append(data)
        self._unsent_bytes += len(data)
        if self._unsent_bytes > GATHERED:
            self._write(b"")
        elif self._flushing is None:
            self._flushing = asyncio.get_running_loop().call_soon(self._write, b"")

    def _write(self, data: bytes) -> None:
        """Send it, behind what was put before."""
        if self._flushing is not None:
            self._flushing.cancel()
            self._flushing = None
        if self._unsent:
            data = b"".join((*self._unsent, data))
            self._unsent, self._unsent_bytes = [], 0
        if not self._transport.is_closing():
            self._transport.write(data)

    def say_farewell(self) -> None:
        """Serve no more calls; one that was sent and not begun is told that it was not."""
        if self.task is None:
            untouched = FailureKind.PASSING.as_metadata()
            ending = Ending("UNAVAILABLE", STOPPING, untouched)
            self._write(frame(Kind.END, ending.encode()))
            self._transport.close()

    # -- the connection --------------------------------------------------------------------------

    def pause_writing(self) -> None:
        self._drained = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        drained, self._drained = self._drained, None
        if drained is not None and not drained.done():
            drained.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.on_lost(self)
        self._context.is_cancelled = True
        self.resume_writing()
        if self.task is not None:
            self.task.cancel()

    def abort(self) -> None:
        """Drop it, and cancel what is under way."""
        self._transport.abort()
