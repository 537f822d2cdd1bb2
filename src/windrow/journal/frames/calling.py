"""One call from the caller's side, with the methods of a call of ``grpc.aio``.

Whoever makes it need not know how it travels: if the other end speaks gRPC only, it is passed on to
a call of gRPC, and its failures are those that gRPC would give.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Generator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import grpc

from windrow.journal.frames.format import (
    GATHERED,
    GOOD_END,
    HELLO,
    HIGH_WATER,
    BrokenFrames,
    Ending,
    FrameReader,
    Kind,
    Opening,
    frame,
)
from windrow.journal.not_written import FailureKind

NEVER_LEFT = "failed to connect to all addresses"
"""How gRPC tells of a call for which there was no connection: nothing of it was sent."""

MAX_ANSWER = 64 * 1024 * 1024

_EOF: Any = grpc.aio.EOF  # type: ignore[attr-defined]
_CANCELLED = Ending("CANCELLED", "cancelled by the caller")

T = TypeVar("T")


class Connection(asyncio.Protocol):
    """A connection to a broker, for one call at a time."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.greeted: asyncio.Future[bool] = loop.create_future()
        """Whether the other end speaks frames."""
        self._greeting = bytearray()
        self._reader = FrameReader(MAX_ANSWER)
        self._transport: asyncio.Transport | None = None
        self._call: Call | None = None
        self._unsent: list[bytes] = []
        self._unsent_bytes = 0
        self._flushing: asyncio.Handle | None = None
        self._drained: asyncio.Future[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Greet."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.write(HELLO)

    @property
    def is_open(self) -> bool:
        """Whether a call may begin on it."""
        return self._transport is not None and not self._transport.is_closing()

    def begin(self, call: Call) -> None:
        """From now on what comes is that call's."""
        self._call = call

    def rest(self) -> None:
        """The call is over; another one may begin."""
        self._call = None
        self.go_on()

    def hold_back(self) -> None:
        """Read no more for now: whoever is answered lags behind."""
        if self.is_open and self._transport is not None:
            self._transport.pause_reading()

    def go_on(self) -> None:
        """Read on."""
        if self.is_open and self._transport is not None:
            self._transport.resume_reading()

    def put(self, data: bytes) -> None:
        """Send it with whatever else is put in this turn of the loop, or by ``flush`` before."""
        self._unsent.append(data)
        self._unsent_bytes += len(data)
        if self._unsent_bytes > GATHERED:
            self.flush()
        elif self._flushing is None:
            self._flushing = asyncio.get_running_loop().call_soon(self.flush)

    def flush(self) -> None:
        """Send what was put."""
        if self._flushing is not None:
            self._flushing.cancel()
            self._flushing = None
        if self._unsent and self._transport is not None and self._call is not None:
            data, self._unsent, self._unsent_bytes = b"".join(self._unsent), [], 0
            self._call.has_left = True
            self._transport.write(data)

    @property
    def is_full(self) -> bool:
        """Whether the other end takes no more for now."""
        return self._drained is not None

    async def drain(self) -> None:
        """Return once the other end has taken enough for more to be sent."""
        if self._drained is not None:
            await asyncio.shield(self._drained)

    def abort(self) -> None:
        """Drop it, and whatever was not sent."""
        self._unsent, self._unsent_bytes, self._call = [], 0, None
        if self._transport is not None:
            self._transport.abort()

    def pause_writing(self) -> None:
        """The other end takes no more for now."""
        self._drained = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        """It takes more again."""
        drained, self._drained = self._drained, None
        if drained is not None and not drained.done():
            drained.set_result(None)

    def data_received(self, data: bytes) -> None:
        """Cut it into frames; before that, the greeting."""
        if not self.greeted.done():
            self._greeting += data
            data = self._on_greeting()
        try:
            for kind, payload in self._reader.feed(data):
                if self._call is None:
                    # The broker's farewell to an idle connection, and nothing else.
                    self.abort()
                    return
                self._call.on_frame(kind, payload)
        except BrokenFrames as error:
            self.lose(str(error))

    def _on_greeting(self) -> bytes:
        got, wanted = bytes(self._greeting), HELLO
        if not wanted.startswith(got[: len(wanted)]):
            self.greeted.set_result(False)
            self.abort()
        elif len(got) >= len(wanted):
            self.greeted.set_result(True)
            return got[len(wanted) :]
        return b""

    def eof_received(self) -> bool:
        """The other end sends no more, so nothing on it can be answered."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Whatever was under way is over."""
        self.resume_writing()
        if not self.greeted.done():
            self.greeted.set_result(False)
        self.lose(str(exc or "the other end closed it"))

    def lose(self, reason: str) -> None:
        """Drop it, and end the call on it."""
        call = self._call
        self.abort()
        if call is not None:
            call.on_lost(reason)


@dataclass(frozen=True, slots=True)
class Way:
    """How a call gets to its broker."""

    connect: Callable[[], Awaitable[Connection | None]]
    """A connection that nobody uses; None if the broker speaks gRPC only. Raises OSError."""
    give_back: Callable[[Connection], None]
    """Take back a connection whose call ended in good order."""
    by_grpc: Callable[[], Any]
    """The same call over gRPC."""


class OneMessage:
    """A call of gRPC that takes one message, with the methods of one that takes a stream."""

    def __init__(self, begin: Callable[[Any], Any]) -> None:
        self._begin = begin
        self._call: Any = None

    async def write(self, message: Any) -> None:
        """Begin it."""
        self._call = self._begin(message)

    async def done_writing(self) -> None:
        """Say that no more messages come, which it knows."""

    async def read(self) -> Any:
        """The next message of the answer, or ``grpc.aio.EOF``."""
        return await self._call.read()

    def done(self) -> bool:
        """Whether it has ended."""
        return self._call is not None and bool(self._call.done())

    def cancel(self) -> None:
        """End it."""
        if self._call is not None:
            self._call.cancel()


class Call:
    """A call of a broker, whichever way it takes."""

    def __init__(
        self,
        way: Way,
        opening: Opening,
        parse: Callable[[bytes], Any],
        *,
        gathers: bool,
        timeout: float | None = None,
    ) -> None:
        """Prepare a call; it begins with its first message.

        Args:
            way: How it gets there.
            opening: Its method and metadata.
            parse: Makes a message of what is answered.
            gathers: Its messages come in one breath, and are sent together.
            timeout: Seconds until it ends as ``DEADLINE_EXCEEDED``.
        """
        self._way, self._opening, self._parse = way, opening, parse
        self._gathers, self._timeout = gathers, timeout
        self._connection: Connection | None = None
        self._other: Any = None
        self._timer: asyncio.TimerHandle | None = None
        self._answers: deque[bytes] = deque()
        self._unread_bytes = 0
        self._is_held_back = False
        self._ending: Ending | None = None
        self._is_done_writing = False
        self._waiter: asyncio.Future[None] | None = None
        self.has_left = False
        """Whether anything of it was sent."""

    # -- sending ---------------------------------------------------------------------------------

    async def write(self, message: Any) -> None:
        """Send a message.

        Raises:
            AioRpcError: The call has ended without an answer.
            InvalidStateError: It has ended, or this side of it.
        """
        try:
            if self._connection is None and self._other is None:
                await self._begin()
            if self._other is not None:
                await self._by_grpc(self._other.write(message))
                return
            while not self.write_now(message):
                self._check_open()
                assert self._connection is not None
                await self._connection.drain()
        except asyncio.CancelledError:
            self.cancel()
            raise

    def write_now(self, message: Any) -> bool:
        """Send a message if nothing has to be waited for; False if it was not sent."""
        connection = self._connection
        if connection is None or connection.is_full or self.done() or self._is_done_writing:
            return False
        connection.put(frame(Kind.MESSAGE, message.SerializeToString()))
        if not self._gathers:
            connection.flush()
        return True

    async def done_writing(self) -> None:
        """Say that no more messages come."""
        if self._other is not None:
            with suppress(grpc.aio.AioRpcError):  # ended meanwhile, as its answer tells
                await self._by_grpc(self._other.done_writing())
        elif self._connection is None and not self.done():
            self._end(GOOD_END)  # it was never begun
        elif self._connection is not None and not self._is_done_writing and not self.done():
            self._is_done_writing = True
            self._connection.put(frame(Kind.DONE))
            self._connection.flush()

    async def _begin(self) -> None:
        self._check_open()
        if self._timeout is not None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._timeout, self._on_deadline)
        try:
            connection = await self._way.connect()
        except OSError as error:
            self._end(Ending("UNAVAILABLE", f"{NEVER_LEFT}; last error: {error}"))
            raise self._error() from error
        if self.done():  # its time was over before there was a connection
            if connection is not None:
                self._way.give_back(connection)
            raise self._error()
        if connection is None:
            self._stop_timer()
            self._other = self._way.by_grpc()
            return
        self._connection = connection
        connection.begin(self)
        connection.put(frame(Kind.OPEN, self._opening.encode()))

    def _check_open(self) -> None:
        if self._ending is not None and not self._ending.is_ok:
            raise self._error()
        if self._ending is not None or self._is_done_writing:
            raise asyncio.InvalidStateError("the call has ended")

    # -- receiving -------------------------------------------------------------------------------

    async def read(self) -> Any:
        """The next message of the answer, or ``grpc.aio.EOF``.

        Raises:
            AioRpcError: The call has failed.
        """
        if self._other is not None:
            return await self._by_grpc(self._other.read())
        while not self._answers:
            if self._ending is not None:
                if self._ending.is_ok:
                    return _EOF
                raise self._error()
            await self._wait()
        return self._take()

    def read_now(self) -> Any | None:
        """The next message of the answer, if it is here already."""
        return self._take() if self._answers else None

    def _take(self) -> Any:
        payload = self._answers.popleft()
        self._unread_bytes -= len(payload)
        if self._is_held_back and self._unread_bytes <= HIGH_WATER // 2:
            self._is_held_back = False
            if self._ending is None and self._connection is not None:
                self._connection.go_on()
        return self._parse(payload)

    def __await__(self) -> Generator[Any, None, Any]:
        """The one message that is answered."""
        return self._answer().__await__()

    async def _answer(self) -> Any:
        if self._other is not None:
            return await self._by_grpc(self._other)
        while self._ending is None:
            await self._wait()
        if self._ending.is_ok and self._answers:
            return self._parse(self._answers[0])
        raise self._error()

    async def _by_grpc(self, step: Awaitable[T]) -> T:
        """A step of the call that gRPC makes in our place.

        When that call is cancelled, by us or with its channel, gRPC tells whoever uses it by
        CancelledError. Who was not cancelled himself would take it for his own end, and go without
        giving back what he holds; so it is an error, as it is in frames.
        """
        try:
            return await step
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            self._ending = _CANCELLED
            raise self._error() from None

    async def _wait(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        except asyncio.CancelledError:
            self.cancel()
            raise
        finally:
            self._waiter = None

    def on_frame(self, kind: int, payload: bytes) -> None:
        """Something came.

        Raises:
            BrokenFrames: It is not what a broker says.
        """
        if kind == Kind.MESSAGE:
            self._put(payload)
        elif kind == Kind.END:
            self._on_end(Ending.decode(payload))
        else:
            raise BrokenFrames(f"a frame of kind {kind}")
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _put(self, payload: bytes) -> None:
        self._answers.append(payload)
        self._unread_bytes += len(payload)
        if self._unread_bytes > HIGH_WATER and not self._is_held_back:
            assert self._connection is not None
            self._is_held_back = True
            self._connection.hold_back()

    def _on_end(self, ending: Ending) -> None:
        connection = self._connection
        assert connection is not None
        if self._is_done_writing:
            connection.rest()
            self._way.give_back(connection)
        else:
            connection.abort()  # what we have still to say would be taken for the next call
        self._end(ending)

    def on_lost(self, reason: str) -> None:
        """The connection broke; of what never left it we know that nothing came of it."""
        known = FailureKind.UNKNOWN if self.has_left else FailureKind.PASSING
        self._end(Ending("UNAVAILABLE", f"connection lost: {reason}", known.as_metadata()))

    # -- ending ----------------------------------------------------------------------------------

    def done(self) -> bool:
        """Whether it has ended."""
        if self._other is not None:
            return bool(self._other.done())
        return self._ending is not None

    def cancel(self) -> None:
        """End it; the broker learns of it by the end of the connection."""
        if self._other is not None:
            self._other.cancel()
        elif self._ending is None:
            self._drop(_CANCELLED)

    async def code(self) -> grpc.StatusCode:
        """How it ended; once it has."""
        if self._other is not None:
            return await self._other.code()  # type: ignore[no-any-return]
        return _code(self._ending or GOOD_END)

    async def details(self) -> str:
        """What was said of it; once it has ended."""
        if self._other is not None:
            return await self._other.details()  # type: ignore[no-any-return]
        return (self._ending or GOOD_END).details

    def _on_deadline(self) -> None:
        if self._ending is None:
            self._drop(Ending("DEADLINE_EXCEEDED", "Deadline Exceeded"))

    def _drop(self, ending: Ending) -> None:
        if self._connection is not None:
            self._connection.abort()
        self._end(ending)

    def _end(self, ending: Ending) -> None:
        self._ending = ending
        self._stop_timer()
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _error(self) -> grpc.aio.AioRpcError:
        ending = self._ending or GOOD_END
        details = ending.details or "it ended without an answer"
        trailing = grpc.aio.Metadata(*ending.trailing)
        return grpc.aio.AioRpcError(_code(ending), grpc.aio.Metadata(), trailing, details, None)


def _code(ending: Ending) -> grpc.StatusCode:
    return getattr(grpc.StatusCode, ending.code, grpc.StatusCode.UNKNOWN)
