"""Stores and mirrors for the length of a scenario."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from windrow.coordination.etcd import EtcdStore
from windrow.coordination.mirror import Mirror
from windrow.coordination.store import Put, Store
from windrow.embedded.link_rules import Action, Chunk, Direction

PATIENCE = 60.0


def run(scenario: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(scenario, PATIENCE)

    asyncio.run(bounded())


@asynccontextmanager
async def etcd_store(address: str, call_timeout: float = 5.0) -> AsyncIterator[EtcdStore]:
    store = EtcdStore(address, call_timeout=call_timeout)
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def mirror_of(store: Store, prefix: str) -> AsyncIterator[Mirror]:
    mirror = Mirror(store, prefix)
    await mirror.start()
    try:
        yield mirror
    finally:
        await mirror.stop()


async def put(store: Store, key: str, value: bytes = b"", lease: int = 0) -> int:
    result = await store.txn([], [Put(key, value, lease)])
    assert result.succeeded
    return result.revision


async def until(condition: Callable[[], bool], patience: float = 20.0) -> None:
    """Wait for what has no event of its own."""
    async with asyncio.timeout(patience):
        while not condition():  # noqa: ASYNC110 - others change it, in other threads
            await asyncio.sleep(0.01)


def lose_the_answer_to(marked: bytes) -> Callable[[Chunk], Action]:
    """Let the first chunk with that text through, and reset the link before it is answered.

    The server acknowledges bytes before it has done anything with them. Only what carries an
    answer shows that it has.
    """
    arrived = done = False

    def on_bytes(chunk: Chunk) -> Action:
        nonlocal arrived, done
        if arrived and not done and _is_answer(chunk):
            done = True
            return Action.RESET
        arrived |= marked in chunk.payload
        return Action.PASS

    return on_bytes


_HEADERS = 1
_FRAME_HEAD = 9


def _is_answer(chunk: Chunk) -> bool:
    """Whether HTTP/2 headers come with it: a response begins with them."""
    if chunk.direction is not Direction.TO_CLIENT:
        return False
    at = 0
    while at + _FRAME_HEAD <= len(chunk.payload):
        if chunk.payload[at + 3] == _HEADERS:
            return True
        at += _FRAME_HEAD + int.from_bytes(chunk.payload[at : at + 3], "big")
    return False
