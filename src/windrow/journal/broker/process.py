"""A broker as a process of its own: signals in, an exit in good order out."""

from __future__ import annotations

import asyncio
import gc
import signal
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from windrow.journal.broker.server import BrokerServer
from windrow.journal.broker.settings import BrokerSettings
from windrow.telemetry import get_logger

_log = get_logger(__name__)


def run(settings: BrokerSettings) -> None:
    """Serve until a signal or a failure ends it.

    The first SIGTERM or Ctrl-C hands the journals over and lets calls come to their end; the
    second does not wait for either.

    Raises:
        LeaseLost: The broker was cut off from etcd for too long.
        SpoolBroken: A sync of one of its spools failed.
        WindrowError: It could not start, or one of its parts failed.
    """
    asyncio.run(_serve(settings))


async def _serve(settings: BrokerSettings) -> None:
    server = BrokerServer(settings)
    asked, urged = _signals()
    if not await _completes(server.start(), unless=asked):
        return
    gc.freeze()  # what is there now stays, and need not be looked through again and again
    try:
        await _completes(server.wait_failed(), unless=asked)
    except BaseException:
        await server.stop(grace=0.0)
        raise
    _log.info("broker leaves", id=str(server.id))
    if not await _completes(_leave(server), unless=urged):
        await server.stop(grace=0.0)
    _log.info("broker left", id=str(server.id))


async def _leave(server: BrokerServer) -> None:
    await server.leave()
    await server.stop()


def _signals() -> tuple[asyncio.Event, asyncio.Event]:
    """Events of the first and of the second signal to end."""
    asked, urged = asyncio.Event(), asyncio.Event()

    def on_signal() -> None:
        (urged if asked.is_set() else asked).set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    return asked, urged


async def _completes(work: Coroutine[Any, Any, None], *, unless: asyncio.Event) -> bool:
    """Whether the work came to its end; otherwise it was cancelled because of the event."""
    task = asyncio.ensure_future(work)
    watch = asyncio.ensure_future(unless.wait())
    await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
    watch.cancel()
    if task.done():
        task.result()
        return True
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    return False
