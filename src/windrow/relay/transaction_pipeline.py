"""The shell around the batch machine: one thread that performs what the machine says."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol
from uuid import UUID, uuid4

from windrow.clock import Clock, SystemClock
from windrow.errors import OutcomeUnknown, Unreachable
from windrow.outbox.marked import Marked, bytes_of
from windrow.points import pass_by
from windrow.relay.appetite import Appetite
from windrow.relay.batch_machine import (
    AskOutbox,
    AskTarget,
    BatchMachine,
    BatchMarked,
    BatchName,
    Command,
    Committed,
    CommitUnknown,
    Event,
    FenceTarget,
    Finish,
    Isolate,
    Isolated,
    MarkFailed,
    Publish,
    PurgeAndMark,
    ReadBack,
    Rejected,
    Rest,
    Rested,
    TargetFenced,
    Unnamed,
)
from windrow.relay.doorbell import Doorbell
from windrow.relay.errors import BatchesForgotten
from windrow.relay.events import DatabaseLost, LaneHeld, RecordBuried, RecordFailed, TargetLost
from windrow.relay.failure import Failure, FailureKind
from windrow.relay.pace import Pace
from windrow.relay.policy import Policy, WhenExhausted
from windrow.telemetry import events as telemetry

SWEEP_INTERVAL, SLOWEST_SWEEP = 1.0, 30.0
ABANDON_TIMEOUT = 6.0


class BatchStore(Protocol):
    """What transactional mode asks of an outbox."""

    def purge_and_mark(
        self,
        committed: tuple[UUID, int] | None,
        ids: Sequence[int],
        next_batch: UUID | None,
        limit: int,
        ahead: Sequence[Marked] = (),
    ) -> Sequence[Marked]:
        """Remove the committed batch and name the next, in one transaction."""

    def look_ahead(self, beside: Sequence[int], limit: int) -> list[Marked]:
        """What would come after these rows, without naming it."""

    def check_fence(self) -> None:
        """See that nobody has raised the epoch."""

    def named_rows(self) -> tuple[int, int | None]:
        """How many rows carry the name of a batch, and the first of them."""

    def hold(self, key: str, ids: Sequence[int], reason: str, note: str) -> None:
        """Keep a key out of batches."""

    def bury(self, ids: Sequence[int], attempts: int, error: str) -> None:
        """Move rows to the dead letters."""

    def bury_lanes(self) -> int:
        """Move what has arrived for buried keys."""

    def note(self, record: int, attempts: int, error: str) -> None:
        """Write a failure down."""

    def interrupt(self) -> None:
        """Break whatever statement is under way."""


class BatchTarget(Protocol):
    """What transactional mode asks of a target."""

    state_topic: str
    """Where it keeps the names of batches."""

    def fence(self) -> CommitUnknown | None:
        """Shut out whoever wrote before."""

    def read_back(self) -> ReadBack | CommitUnknown:
        """Which batch was committed last."""

    def prepare(self, batch: BatchName, rows: Sequence[Marked]) -> None:
        """Do of ``publish`` what the next leader can undo; the batch may come to be another."""

    def discard(self) -> None:
        """Undo what was prepared, if anything was."""

    def publish(
        self, batch: BatchName, rows: Sequence[Marked]
    ) -> Committed | Rejected | CommitUnknown:
        """Write a batch and its name."""


class TransactionPipeline:
    """Relays named batches under one leadership, from ``start`` to ``stop``."""

    def __init__(
        self,
        store: BatchStore,
        target: BatchTarget,
        machine: BatchMachine,
        *,
        batch_size: int = 8_000,
        batch_bytes: int = 32 * 1024 * 1024,
        policy_of: Callable[[str], Policy] = lambda topic: Policy(),
        emit: Callable[[telemetry.Event], None] = lambda event: None,
        pace: Pace | None = None,
        doorbell: Doorbell | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._store, self._target, self._machine = store, target, machine
        self._batch_size, self._batch_bytes = batch_size, batch_bytes
        self._appetite = Appetite()
        self._asked_for = 0
        """How many rows the batch under way could have had: with fewer there are no more."""
        self._policy_of, self._emit = policy_of, emit
        self._pace = pace or Pace()
        self._clock = clock or SystemClock()
        self._doorbell = doorbell or Doorbell()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._guarded, name="windrow-batches", daemon=True)
        self._database = ThreadPoolExecutor(1, "windrow-database")
        self._reading = ThreadPoolExecutor(1, "windrow-ahead")
        self._ahead: tuple[BatchName, int, Future[list[Marked]]] | None = None
        self._sweeps = Pace(SWEEP_INTERVAL, SLOWEST_SWEEP, patience=SWEEP_INTERVAL)
        self._sweep_at = 0.0
        self.leader = uuid4()
        self._batch: Sequence[Marked] = ()
        self.delivered = 0
        self.batches = 0
        self.error: BaseException | None = None

    def start(self) -> None:
        """Begin to relay."""
        self._thread.start()

    @property
    def in_flight(self) -> int:
        """How many records the batch under way has."""
        return len(self._batch)

    @property
    def in_flight_keys(self) -> list[str]:
        """The keys of the batch under way."""
        return list({row.key for row in self._batch if row.key is not None})

    def ring(self) -> None:
        """There is something to read."""
        self._doorbell.set()

    def stop(self, drain_timeout: float) -> bool:
        """Finish the batch under way and end; true if nothing is left in doubt."""
        self._machine.request_stop()
        self._doorbell.set()
        self._thread.join(drain_timeout)
        finished = not self._thread.is_alive()
        self.abandon()
        return finished

    def abandon(self) -> None:
        """End at once: what is in doubt is the next leader's to find out."""
        self._ended.set()
        self._doorbell.set()
        if self._thread.is_alive():
            self._store.interrupt()
            # A client of Kafka that waits for a dead broker cannot be interrupted. It may finish
            # by itself: nothing that it still does counts, since the next leader fences it.
            self._thread.join(ABANDON_TIMEOUT)

    def _guarded(self) -> None:
        try:
            command = self._machine.start()
            while not isinstance(command, Finish) and not self._ended.is_set():
                event = self._perform(command)
                if isinstance(event, CommitUnknown):
                    self._emit(TargetLost(event.failure))
                command = self._machine.handle(event)
            # An open transaction would hold up whoever reads committed records.
            self._target.discard()
        except BaseException as error:
            if not self._ended.is_set():
                self.error = error
        finally:
            self._database.shutdown(cancel_futures=True)
            self._reading.shutdown(cancel_futures=True)

    # -- what the machine asks for ---------------------------------------------------------------

    def _perform(self, command: Command) -> Event:
        match command:
            case FenceTarget():
                return self._fence(command)
            case AskTarget():
                return self._target.read_back()
            case AskOutbox():
                return self._ask_outbox()
            case PurgeAndMark():
                return self._purge_and_mark(command)
            case Rest():
                self._doorbell.wait(self._pace.on_empty(self._clock.monotonic()))
                return Rested()
            case Publish():
                return self._publish(command)
            case Isolate():
                return self._isolate(command)
            case _:
                raise AssertionError(f"nothing performs {command}")

    def _fence(self, command: FenceTarget) -> Event:
        self._ended.wait(command.delay)
        try:
            # A leader that was asleep must not shut out the one that took over.
            self._store.check_fence()
        except (OutcomeUnknown, Unreachable) as error:
            return CommitUnknown(Failure(FailureKind.UNKNOWN, "database", str(error)))
        return self._target.fence() or TargetFenced()

    def _ask_outbox(self) -> Event:
        """See that the target has nothing to remember.

        Raises:
            BatchesForgotten: It had: what became of these rows cannot be known any more.
        """
        try:
            count, first = self._store.named_rows()
            # A leader that was asleep finds the names of whoever took over.
            self._store.check_fence()
        except (OutcomeUnknown, Unreachable) as error:
            return CommitUnknown(Failure(FailureKind.UNKNOWN, "database", str(error)))
        if first is not None:
            raise BatchesForgotten(self._target.state_topic, count, first)
        return Unnamed()

    def _purge_and_mark(self, command: PurgeAndMark) -> Event:
        self._ended.wait(command.delay)
        self._asked_for = self._rows_to_ask_for()
        ahead = self._take_ahead(command)
        try:
            marking = self._database.submit(self._mark, command, ahead)
            if ahead and command.next is not None:
                batch = BatchName(command.next, len(ahead))
                self._look_ahead(batch, ahead, [*command.ids, *(row.id for row in ahead)])
                self._target.prepare(batch, ahead)
            rows = marking.result()
            if rows is not ahead:
                self._ahead = None
                self._target.discard()
                self._appetite.on_read(len(rows), bytes_of(rows))
        except (OutcomeUnknown, Unreachable) as error:
            self._emit(DatabaseLost(str(error), command.delay))
            self._target.discard()
            return MarkFailed()
        self.delivered += len(command.ids)
        self._batch = rows
        if rows:
            self._pace.on_rows()
            self._doorbell.on_rows()
        self._sweep()  # only now: before, a row could be of the batch in doubt
        return BatchMarked(rows)

    def _mark(self, command: PurgeAndMark, ahead: Sequence[Marked]) -> Sequence[Marked]:
        batch = command.committed
        name = None if batch is None else (batch.uuid, batch.count)
        return self._store.purge_and_mark(name, command.ids, command.next, self._asked_for, ahead)

    def _publish(self, command: Publish) -> Event:
        self.leader = command.batch.uuid
        self.batches += 1
        pass_by("relay.batch-marked")
        if self._ahead is None:
            self._look_ahead(command.batch, command.rows, [row.id for row in command.rows])
        outcome = self._target.publish(command.batch, command.rows)
        pass_by("relay.batch-published")
        return outcome

    # -- reading ahead ---------------------------------------------------------------------------
    #
    # With a backlog the database would stand still while the target works, and the other way
    # round. So the rows after a batch are read while it is named and published, and prepared at the
    # target while the database names them. Never named early, nor committed before they are named:
    # both would put two batches in doubt.

    def _look_ahead(self, batch: BatchName, rows: Sequence[Marked], beside: list[int]) -> None:
        """Read what comes after a batch, if there may be anything; all else on its way beside it.

        Each such read sees what its predecessor saw, less what that one took, and whatever has
        become visible since: as a reader would that takes them one after the other.
        """
        if len(rows) == self._asked_for:
            limit = self._rows_to_ask_for()
            reading = self._reading.submit(self._store.look_ahead, beside, limit)
            self._ahead = batch, limit, reading

    def _rows_to_ask_for(self) -> int:
        appetite = self._appetite
        fitting = min(appetite.most, appetite.rows_in(self._batch_bytes))
        return max(1, min(self._batch_size, fitting))

    def _take_ahead(self, command: PurgeAndMark) -> Sequence[Marked]:
        """What was read beside the very batch that is now purged; nothing after any setback."""
        ahead, self._ahead = self._ahead, None
        if ahead is None:
            return ()
        batch, limit, reading = ahead
        try:
            rows = reading.result()
        except (OutcomeUnknown, Unreachable):
            return ()
        if batch != command.committed or not command.ids:
            return ()
        self._asked_for = limit
        self._appetite.on_read(len(rows), bytes_of(rows))
        return rows

    # -- rows that were refused ------------------------------------------------------------------

    def _sweep(self) -> None:
        """Send what arrives for a buried lane after it; seldom, while nothing does."""
        now = self._clock.monotonic()
        if now < self._sweep_at:
            return
        try:
            if self._store.bury_lanes():
                self._sweeps.on_rows()
        except (OutcomeUnknown, Unreachable) as error:
            self._emit(DatabaseLost(str(error), SWEEP_INTERVAL))
        self._sweep_at = now + self._sweeps.on_empty(now)

    def _isolate(self, command: Isolate) -> Event:
        """Put refused rows out of the way; repeated until it went through, since it can be."""
        for row, failure in command.failures:
            while not self._ended.is_set():
                try:
                    self._settle(row, failure)
                    break
                except (OutcomeUnknown, Unreachable) as error:
                    self._emit(DatabaseLost(str(error), command.delay))
                    self._ended.wait(command.delay)
        if all(failure.kind is FailureKind.RETRIABLE for _, failure in command.failures):
            self._ended.wait(command.delay)
        return Isolated()

    def _settle(self, row: Marked, failure: Failure) -> None:
        policy, attempts, note = self._policy_of(row.topic), row.attempts + 1, str(failure)
        if failure.kind is FailureKind.RETRIABLE and attempts < policy.max_attempts:
            self._store.note(row.id, attempts, note)
            self._emit(RecordFailed(row.id, row.topic, attempts, failure))
        elif policy.when_exhausted is WhenExhausted.HOLD and row.key is not None:
            self._store.note(row.id, attempts, note)
            self._store.hold(row.key, [row.id], "held", note)
            self._emit(LaneHeld(row.id, row.topic, failure))
        else:
            # A refused row without a key cannot be held by name: it would stop every batch.
            if policy.when_exhausted is WhenExhausted.DEAD_LETTER_LANE and row.key is not None:
                # Before the record goes: a crash in between must not let the rest of the key pass.
                self._store.hold(row.key, [row.id], "buried", note)
            self._store.bury([row.id], attempts, note)
            self._emit(RecordBuried(row.id, row.topic, failure))
            self._sweeps.on_rows()
            self._sweep_at = 0.0
