"""What does the sink of a graph's query do? Its tasks write, and its end completes every step.

Spark makes a new writer for every batch, in a process that knows nothing of the source's, and tells
it nothing of the batch. So the writer reads the backing journal: the snapshot in doubt is the one
that is being delivered, and if the journal names another owner this one is fenced.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from windrow.graph.backing import SnapshotTaken
from windrow.graph.delivery import DeliveryMachine
from windrow.graph.delivery_errors import Fenced
from windrow.graph.delivery_steps import (
    AppendBacking,
    BatchRan,
    CommitDelivered,
    DeliveryCommand,
    DeliveryEvent,
    Interrupt,
    PlanBatch,
)
from windrow.graph.high_water import Delivered, shared_floor
from windrow.graph.policies import AT_MOST_ONCE
from windrow.graph.positions import Position, SourceOffsets
from windrow.graph.recovery import Recovered
from windrow.graph.sink_rows import ListedRows, SinkRows
from windrow.graph.sink_task import SinkTask, check_sole_owners
from windrow.graph.snapshot import Snapshot
from windrow.points import pass_by
from windrow.spark.chunks import Piece, rows_of, unpacked
from windrow.spark.query.errors import NotBegun, OutOfStep
from windrow.spark.query.leg_plan import LegPlan
from windrow.spark.query.opened import STORES, Stores
from windrow.spark.targets.perform import Effect, run_sink_task

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class TaskCount:
    """What one task did: for each of its targets how many rows had something to write."""

    task: int
    rows: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class BatchFacts:
    """What is being delivered: all that tasks and the end of a batch have to know."""

    taken: SnapshotTaken
    attempts: int
    delivered: Delivered | None
    poisoned: tuple[Position, ...] = ()
    is_isolated: bool = False

    @property
    def snapshot(self) -> Snapshot:
        """The ranges, the routing, the strategy."""
        return self.taken.snapshot

    @property
    def delivery_hash(self) -> str:
        """Of the whole of it."""
        return self.snapshot.delivery_hash

    @property
    def floor(self) -> SourceOffsets:
        """What every target holds already."""
        return shared_floor(self.delivered)


def read_facts(plan: LegPlan, stores: Stores | None = None) -> BatchFacts:
    """What is being delivered, as the backing journal and the sink say.

    Raises:
        Fenced: Another owner has the processor.
        OutOfStep: No snapshot was taken.
    """
    if plan.recovered is None:
        raise NotBegun(plan.name)
    stores = stores or STORES
    state = stores.backing(plan).read()
    if state.epoch != plan.epoch:
        raise Fenced(plan.name, plan.epoch, state.epoch)
    if state.taken is None:
        raise OutOfStep(plan.name, "an end of a batch", "no snapshot")
    delivered = stores.target(plan.target).read_delivered(plan.uid)
    made = state.attempts - 1
    # As the delivery machine decides it: the attempts are used up, and one message is suspected.
    # With several tasks at work the last note could be that of another one.
    snapshot = state.taken.snapshot
    is_isolated = (
        made > 0
        and plan.retry.is_exhausted(made)
        and snapshot.strategy != AT_MOST_ONCE
        and snapshot.routing.targets == 1
    )
    return BatchFacts(state.taken, state.attempts, delivered, state.poisoned, is_isolated)


class LegSink:
    """The sink of one query for one batch.

    Args:
        plan: The query.
        facts: What is being delivered.
        stores: How places are opened; in a task those of its process.
    """

    def __init__(self, plan: LegPlan, facts: BatchFacts, stores: Stores | None = None) -> None:
        self.plan = plan
        self.facts = facts
        self._stores = stores

    def write(self, batches: Iterable[pa.RecordBatch], task: int) -> TaskCount:
        """Write the rows of one task: it has all rows of each of its targets.

        Raises:
            Fenced: A later owner has written there.
            Refused: Going on would lose or double something.
        """
        self._check_undelivered()
        rows = self._rows(batches)
        counts = [(target, self._write(target, own)) for target, own in sorted(rows.items())]
        return TaskCount(task, tuple(counts))

    def commit(self, counts: Sequence[TaskCount]) -> None:
        """Complete the delivery: every task is done.

        Raises:
            TargetShared: Two tasks wrote to one target.
            Fenced: Another owner has the processor.
            DeliveryUnknown: It may be complete or not; recovery finds out.
        """
        check_sole_owners((each.task, target) for each in counts for target, _ in each.rows)
        rows = sum(count for each in counts for _, count in each.rows)
        complete(self.plan, self.facts, rows, self._opened)

    def _check_undelivered(self) -> None:
        """Rows of a batch that has no snapshot would be taken for rows of the last one."""
        delivered = self.facts.delivered
        if delivered is not None and delivered.delivery_hash == self.facts.delivery_hash:
            known = f"snapshot {delivered.number}, which is delivered"
            raise OutOfStep(self.plan.name, "a batch without a snapshot", known)

    @property
    def _opened(self) -> Stores:
        return self._stores or STORES

    def _rows(self, batches: Iterable[pa.RecordBatch]) -> dict[int, SinkRows]:
        """By target, in the order of their positions."""
        if self.plan.is_frame:
            from windrow.spark.query.frames import staged_rows

            # All of them go to one target, since they are routed by what the function made.
            return {0: ListedRows.of(staged_rows(self.plan, self.facts.snapshot, batches))}
        by_target: dict[int, list[Piece]] = defaultdict(list)
        for batch in batches:
            for target, piece in unpacked(batch):
                by_target[target].append(piece)
        return {target: rows_of(pieces) for target, pieces in by_target.items()}

    def _write(self, target: int, rows: SinkRows) -> int:
        plan, facts = self.plan, self.facts
        task = SinkTask(
            facts.snapshot,
            target,
            rows,
            facts.floor,
            # Rows of a frame come in any order, so they are written all at once or not at all.
            0 if plan.is_frame else plan.settings.rows_per_write,
            plan.epoch,
        )
        run_sink_task(task, plan.uid, self._opened.target(plan.target), self._effect())
        return len(rows.present())

    def _effect(self) -> Effect | None:
        plan = self.plan
        if plan.effect == "function":
            from windrow.spark.query.effects import function_effect

            return function_effect(plan, self.facts, self._opened)
        if plan.effect == "post":
            assert plan.leg.destination is not None
            return self._opened.poster(plan.outputs[plan.leg.destination.queue])
        return None


def complete(plan: LegPlan, facts: BatchFacts, rows: int, stores: Stores) -> None:
    """Steps 7d and 7e, or 8: the attempt, and then the sink's record of it.

    Raises:
        Fenced: Another owner has the processor.
        DeliveryUnknown: It may be complete or not.
    """
    assert plan.recovered is not None
    recovered = Recovered(
        start=facts.delivered.ends if facts.delivered else plan.recovered.start,
        number=facts.snapshot.number,
        delivered=facts.delivered,
        in_doubt=facts.taken,
        attempts=facts.attempts,
    )
    machine = DeliveryMachine.while_running(plan.delivery, recovered, plan.epoch)
    command = machine.handle(BatchRan(rows))
    while not isinstance(command, PlanBatch):
        if isinstance(command, Interrupt):
            raise command.error
        command = machine.handle(_perform(command, plan, stores))


def _perform(command: DeliveryCommand, plan: LegPlan, stores: Stores) -> DeliveryEvent:
    match command:
        case AppendBacking():
            pass_by("graph.attempt-before")
            outcome: DeliveryEvent = stores.backing(plan).append(command.record, plan.epoch)
            pass_by("graph.attempt-after")
            return outcome
        case CommitDelivered():
            pass_by("graph.deliver-before")
            target = stores.target(plan.target)
            outcome = target.commit_delivered(command.expected, command.delivered)
            pass_by("graph.deliver-after")
            return outcome
    raise AssertionError(command)
