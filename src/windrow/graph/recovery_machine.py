"""How does a processor start? Take it over, read what is written, decide, go on. Pure.

::

    OWNING ──▶ READING_BACKING ──▶ READING_SINK ──▶ COMPLETING ──▶ DONE
                                    │ ▲    │            ▲
                                    ▼ │    ▼            │
                                  FENCING REWINDING ────┘

The order is the point: whoever owned the processor before can append nothing any more once it is
taken over, so what is read after that stays true. What is decided is in ``windrow.graph.recovery``.

Tasks of an earlier owner may still write to the targets. That does no harm while all of them
deliver the same snapshot; but if the journal and the sink disagree the next one may be another, so
then the targets are fenced first, and read again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, auto

from windrow.graph.backing import BackingState, Owned, Record
from windrow.graph.delivery_errors import Fenced, ImpossibleEvent, Refused
from windrow.graph.high_water import Delivered
from windrow.graph.recovery import Recovered, Situation, recover
from windrow.graph.snapshot import ProcessorUid


class RecoveryState(Enum):
    """Where recovery stands. OWNING is the first, DONE the last."""

    OWNING = auto()
    READING_BACKING = auto()
    READING_SINK = auto()
    FENCING = auto()
    REWINDING = auto()
    COMPLETING = auto()
    DONE = auto()


@dataclass(frozen=True, slots=True)
class Taken:
    """The processor is ours; this is what the journal says."""

    epoch: int


@dataclass(frozen=True, slots=True)
class TakenByOther:
    """A later owner is there already."""

    found_epoch: int


@dataclass(frozen=True, slots=True)
class BackingRead:
    """What the tail of the backing journal adds up to."""

    backing: BackingState


@dataclass(frozen=True, slots=True)
class SinkRead:
    """The sink's record, and whatever else there is to look at."""

    delivered: Delivered | None
    situation: Situation


@dataclass(frozen=True, slots=True)
class TargetsFenced:
    """No earlier owner can write to any target."""


@dataclass(frozen=True, slots=True)
class Appended:
    """The record is durable."""


@dataclass(frozen=True, slots=True)
class LateDelivered:
    """The sink's record is this one now, whoever moved it."""

    delivered: Delivered | None


RecoveryEvent = (
    Taken | TakenByOther | BackingRead | SinkRead | TargetsFenced | Appended | LateDelivered
)


@dataclass(frozen=True, slots=True)
class TakeOwnership:
    """Append an ``Owned`` with the next epoch: a write, since only a write moves a register."""

    owner: str


@dataclass(frozen=True, slots=True)
class ReadBacking:
    """Read the backing journal backwards to the nearest anchor."""


@dataclass(frozen=True, slots=True)
class ReadSink:
    """Read the sink's record and the marks of its targets."""


@dataclass(frozen=True, slots=True)
class FenceTargets:
    """Make the marks of every target ``owned_by`` this epoch, by compare-and-set."""

    epoch: int


@dataclass(frozen=True, slots=True)
class AppendRewound:
    """Append to the backing journal, as its owner."""

    record: Record


@dataclass(frozen=True, slots=True)
class CompleteLate:
    """Move the sink's record over a snapshot that had no output."""

    expected: Delivered | None
    delivered: Delivered


@dataclass(frozen=True, slots=True)
class GoOn:
    """Recovery is over."""

    recovered: Recovered
    epoch: int


@dataclass(frozen=True, slots=True)
class Refuse:
    """Recovery is over: the processor does not start."""

    error: Refused | Fenced


RecoveryCommand = (
    TakeOwnership
    | ReadBacking
    | ReadSink
    | FenceTargets
    | AppendRewound
    | CompleteLate
    | GoOn
    | Refuse
)


class RecoveryMachine:
    """The steps of one start. Takes what happened, returns what to do next."""

    def __init__(self, uid: ProcessorUid, owner: str) -> None:
        self.state = RecoveryState.OWNING
        self._uid = uid
        self._owner = owner
        self._epoch = 0
        self._backing = BackingState()
        self._recovered: Recovered | None = None
        self._is_fenced = False

    def start(self) -> RecoveryCommand:
        """The first thing to do."""
        return TakeOwnership(self._owner)

    def handle(self, event: RecoveryEvent) -> RecoveryCommand:
        """Take what happened, return what to do next."""
        match self.state, event:
            case _, TakenByOther():
                error = Fenced(str(self._uid), self._epoch, event.found_epoch)
                return self._enter(RecoveryState.DONE, Refuse(error))
            case RecoveryState.OWNING, Taken():
                self._epoch = event.epoch
                return self._enter(RecoveryState.READING_BACKING, ReadBacking())
            case RecoveryState.READING_BACKING, BackingRead():
                self._backing = event.backing.after(Owned(self._owner, self._epoch))
                return self._enter(RecoveryState.READING_SINK, ReadSink())
            case RecoveryState.READING_SINK, SinkRead():
                return self._on_sink_read(event)
            case RecoveryState.FENCING, TargetsFenced():
                self._is_fenced = True
                return self._enter(RecoveryState.READING_SINK, ReadSink())
            case RecoveryState.REWINDING, Appended():
                return self._complete()
            case RecoveryState.COMPLETING, LateDelivered():
                return self._on_late(event)
            case _:
                raise ImpossibleEvent(type(event).__name__, self.state.name)

    def _on_sink_read(self, event: SinkRead) -> RecoveryCommand:
        try:
            self._recovered = recover(self._backing, event.delivered, event.situation)
        except Refused as error:
            return self._enter(RecoveryState.DONE, Refuse(error))
        if self._recovered.rewound is not None:
            if not self._is_fenced:
                return self._enter(RecoveryState.FENCING, FenceTargets(self._epoch))
            command = AppendRewound(self._recovered.rewound)
            return self._enter(RecoveryState.REWINDING, command)
        return self._complete()

    def _on_late(self, event: LateDelivered) -> RecoveryCommand:
        assert self._recovered is not None
        late = self._recovered.late
        if late is None or event.delivered is None:
            raise ImpossibleEvent(type(event).__name__, self.state.name)
        if event.delivered.delivery_hash != late.delivery_hash:
            error = Fenced(str(self._uid), self._epoch, event.delivered.epoch)
            return self._enter(RecoveryState.DONE, Refuse(error))
        return self._finish(event.delivered)

    def _complete(self) -> RecoveryCommand:
        assert self._recovered is not None
        late = self._recovered.late
        if late is None:
            return self._finish(self._recovered.delivered)
        command = CompleteLate(self._recovered.delivered, late)
        return self._enter(RecoveryState.COMPLETING, command)

    def _finish(self, delivered: Delivered | None) -> RecoveryCommand:
        assert self._recovered is not None
        done = replace(self._recovered, delivered=delivered)
        return self._enter(RecoveryState.DONE, GoOn(done, self._epoch))

    def _enter(self, state: RecoveryState, command: RecoveryCommand) -> RecoveryCommand:
        self.state = state
        return command
