"""Uncommitted messages in, committed ones out, each once. Pure: it knows no broker.

Producers write at least once: a message can appear twice in a journal, and a transaction can be
begun and never finished. The sequencer reads the identities (``uuids``) and, for each producer of
each journal, keeps

- ``min_clock``: the clock of its last acknowledgement; nothing at or below it is news,
- ``max_clock``: the largest clock of the span that is pending,
- ``begin``: the offset at which that span begins.

::

                 OUTSIDE above min: deliver it, forget the span
                ┌──────────────────────────────────────────────┐
                ▼                CONTINUE above max            │
        no span pending ─────────────────────────▶ span pending ┤ CONTINUE above max: extend
                ▲                                              │
                └──────────────────────────────────────────────┘
                 ACK above min: deliver min < clock ≤ ack; ACK at min: roll back;
                 ACK below min: roll back and start over from it

A producer keeps one rule: it waits for the answer to an acknowledgement before it commits anything
more to that journal. Two commits in one append, which is then repeated, would look like a producer
that lost its clock, and be delivered again.

Pending messages wait in a ring shared by all producers. A span whose first messages have left the
ring is read again from the journal when it commits: ``step`` asks for that with a ``Replay``.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, NamedTuple

from windrow.journal.message.errors import ReplayIncomplete, SpanUnfinished
from windrow.journal.message.uuids import ZERO, Flags, clock_of, flags_of, producer_of

NO_SPAN = -1
RING = 8192


class Message(NamedTuple):
    """A message as it was read: where it lies, who sent it, and what it holds."""

    journal: str
    begin: int
    end: int
    uuid: bytes
    payload: Any = None


class Outcome(Enum):
    """What became of a message that was queued."""

    DELIVERABLE = auto()
    """Committed by itself: ``step`` gives it out."""
    DUPLICATE = auto()
    """Read before; dropped."""
    SPAN_BEGUN = auto()
    SPAN_EXTENDED = auto()
    """Pending until its producer acknowledges."""
    COMMITTED = auto()
    """An acknowledgement: ``step`` gives out the span, then the acknowledgement itself."""
    ACKNOWLEDGED_NOTHING = auto()
    """An acknowledgement without a span: ``step`` gives out the acknowledgement alone."""
    ROLLED_BACK = auto()
    """A repeated acknowledgement: its producer started over, what it left pending is gone."""
    RESET = auto()
    """An acknowledgement from the past: the producer lost its clock. Repetitions of what it wrote
    since can no longer be told from news."""


@dataclass(frozen=True, slots=True)
class Replay:
    """Read these bytes again and hand their messages to ``on_replayed``."""

    journal: str
    begin: int
    end: int


class ProducerState(NamedTuple):
    """What a checkpoint keeps of one producer of one journal."""

    journal: str
    producer: bytes
    last_ack: int
    begin: int = NO_SPAN


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Where to read on from, and what is known of the producers there."""

    offsets: Mapping[str, int] = field(default_factory=dict)
    producers: tuple[ProducerState, ...] = ()


class _Producer:
    __slots__ = ("begin", "max_clock", "min_clock", "slots")

    def __init__(self, min_clock: int, begin: int = NO_SPAN) -> None:
        self.min_clock = self.max_clock = min_clock
        self.begin = begin
        self.slots: deque[int] = deque()
        """Ring slots of the span, oldest first; fewer than the span once some were evicted."""


class _Commit:
    """A span on its way out."""

    __slots__ = ("ack", "acked_clock", "last_clock", "members", "producer", "replay")

    def __init__(
        self,
        ack: Message,
        acked_clock: int,
        producer: _Producer | None = None,
        members: Iterable[Message] = (),
        replay: Replay | None = None,
    ) -> None:
        self.ack = ack
        self.acked_clock = acked_clock
        self.producer = producer
        self.last_clock = producer.min_clock if producer else 0
        self.members = deque(members)
        self.replay = replay


class Sequencer:
    """Turns the messages of journals, as they are read, into committed ones.

    ``queue`` a message, then call ``step`` until it gives ``None``; only then queue the next or
    take a ``checkpoint``. An offset moves past an acknowledgement when all of its span has been
    given out, so that whoever restarts from a checkpoint is given the whole span again.
    """

    def __init__(self, checkpoint: Checkpoint = Checkpoint(), ring: int = RING) -> None:  # noqa: B008 - frozen
        self.offsets: dict[str, int] = dict(checkpoint.offsets)
        self._producers = {
            (state.journal, state.producer): _Producer(state.last_ack, state.begin)
            for state in checkpoint.producers
        }
        self._ring: OrderedDict[int, tuple[_Producer, Message]] = OrderedDict()
        self._ring_size = ring
        self._slot = 0
        self._commit: _Commit | None = None

    @property
    def messages_pending(self) -> int:
        """How many messages wait in the ring."""
        return len(self._ring)

    @property
    def has_pending(self) -> bool:
        """Whether some producer has begun a span and not finished it."""
        return any(producer.begin != NO_SPAN for producer in self._producers.values())

    # -- in --------------------------------------------------------------------------------------

    def queue(self, message: Message) -> Outcome:
        """Take the next message of a journal.

        Raises:
            SpanUnfinished: The last one has not been given out to its end.
        """
        if self._commit is not None:
            raise SpanUnfinished("queue()", self._commit.ack.journal)
        if message.uuid in (ZERO, b""):
            self._commit = _Commit(message, 0)
            return Outcome.DELIVERABLE
        clock, flags = clock_of(message.uuid), flags_of(message.uuid)
        producer = self._producer(message, clock)
        if flags == Flags.CONTINUE_TXN:
            outcome = self._on_continue(producer, message, clock)
        elif flags == Flags.ACK_TXN:
            outcome = self._on_ack(producer, message, clock)
        else:  # flags nobody knows yet: committed, as what is outside of a transaction
            outcome = self._on_outside(producer, message, clock)
        if self._commit is None:
            self.offsets[message.journal] = message.end
        return outcome

    def _producer(self, message: Message, clock: int) -> _Producer:
        name = message.journal, producer_of(message.uuid)
        producer = self._producers.get(name)
        if producer is None:
            producer = self._producers[name] = _Producer(clock - 1)
        return producer

    def _on_outside(self, producer: _Producer, message: Message, clock: int) -> Outcome:
        if clock <= producer.min_clock:
            return Outcome.DUPLICATE
        self._end_span(producer, clock)
        self._commit = _Commit(message, clock)
        return Outcome.DELIVERABLE

    def _on_continue(self, producer: _Producer, message: Message, clock: int) -> Outcome:
        if clock <= producer.min_clock or clock <= producer.max_clock:
            return Outcome.DUPLICATE
        outcome = Outcome.SPAN_EXTENDED
        if producer.begin == NO_SPAN:
            producer.begin, outcome = message.begin, Outcome.SPAN_BEGUN
        producer.max_clock = clock
        self._keep(producer, message)
        return outcome

    def _on_ack(self, producer: _Producer, message: Message, clock: int) -> Outcome:
        if clock <= producer.min_clock:
            outcome = Outcome.ROLLED_BACK if clock == producer.min_clock else Outcome.RESET
            self._end_span(producer, clock)
            return outcome
        if producer.begin == NO_SPAN:
            self._end_span(producer, clock)
            self._commit = _Commit(message, clock)
            return Outcome.ACKNOWLEDGED_NOTHING
        self._commit = self._commit_of(producer, message, clock)
        return Outcome.COMMITTED

    def _commit_of(self, producer: _Producer, ack: Message, clock: int) -> _Commit:
        members = [self._ring[slot][1] for slot in producer.slots]
        in_ring_from = members[0].begin if members else ack.begin
        replay = None
        if producer.begin < in_ring_from:
            replay = Replay(ack.journal, producer.begin, in_ring_from)
        return _Commit(ack, clock, producer, members, replay)

    # -- out -------------------------------------------------------------------------------------

    def step(self) -> Message | Replay | None:
        """The next committed message; or what has to be read again first; or ``None``: go on."""
        commit = self._commit
        if commit is None:
            return None
        if commit.replay is not None:
            return commit.replay
        while commit.members:
            member = commit.members.popleft()
            clock = clock_of(member.uuid)
            # A repetition within the span, read after a restart, or beyond the acknowledgement.
            if commit.last_clock < clock <= commit.acked_clock:
                commit.last_clock = clock
                return member
        self._commit = None
        if commit.producer is not None:
            self._end_span(commit.producer, commit.acked_clock)
        self.offsets[commit.ack.journal] = commit.ack.end
        return commit.ack

    def on_replayed(self, messages: Iterable[Message]) -> None:
        """Take the messages that ``step`` asked to have read again, all of them, in order.

        Raises:
            ReplayIncomplete: The first of the span is not among them.
        """
        commit = self._commit
        if commit is None or commit.replay is None:
            raise SpanUnfinished("on_replayed() without a replay", "")
        replay, producer = commit.replay, producer_of(commit.ack.uuid)
        found = [
            message
            for message in messages
            if message.journal == replay.journal
            and replay.begin <= message.begin
            and message.end <= replay.end
            and producer_of(message.uuid) == producer
            and flags_of(message.uuid) == Flags.CONTINUE_TXN
        ]
        if not found or found[0].begin != replay.begin:
            raise ReplayIncomplete(replay.journal, replay.begin, replay.end)
        commit.members.extendleft(reversed(found))
        commit.replay = None

    # -- where to go on from -----------------------------------------------------------------------

    def checkpoint(self, horizon: int | None = None) -> Checkpoint:
        """All that is needed to go on from here in another process.

        Args:
            horizon: Forget producers that have been silent, by the newest clock of their journal,
                for longer than this; a span they left unfinished goes with them.

        Raises:
            SpanUnfinished: A commit is being given out.
        """
        if self._commit is not None:
            raise SpanUnfinished("checkpoint()", self._commit.ack.journal)
        newest: dict[str, int] = {}
        for (journal, _), state in self._producers.items():
            newest[journal] = max(newest.get(journal, 0), state.max_clock)
        kept = [
            ProducerState(journal, producer, state.min_clock, state.begin)
            for (journal, producer), state in self._producers.items()
            if horizon is None or newest[journal] - state.max_clock <= horizon
        ]
        return Checkpoint(dict(self.offsets), tuple(sorted(kept)))

    # -- the ring --------------------------------------------------------------------------------

    def _keep(self, producer: _Producer, message: Message) -> None:
        self._ring[self._slot] = producer, message
        producer.slots.append(self._slot)
        self._slot += 1
        if len(self._ring) > self._ring_size:
            _, (owner, _) = self._ring.popitem(last=False)
            owner.slots.popleft()  # the oldest of all is the oldest of its own span

    def _end_span(self, producer: _Producer, clock: int) -> None:
        producer.min_clock = producer.max_clock = clock
        producer.begin = NO_SPAN
        for slot in producer.slots:
            del self._ring[slot]
        producer.slots.clear()
