"""The batch machine: exactly once by naming each batch at both ends. Pure.

A marked batch carries its own UUID in the outbox, and the target commits that UUID, with the
number of rows, together with the batch. So whoever leads next can ask the target which batch went
through, remove exactly those rows, and mark the rest anew: nothing is sent twice.

::

    FENCING ──▶ READING_BACK ──▶ MARKING ──rows──▶ PUBLISHING ──committed──▶ MARKING …
       ▲         │ no name         │ ▲ │ none         │  ▲ │ rejected
       │         ▼     no row has  │ │ └──▶ RESTING ──┘  │ ▼
       │      CHECKING ────────────┼─┼─── one either ────┘ │
       │                           │ └─────────────── ISOLATING
       └────── commit of unknown outcome, target down ─────┘

The rules, each of which a naive version breaks:

- One batch in doubt at a time: the purge of batch n and the mark of n+1 are one transaction.
- One UUID, one atomic write: rows left out are released before the rest is sent, under a new name.
- A mark of unknown outcome is made again under another UUID, and nothing is sent until it is known.
- A commit of unknown outcome is never guessed: fence the target again, then read back.
- A target that knows no name at all has forgotten it, if rows carry one: so the very first thing
  written there is the name of an empty batch, and from then on it always knows one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from uuid import UUID, uuid4

from windrow.outbox.marked import Marked
from windrow.relay.errors import ImpossibleEvent
from windrow.relay.failure import Failure
from windrow.relay.policy import Policy


class BatchState(Enum):
    """Where the road stands. FENCING is the first, STOPPED the last."""

    FENCING = auto()
    READING_BACK = auto()
    CHECKING = auto()
    MARKING = auto()
    RESTING = auto()
    PUBLISHING = auto()
    ISOLATING = auto()
    STOPPED = auto()


@dataclass(frozen=True, slots=True)
class BatchName:
    """A batch as both ends know it."""

    uuid: UUID
    count: int


# -- what happened -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TargetFenced:
    """Whoever wrote to the target before can write no more."""


@dataclass(frozen=True, slots=True)
class ReadBack:
    """What the target committed last, if it ever did."""

    committed: BatchName | None


@dataclass(frozen=True, slots=True)
class Unnamed:
    """No row of the outbox carries the name of a batch: nothing was ever sent."""


@dataclass(frozen=True, slots=True)
class BatchMarked:
    """The purge and the mark are durable; these are the rows of the new batch, in id order."""

    rows: Sequence[Marked]


@dataclass(frozen=True, slots=True)
class MarkFailed:
    """The purge and the mark may have been made, or not."""


@dataclass(frozen=True, slots=True)
class Rested:
    """It is time to look again."""


@dataclass(frozen=True, slots=True)
class Committed:
    """The target holds the batch and its name."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """The target took none of the batch, because of these rows."""

    failures: Sequence[tuple[Marked, Failure]]


@dataclass(frozen=True, slots=True)
class CommitUnknown:
    """The target may hold the batch, or not; or it does not answer at all."""

    failure: Failure


@dataclass(frozen=True, slots=True)
class Isolated:
    """The refused rows are out of the way, durably."""


Event = (
    TargetFenced
    | ReadBack
    | Unnamed
    | BatchMarked
    | MarkFailed
    | Rested
    | Committed
    | Rejected
    | CommitUnknown
    | Isolated
)


# -- what to do next -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FenceTarget:
    """After a pause, make a new client and shut out whoever wrote before."""

    delay: float


@dataclass(frozen=True, slots=True)
class AskTarget:
    """Read back what was committed last."""


@dataclass(frozen=True, slots=True)
class AskOutbox:
    """The target knows no batch: see that no row carries the name of one, else stop here."""


@dataclass(frozen=True, slots=True)
class PurgeAndMark:
    """In one transaction: remove the committed batch, name the next. No next: only remove.

    The purge must hit all rows of the batch or none, else something else has touched them.
    """

    committed: BatchName | None
    ids: Sequence[int]
    """The rows of the committed batch if they are known here; empty to find them by its name."""
    next: UUID | None
    delay: float = 0.0


@dataclass(frozen=True, slots=True)
class Rest:
    """Nothing to do: wait as the pace says."""


@dataclass(frozen=True, slots=True)
class Publish:
    """Write these rows and the name of the batch, all or nothing."""

    batch: BatchName
    rows: Sequence[Marked]


@dataclass(frozen=True, slots=True)
class Isolate:
    """Put these rows out of the way, durably, as their policies say."""

    failures: Sequence[tuple[Marked, Failure]]
    delay: float


@dataclass(frozen=True, slots=True)
class Finish:
    """Nothing is in doubt: end."""


Command = FenceTarget | AskTarget | AskOutbox | PurgeAndMark | Rest | Publish | Isolate | Finish


def new_batch_uuid() -> UUID:
    """A random name, told from the ids of leaders by its version: 8 where those have 4."""
    version = 0xF << 76
    return UUID(int=uuid4().int & ~version | 8 << 76)


class BatchMachine:
    """The steps of one leadership. No I/O: takes what happened, returns what to do next."""

    def __init__(
        self,
        backoff: Policy = Policy(base_delay=0.05, max_delay=5.0),  # noqa: B008 - frozen
        new_uuid: Callable[[], UUID] = new_batch_uuid,
    ) -> None:
        self.state = BatchState.FENCING
        self._new_uuid = new_uuid
        self._backoff = backoff
        self._committed: BatchName | None = None
        self._committed_ids: Sequence[int] = ()
        self._batch: BatchName | None = None
        self._rows: Sequence[Marked] = ()
        self._next: UUID | None = None
        self._setbacks = 0
        self._stopping = False

    def start(self) -> Command:
        """The first thing to do."""
        return FenceTarget(0.0)

    def request_stop(self) -> None:
        """End at the next place where nothing is in doubt."""
        self._stopping = True

    def handle(self, event: Event) -> Command:
        """Take what happened, return what to do next."""
        match self.state, event:
            case BatchState.FENCING, TargetFenced():
                return self._enter(BatchState.READING_BACK, AskTarget())
            case BatchState.READING_BACK, ReadBack():
                return self._on_read_back(event)
            case BatchState.CHECKING, Unnamed():
                return self._publish(())
            case BatchState.MARKING, BatchMarked():
                return self._on_marked(event)
            case BatchState.MARKING, MarkFailed():
                return self._mark(self._delay())
            case BatchState.RESTING, Rested():
                return self._mark()
            case BatchState.PUBLISHING, Committed():
                return self._on_committed()
            case BatchState.PUBLISHING, Rejected():
                return self._on_rejected(event)
            case BatchState.ISOLATING, Isolated():
                return self._mark()
            case (
                BatchState.FENCING
                | BatchState.READING_BACK
                | BatchState.CHECKING
                | BatchState.PUBLISHING,
                CommitUnknown(),
            ):
                return self._enter(BatchState.FENCING, FenceTarget(self._delay()))
            case _:
                raise ImpossibleEvent(type(event).__name__, self.state)

    # -- one method per event --------------------------------------------------------------------

    def _on_read_back(self, event: ReadBack) -> Command:
        if event.committed is None:
            return self._enter(BatchState.CHECKING, AskOutbox())
        self._committed, self._committed_ids = event.committed, ()
        return self._mark()

    def _on_marked(self, event: BatchMarked) -> Command:
        self._committed, self._committed_ids = None, ()
        if self._next is None:
            return self._enter(BatchState.STOPPED, Finish())
        if not event.rows:
            if self._stopping:
                return self._enter(BatchState.STOPPED, Finish())
            return self._enter(BatchState.RESTING, Rest())
        if self._stopping:
            # Marked and not sent: the next leader finds them under a name nobody committed.
            return self._enter(BatchState.STOPPED, Finish())
        return self._publish(event.rows)

    def _on_committed(self) -> Command:
        self._setbacks = 0
        if self._rows:
            self._committed, self._committed_ids = self._batch, [row.id for row in self._rows]
        self._batch, self._rows = None, ()
        return self._mark()

    def _on_rejected(self, event: Rejected) -> Command:
        self._batch, self._rows = None, ()
        return self._enter(BatchState.ISOLATING, Isolate(event.failures, self._delay()))

    def _publish(self, rows: Sequence[Marked]) -> Command:
        """Under the name that the rows were marked with; an empty batch takes one of its own."""
        name = self._next if rows and self._next else self._new_uuid()
        self._batch, self._rows = BatchName(name, len(rows)), rows
        return self._enter(BatchState.PUBLISHING, Publish(self._batch, rows))

    def _mark(self, delay: float = 0.0) -> Command:
        """Purge what was committed and name the next batch, always by a name never used before."""
        if self._stopping and self._committed is None:
            return self._enter(BatchState.STOPPED, Finish())
        self._next = None if self._stopping else self._new_uuid()
        command = PurgeAndMark(self._committed, self._committed_ids, self._next, delay)
        return self._enter(BatchState.MARKING, command)

    def _delay(self) -> float:
        self._setbacks += 1
        return self._backoff.delay(self._setbacks, 1.0)

    def _enter(self, state: BatchState, command: Command) -> Command:
        self.state = state
        return command
