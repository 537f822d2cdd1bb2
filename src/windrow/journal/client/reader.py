"""One call that reads a journal.

Content arrives in fragments: a message that describes one, then its bytes. With ``direct`` a stored
fragment is only described, the call ends, and the bytes are fetched from its URL.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from windrow.errors import UsageError
from windrow.journal.client.calls import Calls
from windrow.journal.client.direct import fragment_content
from windrow.journal.client.errors import InvalidAnswer, OffsetJump
from windrow.journal.client.requests import Chunk, ReadRequest
from windrow.journal.fragment import Fragment

if TYPE_CHECKING:
    from windrow.journal.wire import protocol_pb2 as pb

WRITE_HEAD = -1


class Reader:
    """Gives the content of a journal until the broker ends the call.

    ``offset`` is where the next chunk begins; ``fragment`` and ``write_head`` are what the broker
    told last.
    """

    def __init__(self, calls: Calls, request: ReadRequest, file_root: Path | None = None) -> None:
        self.request = request
        self.offset = request.offset
        self.fragment: Fragment | None = None
        self.fragment_url = ""
        self.write_head = 0
        self.made_progress = False
        """Whether it has given any content."""
        self._calls = calls
        self._file_root = file_root
        self._call: Any = None
        self._endpoint = ""
        self._is_answered = False
        self._kept = b""
        self._pieces: Iterator[bytes] | None = None

    async def next(self) -> Chunk | None:
        """The next content, or ``None`` when the call has ended.

        Raises:
            OffsetJump: What lies between is not there any more; call again to go on behind it.
            JournalStatusError: The broker refused.
            Unreachable: The broker, or the store of a fragment, is gone.
        """
        if self._is_at_end():
            self.close()
            return None
        if self._kept:
            kept, self._kept = self._kept, b""
            return self._chunk(kept)
        if self._pieces is not None:
            return await self._next_piece(self._pieces)
        while (message := await self._receive()) is not None:
            chunk = self._on_message(message)
            if chunk is not None:
                return chunk
        return await self._on_end()

    def close(self) -> None:
        """End the call, if the broker has not."""
        if self._call is not None:
            self._call.cancel()

    async def _open(self) -> None:
        from windrow.journal.client import translation

        request = translation.read_request(self.request, self.offset, self._calls.min_revision)
        self._endpoint, self._call = self._calls.read(self.request.journal)
        await self._call.write(request)
        await self._call.done_writing()

    async def _receive(self) -> pb.ReadResponse | None:
        import grpc

        from windrow.journal.wire import protocol_pb2 as pb

        journal = self.request.journal
        try:
            if self._call is None:
                await self._open()
            message = await self._call.read()
        except grpc.aio.AioRpcError as error:
            raise self._calls.on_error("Read", journal, self._endpoint, error) from error
        if not isinstance(message, pb.ReadResponse):
            return None  # gRPC's mark of the end
        if not self._is_answered:
            self._is_answered = True
            self._calls.on_answer(journal, self._endpoint, message.header)
        return message

    def _on_message(self, message: pb.ReadResponse) -> Chunk | None:
        if not message.content:
            self._on_metadata(message)
            return None
        content = self._up_to_end(message.offset, message.content)
        if message.offset != self.offset:
            self._kept = content  # for whoever calls again after the jump
            self._move(message.offset)
            self._kept = b""
        return self._chunk(content)

    def _on_metadata(self, message: pb.ReadResponse) -> None:
        from windrow.journal import messages
        from windrow.journal.client import translation

        self.write_head = message.write_head
        translation.with_status(self.request.journal, message)
        try:
            messages.check_read_response(message, False)
        except UsageError as error:
            raise InvalidAnswer("Read", str(error)) from error
        self.fragment = messages.fragment_from_pb(message.fragment)
        self.fragment_url = message.fragment_url
        self._move(message.offset)

    def _move(self, offset: int) -> None:
        """Go to the offset the broker reads at."""
        before, self.offset = self.offset, offset
        if before in (WRITE_HEAD, offset):
            return
        if before > offset:
            self.offset = before
            raise InvalidAnswer("Read", f"offset {offset} lies before {before}")
        raise OffsetJump(self.request.journal, before, offset)

    def _chunk(self, content: bytes) -> Chunk | None:
        if not content:
            return None
        self._calls.meter.on_read(len(content))
        begin, self.offset = self.offset, self.offset + len(content)
        self.made_progress = True
        return Chunk(begin, content)

    def _is_at_end(self) -> bool:
        end = self.request.end_offset
        return bool(end) and self.offset >= end

    def _up_to_end(self, offset: int, content: bytes) -> bytes:
        end = self.request.end_offset
        return content[: max(0, end - offset)] if end else content

    async def _on_end(self) -> Chunk | None:
        """The call has ended; a fragment that was only described is still to be fetched."""
        fragment, request = self.fragment, self.request
        if not request.direct or request.metadata_only or not self.fragment_url:
            return None
        if fragment is None or not fragment.contains(self.offset):
            return None
        self._pieces = fragment_content(fragment, self.fragment_url, self.offset, self._file_root)
        return await self._next_piece(self._pieces)

    async def _next_piece(self, pieces: Iterator[bytes]) -> Chunk | None:
        piece = await asyncio.to_thread(next, pieces, b"")
        return self._chunk(self._up_to_end(self.offset, piece))
