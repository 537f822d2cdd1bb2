"""The content of a journal from an offset on, the next piece on its way while one is used."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import TYPE_CHECKING

from windrow.journal.client.errors import FragmentUnreachable
from windrow.journal.client.requests import ReadRequest
from windrow.journal.errors import OffsetNotYetAvailable

if TYPE_CHECKING:
    from windrow.journal.client.client import JournalClient
    from windrow.journal.client.retry_reader import RetryReader
    from windrow.journal.client.sync import SyncJournalClient


class ContentStream:
    """Pieces of content, from the stores of fragments where those can be reached.

    ``offset`` is where the next piece begins that nobody has been given yet.
    """

    def __init__(
        self, client: SyncJournalClient, journal: str, offset: int, direct: bool = True
    ) -> None:
        self.offset = offset
        self.direct = direct
        """Whether stored fragments are fetched from their store; ends when that is impossible."""
        self._client, self._journal = client, journal
        self._reader: RetryReader | None = None
        self._coming: Future[bytes] | None = None

    def order(self, size: int) -> None:
        """Have about so many bytes on their way, unless some are already."""
        if self._coming is None:
            self._coming = asyncio.run_coroutine_threadsafe(
                self._fill(size), self._client.thread.loop
            )

    def take(self, size: int) -> bytes:
        """The next piece, of at least so many bytes; fewer, or none, at the write head.

        Raises:
            OffsetJump: What comes next is not there any more.
            Failed: It could not be read.
        """
        self.order(size)
        assert self._coming is not None
        coming, self._coming = self._coming, None
        content = coming.result()
        self.offset += len(content)
        return content

    def close(self) -> None:
        """End the call in progress."""
        if self._coming is not None:
            self._coming.cancel()
            self._coming = None
        self._client.thread.loop.call_soon_threadsafe(self._end_call)

    def _end_call(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    async def _fill(self, size: int) -> bytes:
        pieces: list[bytes] = []
        held = 0
        while held < size:
            try:
                chunk = await self._current(self.offset + held).next()
            except OffsetNotYetAvailable:
                break
            except FragmentUnreachable:
                self._end_call()
                self.direct = False
                continue
            if chunk is None:
                break
            pieces.append(chunk.content)
            held += len(chunk.content)
        return b"".join(pieces)

    def _current(self, offset: int) -> RetryReader:
        if self._reader is None:
            request = ReadRequest(self._journal, offset, direct=self.direct)
            self._reader = self._client.client.retry_reader(request)
        return self._reader


async def read_piece(client: JournalClient, journal: str, offset: int, size: int) -> bytes:
    """Up to so many bytes at an offset, through a broker.

    Raises:
        OffsetJump: They are not there any more.
    """
    async with client.retry_reader(ReadRequest(journal, offset, end_offset=offset + size)) as one:
        return b"".join([chunk.content async for chunk in one])
