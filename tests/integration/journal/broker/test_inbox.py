"""How far a client is read ahead while its append waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from windrow.journal.broker.append_events import ChunkReceived, ClientEnded
from windrow.journal.broker.inbox import DEPTH, SMALL_APPEND, Inbox
from windrow.journal.wire import protocol_pb2 as pb


class Client:
    """Sends as fast as it is read."""

    def __init__(self, *contents: bytes) -> None:
        self.contents, self.sent = contents, 0

    async def requests(self) -> AsyncIterator[pb.AppendRequest]:
        for content in self.contents:
            self.sent += 1
            yield pb.AppendRequest(content=content)


async def settle() -> None:
    for _ in range(1000):
        await asyncio.sleep(0)


def test_no_more_than_eight_messages_of_a_large_append_are_read_ahead() -> None:
    async def story() -> None:
        client = Client(*[bytes(65536)] * 50)
        inbox = Inbox(client.requests())
        await settle()
        assert client.sent == DEPTH == 8
        assert not inbox.is_whole
        for taken in range(1, 4):
            assert isinstance(await inbox.receive(), ChunkReceived)
            await settle()
            assert client.sent == DEPTH + taken
        await inbox.close()

    asyncio.run(story())


@pytest.mark.parametrize("size", [1, SMALL_APPEND // 100])
def test_a_small_append_is_read_whole_however_many_messages_it_has(size: int) -> None:
    async def story() -> None:
        client = Client(*[bytes(size)] * 100, b"")
        inbox = Inbox(client.requests())
        await inbox.settle(5)
        assert inbox.is_whole
        assert client.sent == 101
        await inbox.close()

    asyncio.run(story())


def test_an_append_without_its_mark_is_not_whole() -> None:
    async def story() -> None:
        inbox = Inbox(Client(b"x").requests())
        await inbox.settle(5)
        assert not inbox.is_whole
        assert await inbox.receive() == ChunkReceived(b"x")
        assert await inbox.receive() == ClientEnded()

    asyncio.run(story())
