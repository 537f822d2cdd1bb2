"""What does the source of a graph's query say to Spark? The planning half of every step.

One machine lives as long as the query. It plans a batch, has its snapshot written, and hands the
batch to Spark; the other half, which hears that all is written, lives in the process of the sink.
When Spark asks for what comes after a batch, that half is done: a sink that could not complete a
delivery ends the query. So the machine is told of it, and nothing has to be read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from windrow.graph.delivery import DeliveryMachine
from windrow.graph.delivery_steps import (
    AppendBacking,
    BackingAppended,
    BatchRan,
    CommitDelivered,
    DeliveredMoved,
    DeliveryCommand,
    Interrupt,
    NothingPlanned,
    PlanBatch,
    Planned,
    Rest,
    Rested,
    RunBatch,
)
from windrow.graph.planning import (
    Available,
    Backlog,
    Split,
    available_now,
    backlog,
    plan,
    splits,
)
from windrow.graph.positions import SourceOffsets
from windrow.points import pass_by
from windrow.spark.outbox import hooks
from windrow.spark.query.errors import NotBegun, OutOfStep
from windrow.spark.query.leg_plan import LegPlan
from windrow.spark.query.opened import STORES, Stores
from windrow.spark.query.reading import BatchPart, read_part
from windrow.spark.stores import QueueReader

if TYPE_CHECKING:
    import pyarrow as pa


class LegSource:
    """The source of one query, in whichever process Spark makes it.

    Making one does nothing: Spark also makes one only to send it to tasks.
    """

    def __init__(
        self, plan: LegPlan, stores: Stores | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        if plan.recovered is None:
            raise NotBegun(plan.name)
        self.plan = plan
        self._recovered = plan.recovered
        self._stores = stores or STORES
        self._clock = clock
        self._machine: DeliveryMachine | None = None
        self._command: DeliveryCommand | None = None
        self._until: SourceOffsets | None = None
        self._backlog: SourceOffsets | None = None

    # -- offsets ---------------------------------------------------------------------------------

    def initial_offset(self) -> dict[str, Any]:
        """Where recovery says that reading begins."""
        return self._recovered.start.to_json()

    def prepare_available_now(self) -> None:
        """Take nothing that comes later than now."""
        self._begin()
        hooks.prepare_available_now(self._outboxes())
        self._until = available_now(self.available())

    def latest_offset(self, start: dict[str, Any]) -> dict[str, Any]:
        """Where the next batch ends; where it begins if there is nothing to read.

        Raises:
            Refused: Going on would lose or double something, or the attempts are used up.
        """
        begin = SourceOffsets.from_json(start)
        machine = self._begin()
        running = self._running()
        if running is not None and not begin.agrees_with(machine.start_offsets):
            self._hear_of_delivery()
            running = None
        if not begin.agrees_with(machine.start_offsets):
            raise OutOfStep(self.plan.name, str(begin), str(machine.start_offsets))
        if running is None:
            running = self._plan()
        if running is None:
            return start
        return begin.moved_to(running.snapshot.ends).to_json()

    def latest_available(self) -> dict[str, Any] | None:
        """Where the inputs ended when they were last looked at: for whoever shows the backlog."""
        return self._backlog.to_json() if self._backlog is not None else None

    def backlog(self, start: SourceOffsets) -> Backlog:
        """What waits to be read."""
        return backlog(self.plan.taking, start, self.available())

    def available(self) -> list[Available]:
        """What every partition of every input holds."""
        return [
            each
            for place in self.plan.sources.values()
            for each in self._stores.reader(place).available()
        ]

    def _outboxes(self) -> list[QueueReader]:
        places = [place for place in self.plan.sources.values() if place.backend == "outbox"]
        return [self._stores.reader(place) for place in places]

    # -- tasks -----------------------------------------------------------------------------------

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[BatchPart]:
        """What each task reads. Spark may ask without having asked for an end: a replay counts."""
        self._begin()
        running = self._running()
        wanted = SourceOffsets.from_json(end)
        if running is None:
            raise OutOfStep(self.plan.name, str(wanted), "nothing")
        ends = running.snapshot.ends
        if not ends.agrees_with(wanted.of_inputs(ends.sources)):
            raise OutOfStep(self.plan.name, str(wanted), str(ends))
        return self._parts(running)

    def read(self, part: BatchPart) -> Iterator[pa.RecordBatch]:
        """The rows of a part; in a task."""
        return read_part(self.plan, part, self._stores)

    def _parts(self, run: RunBatch) -> list[BatchPart]:
        found = self._splits(run)
        if run.is_isolated:
            self._stores.ensure([self.plan.suspects])
        if run.is_isolated or self.plan.by_hand:
            # One task for all: the last note is then the one of the culprit, and a queue that is
            # read by hand has one reader.
            return [BatchPart(tuple(found), run)]
        return [BatchPart((split,), run) for split in found]

    def _splits(self, run: RunBatch) -> list[Split]:
        plan, snapshot = self.plan, run.snapshot
        if plan.taking == "join":
            return splits("join", snapshot, max_rows=plan.settings.rows_per_task)
        cuts = {
            span.origin: self._stores.reader(plan.sources[span.source]).cuts(span.origin)
            for span in snapshot.spans
            if span and len(span) > (plan.settings.rows_per_task or 0)
        }
        return splits("alts", snapshot, cuts, plan.settings.rows_per_task)

    # -- the machine -----------------------------------------------------------------------------

    def _begin(self) -> DeliveryMachine:
        if self._machine is None:
            plan = self.plan
            hooks.lead(self._outboxes(), plan.owner)
            self._machine = DeliveryMachine(plan.delivery, self._recovered, plan.epoch)
            self._command = self._perform(self._machine.start())
            # What was delivered before a restart is still there.
            hooks.settle(self._outboxes(), self._recovered.start)
        return self._machine

    def _running(self) -> RunBatch | None:
        return self._command if isinstance(self._command, RunBatch) else None

    def _plan(self) -> RunBatch | None:
        """Step 1: what comes next, and its snapshot if there is anything."""
        machine, command = self._begin(), self._command
        if isinstance(command, Rest):
            command = machine.handle(Rested())
        if not isinstance(command, PlanBatch):
            raise OutOfStep(self.plan.name, "what comes next", type(command).__name__)
        pass_by("graph.plan-before")
        available = self.available()
        self._backlog = available_now(available)
        spans = plan(self.plan.taking, command.start, available, self.plan.limits, self._until)
        if spans is None:
            self._command = machine.handle(NothingPlanned())
            return None
        self._command = self._perform(machine.handle(Planned(spans, self._clock())))
        return self._running()

    def _perform(self, command: DeliveryCommand) -> DeliveryCommand:
        """Append what has to be appended, until there is a batch to plan or to run."""
        machine = self._machine
        assert machine is not None
        while isinstance(command, AppendBacking):
            pass_by("graph.snapshot-before")
            outcome = self._stores.backing(self.plan).append(command.record, self.plan.epoch)
            pass_by("graph.snapshot-after")
            command = machine.handle(outcome)
        if isinstance(command, Interrupt):
            raise command.error
        return command

    def _hear_of_delivery(self) -> None:
        """Take the machine over the half that the sink has performed."""
        machine = self._begin()
        command = machine.handle(BatchRan(0))
        while not isinstance(command, PlanBatch):
            match command:
                case AppendBacking():
                    command = machine.handle(BackingAppended())
                case CommitDelivered():
                    command = machine.handle(DeliveredMoved())
                case _:
                    raise OutOfStep(self.plan.name, "what comes next", type(command).__name__)
        self._command = command
        hooks.settle(self._outboxes(), machine.start_offsets)
