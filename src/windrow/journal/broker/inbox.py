"""What a client sends while its append waits, and whether all of it is here already.

Messages are read ahead: up to eight of them, and beyond that up to the size of a small append. An
append that is here as a whole can be committed together with others; one that is not is streamed,
and then has to keep to the rates of its journal.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from windrow.journal.broker.append_events import (
    ChunkReceived,
    ClientEnded,
    ClientFailed,
    ClientGone,
)
from windrow.journal.broker.flow_control import QUANTUM, ClientTooSlow, FlowControl
from windrow.journal.broker.group import Conditions, Member
from windrow.journal.broker.signals import Signal
from windrow.journal.errors import InvalidField
from windrow.journal.frames.serving import Requests
from windrow.journal.messages import check_append_request

if TYPE_CHECKING:
    from windrow.journal.broker.ports import RequestStream

SMALL_APPEND = 256 * 1024
DEPTH = 8

Received = ChunkReceived | ClientEnded | ClientFailed | ClientGone


class Inbox:
    """The messages of one client, behind its first."""

    def __init__(self, requests: RequestStream | None) -> None:
        self.gone = Signal()
        """Set when the client cancelled, or its deadline passed."""
        self.is_whole = False
        """Whether it ended with a commit mark, and all of it fits a small append."""
        self._queue: deque[ChunkReceived | ClientEnded | ClientFailed] = deque()
        self._received = 0
        self._is_marked = False
        self._is_settled = asyncio.Event()
        self._arrived = asyncio.Event()
        self._has_room = asyncio.Event()
        self._pump: asyncio.Task[None] | None = None
        rest = requests.rest() if isinstance(requests, Requests) else None
        if rest is not None:
            self._take(rest)
        elif requests is not None:
            self._pump = asyncio.create_task(self._read_ahead(requests))

    @classmethod
    def barrier(cls) -> Inbox:
        """The messages of an append without content: its commit mark, and the end."""
        inbox = cls(None)
        inbox._put(ChunkReceived(b""))
        inbox._put(ClientEnded())
        return inbox

    def as_member(self, conditions: Conditions) -> Member:
        """The whole append; only if ``is_whole``, and nothing was received from here yet."""
        chunks = [one.content for one in self._queue if isinstance(one, ChunkReceived)]
        return Member(conditions, b"".join(chunks), len(chunks))

    async def settle(self, patience: float) -> None:
        """Wait a little for a small append to arrive as a whole."""
        if not self._is_settled.is_set():
            try:
                async with asyncio.timeout(patience):
                    await self._is_settled.wait()
            except TimeoutError:
                pass

    async def receive(self) -> Received:
        """The next message, or what became of the client."""
        while not self._queue:
            if self.gone.is_set():
                return ClientGone()
            self._arrived.clear()
            await self._arrived.wait()
        received = self._queue.popleft()
        self._has_room.set()
        return received

    async def receive_in_time(self, flow: FlowControl, invalidated: asyncio.Event) -> Received:
        """The next message, once the journal's rates let it pass."""
        received = self._queue.popleft() if self._queue else await self._await_chunk(flow)
        self._has_room.set()
        if isinstance(received, ChunkReceived) and not flow.on_chunk(len(received.content)):
            await self._hold_back(flow, invalidated)
        return received

    async def _await_chunk(self, flow: FlowControl) -> Received:
        while not self._queue:
            if self.gone.is_set():
                return ClientGone()
            self._arrived.clear()
            try:
                async with asyncio.timeout(QUANTUM):
                    await self._arrived.wait()
            except TimeoutError:
                pass
            try:
                flow.on_tick(time.monotonic())
            except ClientTooSlow as error:
                return ClientFailed(str(error))
        return self._queue.popleft()

    async def _hold_back(self, flow: FlowControl, invalidated: asyncio.Event) -> None:
        while flow.is_held_back and not self.gone.is_set():
            if invalidated.is_set():
                flow.on_invalidated()
                return
            await asyncio.sleep(QUANTUM)
            flow.on_tick(time.monotonic())

    def on_gone(self) -> None:
        """The client is gone; whoever waits for it learns of it."""
        self.gone.set()
        self._arrived.set()
        self._is_settled.set()

    async def close(self) -> None:
        """Read no more."""
        if self._pump is not None and not self._pump.done():
            self._pump.cancel()
            await asyncio.wait([self._pump])

    def _take(self, messages: Iterable[Any]) -> None:
        """Everything is here already: no task has to wait for it."""
        try:
            for message in messages:
                self._on_message(message)
            self._put(ClientEnded())
        except Exception as error:  # see below
            self._put(_broken(error))

    async def _read_ahead(self, requests: RequestStream) -> None:
        try:
            async for message in requests:
                self._on_message(message)
                while len(self._queue) >= DEPTH and self._received > SMALL_APPEND:
                    self._has_room.clear()
                    await self._has_room.wait()
            self._put(ClientEnded())
        except Exception as error:  # whatever breaks the stream ends the append, and only that
            self._put(_broken(error))

    def _on_message(self, message: Any) -> None:
        check_append_request(message, first=False)
        self._put(ChunkReceived(message.content))

    def _put(self, received: ChunkReceived | ClientEnded | ClientFailed) -> None:
        self._queue.append(received)
        self._arrived.set()
        if isinstance(received, ChunkReceived):
            self._received += len(received.content)
            is_misplaced = self._is_marked
            self._is_marked = not received.content
            if self._received > SMALL_APPEND or is_misplaced:
                self._is_settled.set()
            return
        is_in_order = isinstance(received, ClientEnded) and self._is_marked
        self.is_whole = is_in_order and not self._is_settled.is_set()
        self._is_settled.set()


def _broken(error: Exception) -> ClientFailed:
    reason = str(error) if isinstance(error, InvalidField) else repr(error)
    return ClientFailed(f"append stream: {reason}")
