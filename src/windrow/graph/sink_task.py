"""What does one task of a sink do? Read the high-water, drop, write with a compare-and-set. Pure.

::

    READING ──▶ WRITING ──written──▶ WRITING … ──▶ DONE          exactly once
       ▲ │         │ mismatch, unknown
       └─┼─────────┘
         ├──▶ CLAIMING ──claimed──▶ ACTING ──▶ DONE              at most once
         └──▶ ACTING ──▶ MARKING ──▶ DONE                        at least once

A write checks the high-water that was read and moves it, in one atomic step with the rows. If it
changed meanwhile, or if nobody knows whether the write was made, the answer is the same: read it
again and drop again. So task retries, speculative copies and the tasks of a zombie driver all end
with each row written once.

At most once, the *task* moves the high-water to its end and only then acts: a second attempt finds
it moved and does nothing. A claim made once on the driver would not see the attempts of tasks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from windrow.graph.delivery_errors import (
    Fenced,
    ImpossibleEvent,
    MarkConflict,
    TargetShared,
)
from windrow.graph.high_water import HighWaters
from windrow.graph.positions import SourceOffsets
from windrow.graph.sink_rows import ListedRows, SinkRow, SinkRows
from windrow.graph.snapshot import Snapshot


class SinkState(Enum):
    """Where the task stands. READING is the first, DONE the last."""

    READING = auto()
    WRITING = auto()
    CLAIMING = auto()
    ACTING = auto()
    MARKING = auto()
    DONE = auto()


# -- what happened -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HighWaterRead:
    """What the target has."""

    waters: HighWaters


@dataclass(frozen=True, slots=True)
class Written:
    """The rows, if there were any, and the marks are in the target, in one step."""


@dataclass(frozen=True, slots=True)
class Mismatched:
    """The marks were not what was expected; nothing was written."""


@dataclass(frozen=True, slots=True)
class WriteUnknown:
    """The write may have been made, or not."""


@dataclass(frozen=True, slots=True)
class WriterFenced:
    """A later writer has shut this one out."""

    epoch: int = 0
    found: int = 0


@dataclass(frozen=True, slots=True)
class Acted:
    """The effect was brought about."""


SinkEvent = HighWaterRead | Written | Mismatched | WriteUnknown | WriterFenced | Acted


# -- what to do next -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReadHighWater:
    """Read the marks of a target, past everything that may still be under way to it."""

    target: int


@dataclass(frozen=True, slots=True)
class WriteRows:
    """If the marks are still the expected ones: write the rows and the new marks, all or nothing.

    Without rows only the marks move: over nil rows, or to claim.
    """

    rows: Sequence[SinkRow]
    expected: HighWaters
    marks: HighWaters


@dataclass(frozen=True, slots=True)
class Act:
    """Bring about the effect of these rows."""

    rows: Sequence[SinkRow]


@dataclass(frozen=True, slots=True)
class TaskDone:
    """The end, for the driver to count."""

    target: int
    written: int
    dropped: int


SinkCommand = ReadHighWater | WriteRows | Act | TaskDone


class SinkTask:
    """The steps of one task for one target partition. Takes what happened, returns what to do.

    Args:
        snapshot: What is being delivered; its strategy is the one that counts.
        target: The partition; the task must have *all* rows that the snapshot has for it.
        rows: In any order, and then they are sorted here; or in the order of their positions.
        floor: What every target holds already.
        rows_per_write: How many rows go into one write; 0 for all. Rows of a join are never cut.
        epoch: Of the owner that runs the task.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        target: int,
        rows: Iterable[SinkRow] | SinkRows,
        floor: SourceOffsets,
        rows_per_write: int = 0,
        epoch: int = 0,
    ) -> None:
        self.state = SinkState.READING
        self.target = target
        self._snapshot = snapshot
        self._floor = floor
        self._epoch = epoch
        self._rows: SinkRows = ListedRows.of(rows) if isinstance(rows, Iterable) else rows
        self._total = len(self._rows)
        self._rows_per_write = 0 if self._rows.is_join else rows_per_write
        self._waters: HighWaters | None = None
        self._refused: HighWaters | None = None
        self._rest: SinkRows = ListedRows()
        self._present: Sequence[SinkRow] = ()
        self._chunk_marks: HighWaters | None = None
        self._written = 0

    def start(self) -> SinkCommand:
        """The first thing to do."""
        return ReadHighWater(self.target)

    def handle(self, event: SinkEvent) -> SinkCommand:
        """Take what happened, return what to do next.

        Raises:
            Fenced: A later writer is at work; nothing of this one was lost.
            RoutingChanged: The target holds rows of an unfinished snapshot routed otherwise.
            MarkConflict: The target refuses without a reason.
        """
        match self.state, event:
            case _, WriterFenced():
                raise Fenced(str(self._snapshot.uid), event.epoch, event.found)
            case SinkState.READING, HighWaterRead():
                return self._on_read(event.waters)
            case SinkState.WRITING, Written():
                return self._on_written()
            case SinkState.CLAIMING, Written():
                return self._enter(SinkState.ACTING, Act(self._present))
            case SinkState.WRITING | SinkState.CLAIMING, Mismatched():
                self._refused = self._waters
                return self._read_again()
            case SinkState.WRITING | SinkState.CLAIMING, WriteUnknown():
                return self._read_again()
            case SinkState.ACTING, Acted():
                return self._on_acted()
            case SinkState.MARKING, Written() | Mismatched() | WriteUnknown():
                # The deed is done; a mark that did not move only means that it may be done again.
                return self._done()
            case _:
                raise ImpossibleEvent(type(event).__name__, self.state.name)

    # -- one method per event --------------------------------------------------------------------

    def _on_read(self, waters: HighWaters) -> SinkCommand:
        if self._refused == waters:
            raise MarkConflict(str(self._snapshot.uid), self.target)
        if waters.epoch > self._epoch:
            raise Fenced(str(self._snapshot.uid), self._epoch, waters.epoch)
        waters.check_routing(self._snapshot, self._floor)
        self._waters, self._refused = waters, None
        self._rows = self._rows.undelivered(waters, self._floor)
        return self._next_chunk()

    def _on_written(self) -> SinkCommand:
        self._written += len(self._present)
        self._rows = self._rest
        self._waters = self._chunk_marks
        return self._next_chunk()

    def _on_acted(self) -> SinkCommand:
        self._written += len(self._present)
        if self._snapshot.strategy == "at-most-once":
            return self._done()
        return self._enter(SinkState.MARKING, self._write(()))

    def _next_chunk(self) -> SinkCommand:
        """The next rows; with the last of them the marks move to the end of the snapshot."""
        assert self._waters is not None
        if not self._rows:
            return self._done()
        exactly_once = self._snapshot.strategy == "exactly-once"
        size = self._rows_per_write if exactly_once and self._rows_per_write else len(self._rows)
        chunk, self._rest = self._rows.cut(size)
        self._present = chunk.present()
        over = self._waters.over(chunk.reached(), self._snapshot.routing)
        is_last = size >= len(self._rows)
        marks = over.to_ends(self._snapshot) if is_last else over
        self._chunk_marks = marks.owned_by(self._epoch)
        match self._snapshot.strategy:
            case "exactly-once":
                return self._enter(SinkState.WRITING, self._write(self._present))
            case "at-most-once":
                return self._enter(SinkState.CLAIMING, self._write(()))
            case _:
                return self._enter(SinkState.ACTING, Act(self._present))

    def _write(self, rows: Sequence[SinkRow]) -> SinkCommand:
        assert self._waters is not None
        assert self._chunk_marks is not None
        return WriteRows(rows, self._waters, self._chunk_marks)

    def _read_again(self) -> SinkCommand:
        return self._enter(SinkState.READING, ReadHighWater(self.target))

    def _done(self) -> SinkCommand:
        dropped = self._total - self._written
        return self._enter(SinkState.DONE, TaskDone(self.target, self._written, dropped))

    def _enter(self, state: SinkState, command: SinkCommand) -> SinkCommand:
        self.state = state
        return command


def check_sole_owners(claims: Iterable[tuple[int, int]]) -> None:
    """See that no two tasks of one batch wrote to the same target.

    Args:
        claims: Pairs of a task's number and a target that it wrote to.

    Raises:
        TargetShared: Two did, so rows may have been dropped.
    """
    tasks: dict[int, set[int]] = defaultdict(set)
    for task, target in claims:
        tasks[target].add(task)
    for target, owners in sorted(tasks.items()):
        if len(owners) > 1:
            raise TargetShared(target, tuple(sorted(owners)))
