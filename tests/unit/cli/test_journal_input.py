"""Pieces that a thread reads for a command."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

from windrow.cli.journal_input import in_background


def test_every_piece_arrives_in_order() -> None:
    async def everything() -> list[bytes]:
        return [piece async for piece in in_background(iter([b"a", b"b", b"c"]))]

    assert asyncio.run(everything()) == [b"a", b"b", b"c"]


def test_command_that_has_ended_is_told_nothing_more() -> None:
    """Otherwise the thread ends with an error of the loop, which is not there any more."""
    has_ended, was_asked = threading.Event(), threading.Event()

    def slow() -> Iterator[bytes]:
        yield b"first"
        assert has_ended.wait(10)
        yield b"late"
        was_asked.set()

    async def first() -> bytes:
        return await anext(in_background(slow()))

    assert asyncio.run(first()) == b"first"
    has_ended.set()
    for thread in threading.enumerate():
        if thread.name == "windrow-input":
            thread.join(10)
    assert not was_asked.is_set()
