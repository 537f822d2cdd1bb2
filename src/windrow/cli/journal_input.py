"""Files and standard input, in pieces."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import typer

STDIN = "-"
PIECE = 64 * 1024
READ_AHEAD = 64
"""Pieces that are read before somebody wants them."""


@contextmanager
def opened(inputs: Sequence[str]) -> Iterator[Iterator[bytes]]:
    """The inputs one after the other; all are opened before the first is read."""
    with ExitStack() as stack:
        files = [_stdin() if path == STDIN else stack.enter_context(_open(path)) for path in inputs]
        yield (piece for file in files for piece in _pieces(file))


def _stdin() -> Any:
    # Beneath its buffer, whose lock a thread that waits for a person would hold at the exit.
    return getattr(sys.stdin.buffer, "raw", sys.stdin.buffer)


def _open(path: str) -> Any:
    try:
        return Path(path).open("rb", buffering=0)
    except OSError as error:
        raise typer.BadParameter(
            f"cannot read {path}: {error.strerror}", param_hint="--input"
        ) from error


def _pieces(file: Any) -> Iterator[bytes]:
    while piece := file.read(PIECE):
        yield piece


async def in_background(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    """The pieces, read by a thread that nobody waits for: a pipe may never say more."""
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[bytes | OSError] = asyncio.Queue()
    room = threading.Semaphore(READ_AHEAD)

    def read() -> None:
        last: bytes | OSError = b""
        # A command that fails ends its loop while more may still come: nobody wants it then.
        with suppress(RuntimeError):
            try:
                for piece in pieces:
                    room.acquire()
                    loop.call_soon_threadsafe(queue.put_nowait, piece)
            except OSError as error:
                last = error
            loop.call_soon_threadsafe(queue.put_nowait, last)

    threading.Thread(target=read, name="windrow-input", daemon=True).start()
    while piece := await queue.get():
        if isinstance(piece, OSError):
            raise piece
        room.release()
        yield piece
