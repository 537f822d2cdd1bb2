"""Appends with contiguous indices and idempotent retries.

A batch is one append: a control frame that names it, then its records, numbered without a gap. If
the answer is lost, the registers say whether it is there; it is sent again only if it is not, and
then the journal takes at most one of the two.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from windrow.errors import WindrowError
from windrow.journal.client.errors import NotSequenced, WriterFenced
from windrow.journal.client.retrying import is_service_append_retried
from windrow.journal.client.sequence import (
    Batch,
    Owner,
    WriterState,
    check_id,
)
from windrow.journal.errors import RegisterMismatch
from windrow.journal.message.record import Control, Record, encode_control, encode_records

if TYPE_CHECKING:
    from windrow.journal.client.client import JournalClient

ATTEMPT_TIMEOUT = 30.0
"""How long one try may take before its outcome is looked up instead of waited for."""


@dataclass(frozen=True, slots=True)
class SequencedCommit:
    """A batch in the journal."""

    batch: Batch
    was_there: bool = False
    """An earlier try had committed it; this one added nothing."""


class _Retry:
    """The pauses between tries of one append, until patience is over."""

    def __init__(self, client: JournalClient) -> None:
        self._client = client
        self._began = client.clock.monotonic()
        self._attempt = 0

    async def pause(self, error: WindrowError) -> None:
        """Wait before the next try, or raise the error that there is none."""
        is_over = self._client.calls.is_patience_over(self._began)
        if is_over or not is_service_append_retried(error):
            raise error
        await self._client.calls.pause("Append", self._attempt)
        self._attempt += 1


class SequencedWriter:
    """Appends batches of records under a name of its own.

    Several writers may share a journal: their batches are numbered in the order in which they are
    committed, each as a whole. One name is for one process at a time; a second process under the
    same name fences the first.
    """

    def __init__(
        self,
        client: JournalClient,
        journal: str,
        writer: str,
        *,
        attempt_timeout: float = ATTEMPT_TIMEOUT,
    ) -> None:
        self.client = client
        self.journal = journal
        self.writer = writer
        self.attempt_timeout = attempt_timeout
        self.state: WriterState | None = None
        """What is known of the registers; None before the first look."""
        self._in_doubt: set[str] = set()
        self._turn = asyncio.Lock()  # each batch builds upon the one before

    async def open(self) -> WriterState:
        """Read where the journal and this writer stand.

        Raises:
            NotSequenced: The journal has content and no sequence.
        """
        self.state = await self._look()
        return self.state

    @property
    def last(self) -> Batch | None:
        """The last batch of this writer that is known to be in the journal."""
        return self.state.last if self.state else None

    async def append(
        self, records: Sequence[Record], batch_id: str | None = None
    ) -> SequencedCommit:
        """Append records as one batch and return where they went.

        A batch that the journal has as this writer's last is not appended again. The ``seq`` of the
        records is set by their place in the journal, whatever it was.

        Raises:
            WriterFenced: Another process writes under this name; nothing was written.
            NotSequenced: The journal has content and no sequence.
        """
        name = check_id("batch", batch_id or uuid.uuid4().hex)
        async with self._turn:
            return await self._append_once(records, name)

    async def _append_once(self, records: Sequence[Record], name: str) -> SequencedCommit:
        state = self.state or await self.open()
        retry = _Retry(self.client)
        while state.last is None or state.last.id != name:
            batch = Batch(name, state.next_seq, len(records))
            self._in_doubt.add(name)  # until it is known, even if this task is cancelled
            try:
                await self._append(state, batch, records)
                self._settle(state.after(batch))
                return SequencedCommit(batch)
            except RegisterMismatch as error:
                now = await self._after_mismatch(error)
            except WindrowError as error:
                await retry.pause(error)
                now = await self._look()
            state = state.judge(name, now, self._in_doubt)
        self._settle(state)
        return SequencedCommit(state.last, was_there=True)

    def _settle(self, state: WriterState) -> None:
        """The last batch is known, so none before it is in doubt any more."""
        self.state = state
        self._in_doubt.clear()

    async def _append(self, state: WriterState, batch: Batch, records: Sequence[Record]) -> None:
        head = Control(
            self.writer,
            batch.id,
            state.last.id if state.last else "",
            batch.count,
            batch.seq,
        )
        content = encode_control(head) + encode_records(records, batch.seq)
        await self.client.append(
            self.journal,
            content,
            check=state.check(),
            union=state.moved(batch),
            attempt_timeout=self.attempt_timeout,
        )

    async def _look(self) -> WriterState:
        """Read the registers by an append of nothing, which comes after all that was answered."""
        retry = _Retry(self.client)
        while True:
            try:
                found = await self.client.append(self.journal, attempt_timeout=self.attempt_timeout)
            except RegisterMismatch as error:
                raise NotSequenced(self.journal) from error  # nothing was checked but that
            except WindrowError as error:  # unknown or not, it would have changed nothing
                await retry.pause(error)
                continue
            return WriterState.read(self.journal, self.writer, found.registers, found.end)

    async def _after_mismatch(self, error: RegisterMismatch) -> WriterState:
        if not error.registers:  # a journal that lost them says so by a mismatch, too
            return await self._look()
        return WriterState.read(self.journal, self.writer, error.registers, end=1)


class OwnedWriter(SequencedWriter):
    """A writer whose name has to be owned: the shard of a relay, led by one process at a time.

    ``take_ownership`` writes. An append of the former owner that is still on its way lands before
    it, and is then known, or fails for ever: reading alone could not tell.
    """

    def __init__(
        self,
        client: JournalClient,
        journal: str,
        shard: str,
        *,
        attempt_timeout: float = ATTEMPT_TIMEOUT,
    ) -> None:
        super().__init__(client, journal, shard, attempt_timeout=attempt_timeout)
        self.owner: Owner | None = None

    async def open(self) -> WriterState:
        """Read where the journal and the shard stand; who owns it is decided by taking it."""
        state = await super().open()
        # Another owner's name in our checks would let us write as if we were it.
        self.state = replace(state, owner=self.owner)
        return self.state

    async def take_ownership(self, owner: str, epoch: int = 0) -> Batch | None:
        """Become the owner, and return the last batch that former owners committed.

        Args:
            owner: A name no other process has.
            epoch: Grows with each leader; an owner of a later epoch is not taken over.

        Raises:
            WriterFenced: A later epoch owns the shard.
        """
        wanted = Owner(check_id("owner", owner), epoch)
        async with self._turn:
            self._settle(await self._owned_by(wanted))
        self.owner = wanted
        return self.last

    async def _owned_by(self, wanted: Owner) -> WriterState:
        state = await self._look()
        retry = _Retry(self.client)
        while state.owner != wanted:
            if state.owner is not None and state.owner.epoch > wanted.epoch:
                raise WriterFenced(self.journal, self.writer, wanted.pack(), state.owner.pack())
            try:
                state = await self._hand_over(state, wanted)
            except RegisterMismatch as error:
                state = await self._after_mismatch(error)
            except WindrowError as error:
                await retry.pause(error)
                state = await self._look()
        return state

    async def append(
        self, records: Sequence[Record], batch_id: str | None = None
    ) -> SequencedCommit:
        """Append records as one batch, while this process is the owner.

        Raises:
            WriterFenced: It is not, or not any more; nothing was written.
        """
        if self.owner is None:
            raise WriterFenced(self.journal, self.writer, "to be the owner", "take_ownership first")
        return await super().append(records, batch_id)

    async def append_batch(self, batch_id: str, records: Sequence[Record]) -> SequencedCommit:
        """Append a batch that has its id from elsewhere, as a relay's has."""
        return await self.append(records, batch_id)

    async def _hand_over(self, state: WriterState, owner: Owner) -> WriterState:
        check, union = state.hand_over(owner)
        frame = Control(writer=self.writer, seq=state.next_seq, owner=owner.pack())
        done = await self.client.append(
            self.journal,
            encode_control(frame),
            check=check,
            union=union,
            attempt_timeout=self.attempt_timeout,
        )
        return WriterState.read(self.journal, self.writer, done.registers, done.end)
