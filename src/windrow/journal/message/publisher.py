"""Messages with identities: committed by themselves, or together by a later acknowledgement.

A producer's clock must grow in the order of its messages in a journal, so the identity is given
when it is the message's turn to be written, not before.

To commit over several journals: publish uncommitted, take the ``ack_intents``, store them with
whatever else is to happen with them, and only then append them. Whoever takes over appends the
stored ones again: repeated acknowledgements change nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Any, Protocol

from windrow.journal.message.record import Record, encode_record
from windrow.journal.message.uuids import Flags, ProducerClock, build_uuid


class WritingTurn(Protocol):
    """A turn to write to a journal."""

    @property
    def pending(self) -> Awaitable[Any]:
        """What to await for the commit."""

    def write(self, content: bytes) -> None:
        """Add content to the append."""


class Appends(Protocol):
    """What takes appends; the client's ``AppendService`` is one."""

    def writing(self, request: str, /) -> AbstractAsyncContextManager[WritingTurn]:
        """A turn to write to a journal."""


@dataclass(frozen=True, slots=True)
class AckIntent:
    """An acknowledgement that is still to be appended."""

    journal: str
    content: bytes


class Publisher:
    """Publishes the records of one producer.

    Args:
        appends: Where to.
        producer: Six bytes of ``uuids.producer_id``; one process, one producer.
        now: Seconds since 1970.
    """

    def __init__(self, appends: Appends, producer: bytes, now: Callable[[], float]) -> None:
        self.producer = producer
        self._appends = appends
        self._now = now
        self._clock = ProducerClock(now())
        self._unacknowledged: set[str] = set()
        self._unanswered: dict[str, Awaitable[Any]] = {}

    async def publish(self, journal: str, record: Record) -> Awaitable[Any]:
        """Append a record that is committed by itself; returns what to await for the commit."""
        await self._answer(journal)
        return await self._publish(journal, record, Flags.OUTSIDE_TXN)

    async def publish_uncommitted(self, journal: str, record: Record) -> Awaitable[Any]:
        """Append a record that readers see once it is acknowledged."""
        pending = await self._publish(journal, record, Flags.CONTINUE_TXN)
        self._unacknowledged.add(journal)
        return pending

    def ack_intents(self) -> list[AckIntent]:
        """What commits everything published uncommitted so far, by journal."""
        journals, self._unacknowledged = sorted(self._unacknowledged), set()
        return [
            AckIntent(journal, encode_record(Record(uuid=self._identity(Flags.ACK_TXN))))
            for journal in journals
        ]

    async def append_intents(self, intents: list[AckIntent]) -> list[Awaitable[Any]]:
        """Append acknowledgements, fresh or recovered."""
        pending = []
        for intent in intents:
            await self._answer(intent.journal)
            async with self._appends.writing(intent.journal) as turn:
                turn.write(intent.content)
            self._unanswered[intent.journal] = turn.pending
            pending.append(turn.pending)
        return pending

    async def _answer(self, journal: str) -> None:
        """Wait for an acknowledgement: in one append with what follows it could be repeated."""
        pending = self._unanswered.pop(journal, None)
        if pending is not None:
            await pending

    async def _publish(self, journal: str, record: Record, flags: Flags) -> Awaitable[Any]:
        async with self._appends.writing(journal) as turn:
            turn.write(encode_record(replace(record, uuid=self._identity(flags))))
        return turn.pending

    def _identity(self, flags: Flags) -> bytes:
        self._clock.update(self._now())
        return build_uuid(self.producer, self._clock.tick(), flags)
