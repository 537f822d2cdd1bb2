"""The content of a journal as records."""

from __future__ import annotations

from collections.abc import AsyncIterator

from windrow.journal.client.errors import OffsetJump
from windrow.journal.client.retry_reader import RetryReader
from windrow.journal.message.framing import FixedUnframer, Frame
from windrow.journal.message.record import Record, unframe_records


class RecordReader:
    """Records with the frames they lie in, as far as the reader beneath it reads.

    ``offset`` is where to begin again after the records given so far: the end of the last frame,
    where the reader itself may be in the middle of one.
    """

    def __init__(self, reader: RetryReader) -> None:
        self.reader = reader
        self._unframer = FixedUnframer(max(0, reader.offset))
        self._has_begun = reader.offset >= 0

    @property
    def offset(self) -> int:
        """Where the first record begins that has not been read."""
        return self._unframer.offset

    async def batches(self) -> AsyncIterator[list[tuple[Frame, Record]]]:
        """The records of each chunk; content that is gone is passed over.

        Raises:
            InvalidRecord: A frame holds no record.
        """
        while True:
            try:
                chunk = await anext(self.reader)
            except OffsetJump as jump:
                self._unframer.jump(jump.to)
                continue
            except StopAsyncIteration:
                return
            if not self._has_begun:  # it began at the write head, wherever that was
                self._unframer.jump(chunk.offset)
                self._has_begun = True
            records = list(unframe_records(self._unframer, chunk.content))
            if records:
                yield records
