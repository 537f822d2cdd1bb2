"""Event loops in threads of their own, for callers that have none.

A loop is never closed. gRPC has one queue for what happens to all loops of a process: whichever
loop looks first hands the others their events, and what comes late for a closed loop, as the end
of a call on a closed channel may, is an error in the log of the one that looked. So a loop that is
done with waits, running, for its next user.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Iterator
from typing import Any, TypeVar

T = TypeVar("T")

_idle: list[asyncio.AbstractEventLoop] = []
# A forked process has the list but not the threads.
os.register_at_fork(after_in_child=_idle.clear)


class LoopThread:
    """An event loop in a thread, nobody else's until it is stopped."""

    def __init__(self) -> None:
        self.loop = _take_idle() or _begin()
        self.is_stopped = False

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do the work there and return its result here. An interrupt cancels it."""
        if self.is_stopped:
            work.close()
            raise RuntimeError("the client is closed")
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def iterate(self, items: AsyncIterator[T]) -> Iterator[T]:
        """The items, one at a time; each is asked for when it is wanted."""
        nothing = object()
        step: asyncio.Task[Any] | None = None

        async def following() -> T | object:
            nonlocal step
            step = asyncio.current_task()
            try:
                return await anext(items)
            except StopAsyncIteration:
                return nothing

        async def close(items: AsyncGenerator[T, None]) -> None:
            if step is not None:
                # Interrupted, it may still be ending, or not have been told to: an interrupt can
                # come at any moment. To tell it twice would cut its end short.
                if not step.cancelling():
                    step.cancel()
                await asyncio.wait([step])
            await items.aclose()

        try:
            while (item := self.run(following())) is not nothing:
                yield item  # type: ignore[misc]
        finally:
            if isinstance(items, AsyncGenerator) and not self.is_stopped:
                self.run(close(items))

    def stop(self) -> None:
        """End what still runs on the loop, and leave it to the next."""
        self.run(_end_others())
        self.is_stopped = True
        _idle.append(self.loop)


def _take_idle() -> asyncio.AbstractEventLoop | None:
    try:
        return _idle.pop()
    except IndexError:
        return None


def _begin() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="windrow-journal", daemon=True).start()
    return loop


async def _end_others() -> None:
    """Cancel all other tasks: gRPC has some of its own, and the next user's are not among them."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
