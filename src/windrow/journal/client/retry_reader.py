"""A reader that goes on where the last call ended, whatever ended it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from windrow.errors import WindrowError
from windrow.journal.client.calls import Calls
from windrow.journal.client.errors import ContentMissing, OffsetJump
from windrow.journal.client.reader import WRITE_HEAD, Reader
from windrow.journal.client.requests import Chunk, ReadRequest
from windrow.journal.client.retrying import is_read_retried
from windrow.journal.errors import OffsetNotYetAvailable
from windrow.journal.fragment import Fragment

IDLE_TIMEOUT = 60.0
"""Without a message for so long a blocking read is begun anew: the broker may be cut off."""


class RetryReader:
    """The content of a journal, chunk by chunk.

    Iterated over it ends at ``end_offset``, or at the write head if the request does not block.
    Where content is gone it raises an ``OffsetJump`` once, and goes on behind the gap.
    """

    def __init__(
        self,
        calls: Calls,
        request: ReadRequest,
        file_root: Path | None = None,
        idle_timeout: float = IDLE_TIMEOUT,
    ) -> None:
        self.request = request
        self.offset = request.offset
        self.write_head = 0
        self.fragment: Fragment | None = None
        self._calls = calls
        self._file_root = file_root
        self._idle_timeout = idle_timeout
        self._reader: Reader | None = None
        self._attempt = 0
        self._failing_since = 0.0

    def __aiter__(self) -> AsyncIterator[Chunk]:
        return self

    async def __anext__(self) -> Chunk:
        try:
            chunk = await self.next()
        except OffsetNotYetAvailable:
            chunk = None
        if chunk is None:
            raise StopAsyncIteration
        return chunk

    async def next(self) -> Chunk | None:
        """The next content, or ``None`` at the end offset.

        Raises:
            OffsetNotYetAvailable: The write head is reached, and the request does not block.
            OffsetJump: What lies between is not there any more; call again to go on behind it.
            ContentMissing: The broker lacks what is to be read next, and has what lies behind it.
            JournalStatusError: Trying again cannot help.
        """
        while not self._is_at_end():
            try:
                async with asyncio.timeout(self._idle_timeout):
                    chunk = await self._current().next()
            except TimeoutError:
                self._end_call()
                continue
            except OffsetJump:
                self._follow()
                raise
            except WindrowError as error:
                await self._on_error(error)
                continue
            except BaseException:
                self._end_call()  # a call whose read was cancelled is of no more use
                raise
            self._follow()
            if chunk is not None:
                self._attempt = 0
                return chunk
            await self._on_call_ended()
        return None

    def seek(self, offset: int) -> None:
        """Go on at another offset."""
        self._end_call()
        self.offset = offset

    def close(self) -> None:
        """End the call in progress."""
        self._end_call()

    async def __aenter__(self) -> RetryReader:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _is_at_end(self) -> bool:
        end = self.request.end_offset
        return bool(end) and self.offset >= end

    def _current(self) -> Reader:
        if self._reader is None:
            request = replace(self.request, offset=self.offset)
            self._reader = Reader(self._calls, request, self._file_root)
        return self._reader

    def _follow(self) -> None:
        reader = self._current()
        if reader.offset != WRITE_HEAD:
            self.offset = reader.offset
        self.write_head, self.fragment = reader.write_head, reader.fragment

    def _end_call(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    async def _on_call_ended(self) -> None:
        """A clean end: the broker stops, or a fragment was fetched. Another call goes on."""
        made_progress = self._current().made_progress
        self._end_call()
        if made_progress:
            self._attempt = 0
            return
        await self._pause()

    async def _on_error(self, error: WindrowError) -> None:
        if self._reader is not None and isinstance(error, OffsetNotYetAvailable):
            self._follow()
        self._end_call()
        if isinstance(error, OffsetNotYetAvailable) and 0 <= self.offset < error.write_head:
            # To whoever iterates, this would look like the end.
            raise ContentMissing(self.request.journal, self.offset, error.write_head) from error
        if not self._attempt:
            self._failing_since = self._calls.clock.monotonic()
        is_over = not self.request.block and self._calls.is_patience_over(self._failing_since)
        if is_over or not is_read_retried(error, self._attempt):
            raise error
        await self._pause()

    async def _pause(self) -> None:
        await self._calls.pause("Read", self._attempt)
        self._attempt += 1
