"""A TCP link on loopback that can be cut, stalled, delayed and reset.

It stands between a client and a service and carries bytes both ways, in a thread of its own.
What becomes of the bytes is decided in :mod:`windrow.embedded.link_rules`; here are the sockets.
"""

from __future__ import annotations

import selectors
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from windrow.embedded.link_rules import Action, Chunk, DelayLine, Direction, OnBytes, pass_all
from windrow.embedded.ports import LOOPBACK

Target = tuple[str, int] | Path
"""The service: a host and a port, or a unix socket."""

READ_SIZE: Final = 256 * 1024
# Per direction of a connection. Past it the link stops reading, as a full pipe would: high enough
# that a delayed link keeps its bandwidth.
HELD_LIMIT: Final = 64 * 1024 * 1024
CONTROL_TIMEOUT: Final = 10.0


@dataclass(eq=False)
class _Pipe:
    """One direction of one connection."""

    direction: Direction
    source: socket.socket
    sink: socket.socket
    line: DelayLine = field(default_factory=DelayLine)
    unsent: memoryview | None = None
    """The rest of the chunk that the hook has let pass."""
    source_ended: bool = False
    sink_ended: bool = False


@dataclass(eq=False)
class _Connection:
    number: int
    client: socket.socket
    service: socket.socket
    pipes: tuple[_Pipe, _Pipe]


class Link:
    """A link from ``address`` to a service.

    Every control takes effect before it returns: after ``cut()`` or ``stall()`` not one more byte
    is passed on. They may be called from any thread, but not from ``on_bytes``, which returns an
    :class:`Action` instead. What a cut or a reset finds inside the link is lost.
    """

    def __init__(self, target: Target | None, on_bytes: OnBytes = pass_all) -> None:
        self.target = target
        """Where the next connection leads; while there is none, connections are reset."""
        self.on_bytes = on_bytes
        """Asked about every chunk; may be set at any time."""
        self.acted = threading.Event()
        """Set once ``on_bytes`` has asked for something else than to pass."""
        self.connections = 0
        """Connections taken since the start."""
        self.bytes_passed = {Direction.TO_SERVICE: 0, Direction.TO_CLIENT: 0}
        self._delay = 0.0
        self._stalled = False
        self._stopping = False
        self._failure: Exception | None = None
        self._open: list[_Connection] = []
        self._commands: deque[tuple[Callable[[], None], Future[None]]] = deque()
        self._selector = selectors.DefaultSelector()
        self._wake_up, self._woken = socket.socketpair()
        self._woken.setblocking(False)
        self._selector.register(self._woken, selectors.EVENT_READ)
        # Bound and never listening: it keeps the port ours while the link refuses connections.
        self._holder = _bound_socket(0)
        self.port: int = self._holder.getsockname()[1]
        """The port that clients connect to, the same for the whole life of the link."""
        self._listener: socket.socket | None = None
        self._listen()
        self._thread = threading.Thread(target=self._run, name=f"link-{self.port}", daemon=True)

    @classmethod
    def start(cls, target: Target | None = None, on_bytes: OnBytes = pass_all) -> Self:
        """Open a link to ``target``, which may also be set later."""
        link = cls(target, on_bytes)
        link._thread.start()
        return link

    @property
    def address(self) -> str:
        """``host:port`` for clients."""
        return f"{LOOPBACK}:{self.port}"

    @property
    def open_connections(self) -> int:
        """Connections that are open now."""
        return len(self._open)

    @property
    def is_stalled(self) -> bool:
        """Whether bytes are held."""
        return self._stalled

    def cut(self) -> None:
        """Close all connections and refuse new ones."""
        self._do(self._cut)

    def restore(self) -> None:
        """Take connections again after a cut."""
        self._do(self._listen)

    def stall(self) -> None:
        """Keep all connections open, take new ones, and pass no byte."""
        self._do(lambda: self._set_stalled(True))

    def resume(self) -> None:
        """Pass on what a stall has held, and all that follows."""
        self._do(lambda: self._set_stalled(False))

    def delay(self, seconds: float) -> None:
        """Hold bytes that arrive from now on that long, in each direction."""
        self._do(lambda: setattr(self, "_delay", seconds))

    def reset(self) -> None:
        """End all connections with a TCP reset; new ones are welcome."""
        self._do(self._reset)

    def stop(self) -> None:
        """Close everything.

        Raises:
            Exception: Whatever ``on_bytes`` raised; it ended the link at that moment.
        """
        if self._thread.is_alive():
            with suppress(_Ended):
                self._do(lambda: setattr(self, "_stopping", True))
            self._thread.join(CONTROL_TIMEOUT)
        if self._failure is not None:
            raise self._failure

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _do(self, command: Callable[[], None]) -> None:
        """Run a command in the link's thread and wait until it has run."""
        if threading.current_thread() is self._thread:
            raise AssertionError("on_bytes controls its link by the Action it returns")
        done: Future[None] = Future()
        self._commands.append((command, done))
        if not self._thread.is_alive():
            raise _Ended(f"the link at {self.address} has ended")
        with suppress(OSError):  # ended a moment ago: the answer is in the future already
            self._wake_up.send(b"!")
        done.result(CONTROL_TIMEOUT)

    # From here on everything runs in the link's thread.

    def _run(self) -> None:
        try:
            while not self._stopping:
                now = time.monotonic()
                self._update_interest(now)
                for key, ready in self._selector.select(self._seconds_to_next(now)):
                    self._on_ready(key, ready)
        except Exception as error:
            self._failure = error
        finally:
            self._close_all()

    def _on_ready(self, key: selectors.SelectorKey, ready: int) -> None:
        if key.fileobj is self._woken:
            self._run_commands()
        elif key.fileobj is self._listener:
            self._accept(self._listener)
        elif key.data in self._open:  # not closed by an event of this very round
            self._carry(key.data, key.fileobj, ready)

    def _run_commands(self) -> None:
        with suppress(BlockingIOError):
            self._woken.recv(1024)
        while self._commands:
            command, done = self._commands.popleft()
            command()
            done.set_result(None)

    def _accept(self, listener: socket.socket) -> None:
        try:
            client, _ = listener.accept()
        except OSError:  # the client has gone already
            return
        client.setblocking(False)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        service = _dial(self.target)
        if service is None:
            _close_with_reset(client)
            return
        self.connections += 1
        pipes = (
            _Pipe(Direction.TO_SERVICE, client, service),
            _Pipe(Direction.TO_CLIENT, service, client),
        )
        self._open.append(_Connection(self.connections, client, service, pipes))

    def _carry(self, connection: _Connection, ready_socket: object, ready: int) -> None:
        for pipe in connection.pipes:
            try:
                if pipe.source is ready_socket and ready & selectors.EVENT_READ:
                    self._read(pipe)
                    self._write(connection, pipe)
                if pipe.sink is ready_socket and ready & selectors.EVENT_WRITE:
                    self._write(connection, pipe)
            except BlockingIOError:
                continue
            except OSError:
                # One end is gone: the other one shall see that too.
                self._close(connection, _close_with_reset)
            if connection not in self._open:
                return

    def _read(self, pipe: _Pipe) -> None:
        if self._may_read(pipe):
            payload = pipe.source.recv(READ_SIZE)
            pipe.source_ended = not payload
            pipe.line.push(payload, time.monotonic(), self._delay)

    def _write(self, connection: _Connection, pipe: _Pipe) -> None:
        if self._stalled:
            return
        if pipe.unsent is None:
            payload = pipe.line.pop(time.monotonic())
            if payload is None:
                return
            if not payload:
                self._end(connection, pipe)
                return
            pipe.unsent = memoryview(payload)
            if not self._passes(Chunk(connection.number, pipe.direction, payload)):
                return
        sent = pipe.sink.send(pipe.unsent)
        self.bytes_passed[pipe.direction] += sent
        pipe.unsent = pipe.unsent[sent:] or None

    def _passes(self, chunk: Chunk) -> bool:
        try:
            action = self.on_bytes(chunk)
        except Exception as error:
            self._failure, self._stopping = error, True
            return False
        match action:
            case Action.PASS:
                return True
            case Action.CUT:
                self._cut()
            case Action.RESET:
                self._reset()
            case Action.STALL:
                self._set_stalled(True)
        self.acted.set()
        return False

    def _end(self, connection: _Connection, pipe: _Pipe) -> None:
        """Hand on the end of a stream; the connection is over when both have ended."""
        pipe.sink.shutdown(socket.SHUT_WR)
        pipe.sink_ended = True
        if all(each.sink_ended for each in connection.pipes):
            self._close(connection, socket.socket.close)

    def _may_read(self, pipe: _Pipe) -> bool:
        return not self._stalled and not pipe.source_ended and pipe.line.size < HELD_LIMIT

    def _may_write(self, pipe: _Pipe, now: float) -> bool:
        if self._stalled:
            return False
        due_at = pipe.line.due_at()
        return pipe.unsent is not None or (due_at is not None and due_at <= now)

    def _seconds_to_next(self, now: float) -> float | None:
        """Until a held chunk falls due; None is until a socket is ready.

        What is due already waits for its socket, not for the time.
        """
        if self._stalled:
            return None
        pipes = (pipe for connection in self._open for pipe in connection.pipes)
        moments = [due for pipe in pipes if (due := pipe.line.due_at()) is not None and due > now]
        return min(moments) - now if moments else None

    def _update_interest(self, now: float) -> None:
        for connection in self._open:
            for end in (connection.client, connection.service):
                events = 0
                for pipe in connection.pipes:
                    if pipe.source is end and self._may_read(pipe):
                        events |= selectors.EVENT_READ
                    if pipe.sink is end and self._may_write(pipe, now):
                        events |= selectors.EVENT_WRITE
                self._watch(end, events, connection)

    def _watch(self, end: socket.socket, events: int, connection: _Connection) -> None:
        watched = end in self._selector.get_map()
        if events and watched:
            self._selector.modify(end, events, connection)
        elif events:
            self._selector.register(end, events, connection)
        elif watched:
            self._selector.unregister(end)

    def _listen(self) -> None:
        if self._listener is None:
            self._listener = _bound_socket(self.port)
            self._listener.setblocking(False)
            self._listener.listen(128)
            self._selector.register(self._listener, selectors.EVENT_READ)

    def _cut(self) -> None:
        if self._listener is not None:
            self._selector.unregister(self._listener)
            self._listener.close()
            self._listener = None
        for connection in list(self._open):
            self._close(connection, socket.socket.close)

    def _reset(self) -> None:
        for connection in list(self._open):
            self._close(connection, _close_with_reset)

    def _set_stalled(self, stalled: bool) -> None:
        self._stalled = stalled

    def _close(self, connection: _Connection, close: Callable[[socket.socket], None]) -> None:
        self._open.remove(connection)
        for end in (connection.client, connection.service):
            self._watch(end, 0, connection)
            close(end)

    def _close_all(self) -> None:
        self._cut()
        self._selector.close()
        for part in (self._holder, self._wake_up, self._woken):
            part.close()
        while self._commands:
            _, done = self._commands.popleft()
            done.set_exception(_Ended("the link has ended"))


class _Ended(RuntimeError):
    """A control came after the end of the link."""


def _bound_socket(port: int) -> socket.socket:
    bound = socket.socket()
    # Both sockets of a link share the port, and connections of before a cut may linger on it.
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    bound.bind((LOOPBACK, port))
    return bound


def _dial(target: Target | None) -> socket.socket | None:
    """Begin to connect; a refusal that comes later shows at the first read or write."""
    if target is None:
        return None
    service = socket.socket(socket.AF_UNIX if isinstance(target, Path) else socket.AF_INET)
    service.setblocking(False)
    try:
        if isinstance(target, Path):
            service.connect(str(target))
        else:
            service.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with suppress(BlockingIOError):  # under way
                service.connect(target)
    except OSError:  # for a unix socket also: its queue is full
        service.close()
        return None
    return service


def _close_with_reset(end: socket.socket) -> None:
    if end.family == socket.AF_INET:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    end.close()
