"""Wait for a result, or for an event that makes it pointless."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def unless(work: Coroutine[Any, Any, T], *events: asyncio.Event) -> T | None:
    """The result of ``work``; None, and the work cancelled, if one of the events came first."""
    if any(event.is_set() for event in events):
        work.close()
        return None
    task = asyncio.ensure_future(work)
    watches = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait({task, *watches}, return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        for other in (task, *watches):
            other.cancel()
