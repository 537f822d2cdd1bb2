"""The persistence component: what happens on every step of a processor, in order. Pure.

The steps have the numbers that the algorithm gives them; a step is a micro-batch here.

1. Collect the ranges of all inputs, and the processor's uid, into a snapshot.
2. Only if this is the first attempt, write the snapshot to the backing journal.
3. Compute the delivery hash of the snapshot.
4. Read the messages of the ranges. (4a. The choice of an alts processor is in the ranges already.)
5. Run the function: (a) with output go to 7, (b) without to 8.
6. An error that is handled goes (a) to the error queue by 7, (b) without one to 8.
7. Write: (a) with every row its delivery hash, and with all rows of a target its high-water;
   (b, c) make an attempt of the kind of the destination, naming where the proof is to be found;
   (d) write it to the backing journal; (e) complete the delivery: the sink's record of the last
   whole snapshot moves, by compare-and-set.
8. Nothing to write: (a, b) make an attempt-nil with the delivery hash and (c) write it. Only to
   keep the sink's record in step, it moves as well.
9. Go on. Whatever goes wrong unhandled interrupts the processor: recovery decides.

::

    PLANNING ──▶ SNAPSHOTTING ──▶ RUNNING ──▶ ATTEMPTING ──▶ DELIVERING ──▶ PLANNING …
       │ ▲             retry ──▶ RETRYING ─▲ │ failed
       ▼ │                                   └──▶ FAILING ──▶ INTERRUPTED
     RESTING                                     (any: unknown, fenced ──▶ INTERRUPTED)
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from windrow.errors import WindrowError
from windrow.graph.backing import (
    Attempt,
    AttemptKind,
    GaveUp,
    Poisoned,
    Record,
    Retried,
    SnapshotTaken,
)
from windrow.graph.delivery_errors import (
    AttemptsExhausted,
    BatchInterrupted,
    DeliveryUnknown,
    Fenced,
    ImpossibleEvent,
)
from windrow.graph.delivery_steps import (
    AppendBacking,
    BackingAppended,
    BackingRefused,
    BatchFailed,
    BatchRan,
    CommitDelivered,
    DeliveredMismatched,
    DeliveredMoved,
    DeliveryCommand,
    DeliveryEvent,
    Finish,
    Interrupt,
    NothingPlanned,
    PlanBatch,
    Planned,
    Rest,
    Rested,
    RunBatch,
    Unknown,
)
from windrow.graph.high_water import Delivered, shared_floor
from windrow.graph.policies import EXACTLY_ONCE, OnError, Retry, Strategy
from windrow.graph.positions import SourceOffsets
from windrow.graph.recovery import Recovered
from windrow.graph.routing import SINGLE_TARGET, RoutingPin
from windrow.graph.snapshot import ProcessorUid, Snapshot
from windrow.graph.staging import Destination


class DeliveryState(Enum):
    """Where the step stands. PLANNING or RETRYING is the first, the last two are terminal."""

    PLANNING = auto()
    RESTING = auto()
    SNAPSHOTTING = auto()
    RETRYING = auto()
    RUNNING = auto()
    ATTEMPTING = auto()
    DELIVERING = auto()
    FAILING = auto()
    INTERRUPTED = auto()
    STOPPED = auto()


@dataclass(frozen=True, slots=True)
class DeliverySettings:
    """What a processor was declared with, as far as delivery is concerned."""

    uid: ProcessorUid
    destination: Destination | None = None
    routing: RoutingPin = SINGLE_TARGET
    code_version: str = ""
    strategy: Strategy = EXACTLY_ONCE
    on_error: OnError = "stop"
    retry: Retry = Retry()  # noqa: RUF009 - frozen


class DeliveryMachine:
    """The steps of one processor after one recovery. Takes what happened, returns what to do."""

    def __init__(self, settings: DeliverySettings, recovered: Recovered, epoch: int) -> None:
        self._settings = settings
        self._epoch = epoch
        self._start = recovered.start
        self._number = recovered.number
        self._delivered = recovered.delivered
        self._taken = recovered.in_doubt
        self._attempt = recovered.attempts + 1
        self._reason = recovered.reason
        self._poisoned = recovered.poisoned
        self._pinned = recovered.pinned
        self._interruption: Interrupt | None = None
        self._stopping = False
        self.state = DeliveryState.RETRYING if self._taken else DeliveryState.PLANNING

    @classmethod
    def while_running(
        cls, settings: DeliverySettings, recovered: Recovered, epoch: int
    ) -> DeliveryMachine:
        """Take the step up where another process left it: its batch is running.

        The process that plans a batch and the one that hears of its end need not be the same;
        what they share is the backing journal.
        """
        machine = cls(settings, recovered, epoch)
        machine._attempt = max(1, recovered.attempts)
        machine.state = DeliveryState.RUNNING
        return machine

    @property
    def start_offsets(self) -> SourceOffsets:
        """Where the next snapshot begins."""
        return self._start

    def start(self) -> DeliveryCommand:
        """The first thing to do."""
        if self.state is DeliveryState.RETRYING:
            return self._retry()
        return self._plan()

    def request_stop(self) -> None:
        """End at the next place where nothing is in doubt."""
        self._stopping = True

    def handle(self, event: DeliveryEvent) -> DeliveryCommand:
        """Take what happened, return what to do next."""
        match self.state, event:
            case _, BackingRefused() if self.state in _APPENDING:
                return self._interrupt(self._fenced(event.found_epoch), may_restart=False)
            case _, Unknown() if self.state in _APPENDING or self.state in _COMMITTING:
                return self._interrupt(self._unknown(event.reason), may_restart=True)
            case DeliveryState.PLANNING, Planned():
                return self._on_planned(event)
            case DeliveryState.PLANNING, NothingPlanned():
                return self._enter(DeliveryState.RESTING, Rest())
            case DeliveryState.RESTING, Rested():
                return self._plan()
            case DeliveryState.SNAPSHOTTING | DeliveryState.RETRYING, BackingAppended():
                return self._run()
            case DeliveryState.RUNNING, BatchRan():
                return self._on_ran(event)
            case DeliveryState.RUNNING, BatchFailed():
                return self._on_failed(event)
            case DeliveryState.ATTEMPTING, BackingAppended():
                return self._commit()
            case DeliveryState.DELIVERING, DeliveredMoved():
                return self._on_delivered(self._completion())
            case DeliveryState.DELIVERING, DeliveredMismatched():
                return self._on_mismatched(event.found)
            case DeliveryState.FAILING, BackingAppended():
                assert self._interruption is not None
                return self._enter(DeliveryState.INTERRUPTED, self._interruption)
            case _:
                raise ImpossibleEvent(type(event).__name__, self.state.name)

    # -- one method per event --------------------------------------------------------------------

    def _on_planned(self, event: Planned) -> DeliveryCommand:
        """Steps 1 and 2: the snapshot, written because this is the first attempt."""
        snapshot = Snapshot(
            uid=self._settings.uid,
            number=self._number,
            spans=tuple(event.spans),
            routing=self._routing(),
            code_version=self._settings.code_version,
            strategy=self._settings.strategy,
            batch_time=event.batch_time,
        )
        previous = self._delivered.delivery_hash if self._delivered else ""
        self._taken, self._attempt, self._poisoned = SnapshotTaken(snapshot, previous), 1, ()
        self._reason = ""
        return self._enter(DeliveryState.SNAPSHOTTING, AppendBacking(self._taken, "2"))

    def _routing(self) -> RoutingPin:
        """What is configured, once nothing that was routed otherwise lies ahead."""
        if self._pinned and not self._pinned[1].is_within(self._start):
            return self._pinned[0]
        return self._settings.routing

    def _on_ran(self, event: BatchRan) -> DeliveryCommand:
        """Steps 5 to 7d, or 8: which attempt it was, written before the delivery is completed."""
        # Step 5b, 6b, 8a: nothing was written. Step 7b: the kind is that of the destination.
        kind, step = self._kind_of(event.rows)
        destination = self._settings.destination
        record = Attempt(
            kind=kind,
            number=self._snapshot.number,
            delivery_hash=self._snapshot.delivery_hash,
            destination=destination.queue if destination else "",
            rows=event.rows,
        )
        return self._enter(DeliveryState.ATTEMPTING, AppendBacking(record, step))

    def _kind_of(self, rows: int) -> tuple[AttemptKind, str]:
        destination = self._settings.destination
        if not rows or destination is None:
            return "attempt-nil", "8c"
        return ("attempt-error" if destination.role == "error" else "attempt-output"), "7d"

    def _on_failed(self, event: BatchFailed) -> DeliveryCommand:
        """Step 9: interrupt; but a message that used all attempts up is put out of the way."""
        error = BatchInterrupted(str(self._settings.uid), self._snapshot.number, event.reason)
        self._interruption = Interrupt(error, may_restart=True)
        exhausted = self._settings.retry.is_exhausted(self._attempt)
        if exhausted and event.suspect is not None and self._settings.on_error != "stop":
            record = Poisoned(self._snapshot.number, event.suspect, event.reason)
            return self._enter(DeliveryState.FAILING, AppendBacking(record, "6"))
        return self._enter(DeliveryState.INTERRUPTED, self._interruption)

    def _on_delivered(self, delivered: Delivered) -> DeliveryCommand:
        """Step 9: go on after the snapshot."""
        self._delivered = delivered
        self._start = self._start.advanced(self._snapshot.spans)
        self._number = self._snapshot.number + 1
        self._taken = None
        return self._plan()

    def _on_mismatched(self, found: Delivered | None) -> DeliveryCommand:
        """Somebody else moved the sink's record: completed the same snapshot, or went beyond it."""
        if found and found.delivery_hash == self._snapshot.delivery_hash:
            return self._on_delivered(found)
        if found and found.epoch > self._epoch:
            return self._interrupt(self._fenced(found.epoch), may_restart=False)
        return self._interrupt(self._unknown("the sink's record is another one"), may_restart=True)

    # -- what the events lead to -----------------------------------------------------------------

    def _plan(self) -> DeliveryCommand:
        if self._stopping:
            return self._enter(DeliveryState.STOPPED, Finish())
        return self._enter(DeliveryState.PLANNING, PlanBatch(self._start))

    def _retry(self) -> DeliveryCommand:
        """Step 2 on a retry: the snapshot is there; only the attempt is counted."""
        if self._is_given_up():
            error = AttemptsExhausted(
                str(self._settings.uid), self._snapshot.number, self._attempt - 1, self._reason
            )
            self._interruption = Interrupt(error, may_restart=False)
            record: Record = GaveUp(self._snapshot.number, self._reason)
            return self._enter(DeliveryState.FAILING, AppendBacking(record, "9"))
        record = Retried(self._snapshot.number, self._attempt, self._reason)
        return self._enter(DeliveryState.RETRYING, AppendBacking(record, "2"))

    def _is_given_up(self) -> bool:
        """All attempts were used up, with those that look for the culprit one by one."""
        if "at-most-once" in (self._snapshot.strategy, self._settings.strategy):
            # Another attempt only skips what the one before has claimed; and the one attempt that
            # at most once allows is not for a snapshot that was taken under another strategy.
            return False
        retry, made = self._settings.retry, self._attempt - 1
        if self._settings.on_error == "stop" or retry.attempts is None:
            return retry.is_exhausted(made)
        return made >= 2 * retry.attempts

    def _run(self) -> DeliveryCommand:
        """Steps 3 and 4."""
        made = self._attempt - 1
        is_suspicious = made > 0 and self._settings.retry.is_exhausted(made)
        command = RunBatch(
            snapshot=self._snapshot,
            delivery_hash=self._snapshot.delivery_hash,
            attempt=self._attempt,
            floor=shared_floor(self._delivered),
            epoch=self._epoch,
            poisoned=self._poisoned,
            is_isolated=is_suspicious and self._snapshot.strategy != "at-most-once",
            delay=self._settings.retry.delay_after(made) if made else 0.0,
        )
        return self._enter(DeliveryState.RUNNING, command)

    def _commit(self) -> DeliveryCommand:
        return self._enter(
            DeliveryState.DELIVERING, CommitDelivered(self._delivered, self._completion())
        )

    def _completion(self) -> Delivered:
        ends = (self._delivered.ends if self._delivered else self._start).advanced(
            self._snapshot.spans
        )
        return Delivered(
            uid=self._settings.uid,
            number=self._snapshot.number,
            delivery_hash=self._snapshot.delivery_hash,
            ends=ends,
            epoch=self._epoch,
        )

    @property
    def _snapshot(self) -> Snapshot:
        assert self._taken is not None
        return self._taken.snapshot

    def _fenced(self, found: int) -> Fenced:
        return Fenced(str(self._settings.uid), self._epoch, found)

    def _unknown(self, reason: str) -> DeliveryUnknown:
        step = "7e" if self.state is DeliveryState.DELIVERING else "2 or 7d"
        number = self._taken.snapshot.number if self._taken else self._number
        return DeliveryUnknown(str(self._settings.uid), number, step, reason)

    def _interrupt(self, error: WindrowError, may_restart: bool) -> DeliveryCommand:
        return self._enter(DeliveryState.INTERRUPTED, Interrupt(error, may_restart))

    def _enter(self, state: DeliveryState, command: DeliveryCommand) -> DeliveryCommand:
        self.state = state
        return command


_APPENDING = frozenset(
    {
        DeliveryState.SNAPSHOTTING,
        DeliveryState.RETRYING,
        DeliveryState.ATTEMPTING,
        DeliveryState.FAILING,
    }
)
_COMMITTING = frozenset({DeliveryState.DELIVERING})
