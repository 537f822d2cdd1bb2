"""A queue on journals: one journal for each partition, the number of a record is its index.

Reading goes by numbers, and a journal by bytes: ``journal_state.py`` finds the one by the other.
The records that a read meets must bear the numbers that are expected, one after the other, and the
journal must still be the same incarnation when all is read.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from windrow.errors import WindrowError
from windrow.graph.delivery_errors import IncarnationChanged, SourceTrimmed
from windrow.graph.planning import Available
from windrow.graph.positions import SourcePartition, Span
from windrow.journal.client.errors import OffsetJump
from windrow.spark.places import Place
from windrow.spark.queues.content import ContentStream
from windrow.spark.queues.errors import QueueMissing, ReadTimedOut, SequenceBroken
from windrow.spark.queues.find import FoundJournal, find_journals_async
from windrow.spark.queues.journal_state import JournalState
from windrow.spark.queues.landmarks import Landmark

if TYPE_CHECKING:
    import pyarrow as pa

    from windrow.journal.client.sync import SyncJournalClient
    from windrow.spark.queues.frames import Block

PIECE: Final = 4 * 1024 * 1024
_LEAST: Final = 64 * 1024
_USUAL: Final = 512
"""Bytes of a record, as long as nothing is known of a journal."""
_PAUSE: Final = 0.02


class JournalQueue:
    """Reads the records of one queue by their numbers; a ``QueueReader``."""

    def __init__(self, place: Place, client: SyncJournalClient) -> None:
        self.place = place
        self._client = client
        self._states: dict[FoundJournal, JournalState] = {}
        self._direct = True

    def available(self) -> Sequence[Available]:
        """What every partition holds now.

        Raises:
            QueueMissing: A journal of it is not there.
            NotSequenced: A journal has content, and no registers to number it by.
            Unreachable: No broker answered.
        """
        return self._client.thread.run(self._available())

    async def _available(self) -> list[Available]:
        """Journals that are known are asked while it is found out whether they still are."""
        known = list(self._states.values())
        refreshing = asyncio.gather(*(state.refresh() for state in known), return_exceptions=True)
        try:
            found = await self._current_states()
        finally:
            outcomes = await refreshing
        for state, outcome in zip(known, outcomes, strict=True):
            if outcome is not None and state in found:
                raise outcome
        await asyncio.gather(*(state.refresh() for state in found if state not in known))
        return [self._available_of(state) for state in found]

    def _available_of(self, state: JournalState) -> Available:
        return Available(
            self.place.queue,
            state.found.incarnation,
            state.found.partition,
            state.first.seq,
            state.head.seq,
            state.mean_bytes,
        )

    def cuts(self, origin: SourcePartition, within: Span | None = None) -> Sequence[int]:
        """Indices where fragments begin: of a range of indices, or of everything that is there.

        At most 32, the newest, of what was there when ``available`` was asked last.
        """
        return self._client.thread.run(self._cuts(origin, within))

    async def _cuts(self, origin: SourcePartition, within: Span | None) -> list[int]:
        state = self._known_state(origin) or await self._state_of(origin, 0)
        if not state.head.seq:
            await state.refresh()
        if within is None:
            return await state.cuts(state.first.seq, state.head.seq)
        return await state.cuts(within.start, within.end)

    def landmark(self, span: Span) -> Landmark | None:
        """The nearest place before a span that is known here, to be told to who reads it."""
        state = self._known_state(span.origin)
        return None if state is None else state.known_before(span.start)

    def read(self, span: Span, landmark: Landmark | None = None) -> Iterator[pa.RecordBatch]:
        """All records of a span in order, in the columns of ``message_schema``.

        Args:
            span: What to read.
            landmark: What ``landmark`` told of it in another process.

        Raises:
            SourceTrimmed: Some of them are gone.
            IncarnationChanged: The journal is another one by now.
            SequenceBroken: Its records are not numbered one after the other.
            ReadTimedOut: Some of them are not there in time.
            Unreachable: No broker answered.
        """
        if not span:
            return
        try:
            state, found = self._client.thread.run(self._locate(span, landmark))
            yield from self._read_from(state, span, found)
        except WindrowError:
            self._check_incarnation(span)  # if it is another one, that is where trouble comes from
            raise
        # An incarnation never comes again: if it is the one of the span now, it was all along.
        self._check_incarnation(span)

    def _check_incarnation(self, span: Span) -> None:
        self._client.thread.run(self._state_of(span.origin, span.start))

    async def _locate(self, span: Span, landmark: Landmark | None) -> tuple[JournalState, Landmark]:
        state = self._known_state(span.origin) or await self._state_of(span.origin, span.start)
        if landmark is not None:
            state.learn(landmark)
        found = await state.locate(span.start)
        if found.seq > span.start:
            raise SourceTrimmed(span.source, span.partition, span.start, found.seq)
        return state, found

    def _known_state(self, origin: SourcePartition) -> JournalState | None:
        for found, state in self._states.items():
            if (found.partition, found.incarnation) == (origin.partition, origin.incarnation):
                return state
        return None

    def _read_from(
        self, state: JournalState, span: Span, landmark: Landmark
    ) -> Iterator[pa.RecordBatch]:
        reading = _Reading(self._client, state, span, landmark, self._direct)
        try:
            yield from reading.batches()
        finally:
            self._direct = self._direct and reading.is_direct
            reading.close()

    # -- which journals --------------------------------------------------------------------------

    async def _current_states(self) -> list[JournalState]:
        found = await find_journals_async(self._client.client, self.place)
        self._states = {
            journal: self._states.get(journal) or JournalState(self._client.client, journal)
            for journal in found
        }
        return list(self._states.values())

    async def _state_of(self, origin: SourcePartition, index: int) -> JournalState:
        states = await self._current_states()
        for state in states:
            if state.found.partition == origin.partition:
                if state.found.incarnation != origin.incarnation:
                    raise IncarnationChanged(
                        origin.source,
                        origin.partition,
                        origin.incarnation,
                        state.found.incarnation,
                        index,
                    )
                return state
        what = f"partition {origin.partition} at {self.place.address!r}"
        raise QueueMissing(origin.source, what, "windrow journal apply --help")

    def close(self) -> None:
        """Forget what is known; the connections are shared, and stay."""
        self._states = {}


class _Reading:
    """One way through a journal, from a landmark to the end of a span."""

    def __init__(
        self,
        client: SyncJournalClient,
        state: JournalState,
        span: Span,
        landmark: Landmark,
        direct: bool,
    ) -> None:
        self._stream = ContentStream(client, state.found.journal, landmark.offset, direct)
        self._client, self._state, self._span = client, state, span
        self._next = landmark.seq
        self._rest = b""

    @property
    def is_direct(self) -> bool:
        """Whether stored fragments could be fetched from their store."""
        return self._stream.direct

    def close(self) -> None:
        """End the call in progress."""
        self._stream.close()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """What has not been read yet."""
        from windrow.spark.queues.frames import decode_block

        span = self._span
        while self._next < span.end:
            begin = self._stream.offset - len(self._rest)
            content = self._rest + self._take()
            if self._wanted() > len(content):
                self._stream.order(min(PIECE, self._wanted() - len(content)))
            block = decode_block(content, begin)
            self._rest = content[block.end - begin :]
            if len(block):
                low, high = self._check(block)
                if high > low:
                    yield self._batch(block, low, high)

    def _take(self) -> bytes:
        """The next content; what was appended before is there, but perhaps not on every broker."""
        patience = self._client.client.calls.patience
        deadline = time.monotonic() + patience
        while True:
            try:
                # Of a message that is longer than all before, each piece is longer, too.
                content = self._stream.take(max(len(self._rest), min(PIECE, self._wanted())))
            except OffsetJump as jump:
                raise self._trimmed(jump) from jump
            if content:
                return content
            if time.monotonic() > deadline:
                span, journal = self._span, self._state.found.journal
                place = f"journal {journal!r}"
                raise ReadTimedOut(span.source, place, self._next, span.end, patience)
            time.sleep(_PAUSE)

    def _wanted(self) -> int:
        """About how many bytes the rest of the span takes."""
        mean = self._state.mean_bytes or _USUAL
        return max(_LEAST, int((self._span.end - self._next) * mean * 1.05))

    def _trimmed(self, jump: OffsetJump) -> SourceTrimmed:
        span = self._span
        first = self._client.thread.run(self._state.first_seq(jump.to))
        return SourceTrimmed(span.source, span.partition, max(self._next, span.start), first)

    def _check(self, block: Block) -> tuple[int, int]:
        """Which rows of a block belong to the span; all of it must be numbered as expected."""
        seqs, span = block.seqs, self._span
        first, last = int(seqs[0]), int(seqs[-1])
        is_chain = last - first == len(seqs) - 1 and bool((seqs[1:] > seqs[:-1]).all())
        if first != self._next or not is_chain:
            found = first
            if first == self._next:
                found = next(int(s) for n, s in enumerate(seqs) if int(s) != first + n)
            place = f"journal {self._state.found.journal!r}"
            raise SequenceBroken(span.source, place, self._next, found, int(block.begins[0]))
        self._next = last + 1
        self._state.learn(Landmark(self._next, block.end))
        return max(0, span.start - first), min(len(seqs), span.end - first)

    def _batch(self, block: Block, low: int, high: int) -> pa.RecordBatch:
        import pyarrow as pa

        from windrow.spark.columns import message_schema

        span, count = self._span, high - low
        columns = [
            pa.repeat(pa.scalar(span.source, pa.string()), count),
            pa.repeat(pa.scalar(span.incarnation, pa.string()), count),
            pa.repeat(pa.scalar(span.partition, pa.int32()), count),
            pa.array(block.seqs[low:high]),
            *(column.slice(low, count) for column in block.columns()),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=message_schema())
