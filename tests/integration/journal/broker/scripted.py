"""A replica whose answers a test gives, one by one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from tests.integration.journal.broker.cluster import Broker
from windrow.journal.wire import protocol_pb2 as pb


class ScriptedReplica:
    """Takes the streams of a primary, and answers nothing by itself."""

    def __init__(self, broker: Broker) -> None:
        self.id = broker.id
        self.streams: asyncio.Queue[ScriptedStream] = asyncio.Queue()
        broker.servicer.replicate = self._replicate

    async def _replicate(self, requests: Any) -> AsyncIterator[pb.ReplicateResponse]:
        stream = ScriptedStream()
        self.streams.put_nowait(stream)
        reading = asyncio.create_task(stream.read(requests))
        try:
            while (answer := await stream.answers.get()) is not None:
                if isinstance(answer, Exception):
                    raise answer
                yield answer
        finally:
            reading.cancel()
            await asyncio.wait([reading])

    async def stream(self) -> ScriptedStream:
        """The next stream that the primary opens."""
        return await self.streams.get()


class ScriptedStream:
    """One Replicate call, seen from the replica."""

    def __init__(self) -> None:
        self.requests: asyncio.Queue[pb.ReplicateRequest | None] = asyncio.Queue()
        self.answers: asyncio.Queue[pb.ReplicateResponse | Exception | None] = asyncio.Queue()
        self.has_ended = asyncio.Event()

    async def read(self, requests: Any) -> None:
        try:
            async for request in requests:
                self.requests.put_nowait(request)
        finally:
            self.requests.put_nowait(None)
            self.has_ended.set()

    async def receive(self) -> pb.ReplicateRequest:
        """The next message of the primary; there has to be one."""
        request = await self.requests.get()
        assert request is not None, "the primary has closed the stream"
        return request

    async def receive_proposal(self) -> pb.ReplicateRequest:
        """The next proposal to be acknowledged; announcements and content are passed over."""
        while not (request := await self.receive()).acknowledge:
            pass
        return request

    def answer(self, status: pb.Status = pb.OK, **fields: Any) -> None:
        self.answers.put_nowait(pb.ReplicateResponse(status=status, **fields))

    def agree(self, request: pb.ReplicateRequest) -> None:
        """Answer that we hold just what was proposed."""
        self.answer(
            pb.OK,
            fragment=request.proposal,
            registers=request.registers,
            agreed_term=request.term,
        )

    def fail(self, reason: str) -> None:
        self.answers.put_nowait(RuntimeError(reason))

    def close(self) -> None:
        self.answers.put_nowait(None)


async def synced(replica: ScriptedReplica) -> ScriptedStream:
    """A stream whose synchronisation went well."""
    stream = await replica.stream()
    stream.agree(await stream.receive())
    return stream
