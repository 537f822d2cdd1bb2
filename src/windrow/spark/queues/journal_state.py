"""What does a journal hold, and where is which of its records? Asked of the brokers, remembered.

The registers of a journal tell the number of its next record. An append of nothing returns them,
after everything that was appended before; it is made only when the write head has moved.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from windrow.errors import WindrowError
from windrow.journal.client.errors import NotSequenced, OffsetJump
from windrow.journal.client.requests import ReadRequest
from windrow.journal.client.retrying import backoff, is_read_retried
from windrow.journal.client.sequence import SEQ
from windrow.journal.errors import OffsetNotYetAvailable
from windrow.spark.queues.content import read_piece
from windrow.spark.queues.find import FoundJournal
from windrow.spark.queues.landmarks import Landmark, Landmarks

if TYPE_CHECKING:
    from windrow.journal.client.client import JournalClient

PROBE: Final = 64 * 1024
NEAR: Final = 1024 * 1024
"""Bytes that are sooner read than asked about."""
_CUTS: Final = 32


class JournalState:
    """One incarnation of one journal. Used in the client's event loop."""

    def __init__(self, client: JournalClient, found: FoundJournal) -> None:
        self.found = found
        self.first = Landmark(0, 0)
        """The first record that is still there, and where it lies."""
        self.head = Landmark(0, 0)
        """The number of the next record, and the write head."""
        self._client, self._journal = client, found.journal
        self._landmarks = Landmarks()

    @property
    def mean_bytes(self) -> float:
        """Of a record, as it lies in the journal."""
        count = self.head.seq - self.first.seq
        return (self.head.offset - self.first.offset) / count if count else 0.0

    async def refresh(self) -> None:
        """Find out what it holds now.

        Raises:
            NotSequenced: There is content, and no number of its next record.
            Unreachable: No broker answered.
        """
        begin, write_head = await self._extent()
        if write_head < self.head.offset:
            self._landmarks, self.first = Landmarks(), Landmark(0, 0)  # it lost its tail
        if write_head != self.head.offset:
            self.head = await self._read_head()
            self._landmarks.add(*self.head)
        if self.head.seq and (begin != self.first.offset or self._landmarks.before(0) is None):
            seq = await self.first_seq(begin)
            self.first = Landmark(seq, begin)
            self._landmarks.trim(self.first)

    async def _extent(self) -> tuple[int, int]:
        """Where the content begins and ends."""
        clock, attempt = self._client.clock, 0
        began = clock.monotonic()
        while True:
            try:
                return await self._ask_extent()
            except WindrowError as error:
                is_over = self._client.calls.is_patience_over(began)
                if is_over or not is_read_retried(error, attempt):
                    raise
            await clock.sleep(backoff(attempt))
            attempt += 1

    async def _ask_extent(self) -> tuple[int, int]:
        reader = self._client.reader(ReadRequest(self._journal, metadata_only=True))
        try:
            await reader.next()
        except OffsetJump as jump:
            return jump.to, reader.write_head
        except OffsetNotYetAvailable as error:
            # Nothing at its beginning is either nothing at all, or a gap that may be filled again.
            begins = await self._fragment_begins() if error.write_head else []
            return (begins[0] if begins else error.write_head), error.write_head
        finally:
            reader.close()
        return reader.offset, reader.write_head

    async def _read_head(self) -> Landmark:
        barrier = await self._client.append(self._journal)
        seq = barrier.registers.value(SEQ)
        if seq is None and barrier.end > 0:
            raise NotSequenced(self._journal, barrier.end)
        return Landmark(int(seq or 0), barrier.end)

    # -- finding a record ------------------------------------------------------------------------

    def learn(self, landmark: Landmark) -> None:
        """Take over what another process knows for certain, or what a read has come to."""
        self._landmarks.add(*landmark)

    def known_before(self, seq: int) -> Landmark | None:
        """The nearest landmark that is known before a record."""
        return self._landmarks.before(seq)

    async def locate(self, seq: int) -> Landmark:
        """The nearest landmark before a record; behind it only if the record is gone.

        It is the begin of its fragment or a later one, so a fragment is all that is ever read in
        vain.
        """
        before = self._landmarks.before(seq)
        if before is not None and (seq - before.seq) * self.mean_bytes < NEAR:
            return before
        await self.refresh()
        before = self._landmarks.before(seq)
        if before is None:
            return self.first
        behind = self._landmarks.behind(seq) or self.head
        if behind.offset - before.offset < NEAR:
            return before
        begins = await self._fragment_begins()
        return await self._nearest(
            seq, before, [at for at in begins if before.offset < at < behind.offset]
        )

    async def _nearest(self, seq: int, before: Landmark, begins: list[int]) -> Landmark:
        low, high = 0, len(begins)
        while low < high:
            middle = (low + high) // 2
            found = await self._at_fragment(begins[middle])
            if found.seq > seq:
                high = middle
            else:
                before, low = found, middle + 1
        return before

    async def cuts(self, start: int, end: int) -> list[int]:
        """The numbers of the first records of fragments within a range, the newest of them."""
        low = self._landmarks.before(start) or self.first
        high = self._landmarks.behind(end) or self.head
        begins = await self._fragment_begins()
        within = [begin for begin in begins if low.offset <= begin < high.offset]
        found = await asyncio.gather(*(self._at_fragment(begin) for begin in within[-_CUTS:]))
        return [each.seq for each in found if start < each.seq < end]

    async def _at_fragment(self, begin: int) -> Landmark:
        """Fragments begin where an append does."""
        known = self._landmarks.at_offset(begin)
        if known is None:
            known = Landmark(await self.first_seq(begin), begin)
            self._landmarks.add(*known)
        return known

    async def _fragment_begins(self) -> list[int]:
        listed = await self._client.fragments(self._journal)
        return sorted(each.fragment.begin for each in listed if not each.fragment.is_empty)

    async def first_seq(self, offset: int) -> int:
        """The number of the first record from an offset on, at which an append begins."""
        from windrow.spark.queues.frames import decode_block

        size = PROBE
        while True:
            content = await read_piece(self._client, self._journal, offset, size)
            block = decode_block(content, offset)
            if len(block):
                return int(block.seqs[0])
            if len(content) < size:
                return self.head.seq  # nothing follows but frames that steer
            size *= 4
