"""How does a query start? Recovery is performed first, by the process that will run it.

It takes the processor over, so that an earlier owner can change nothing any more, finds out where
to go on, and drops Spark's checkpoint unless that goes on at the same place. Only then does a query
start, with a plan that carries the epoch and what was found.
"""

from __future__ import annotations

import json
import os
import socket
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from windrow.errors import Failed
from windrow.graph.delivery import DeliveryMachine
from windrow.graph.delivery_errors import DeliveryUnknown
from windrow.graph.delivery_steps import (
    AppendBacking,
    BackingAppended,
    BackingRefused,
    BatchFailed,
)
from windrow.graph.positions import Position, SourceOffsets
from windrow.graph.recovery import Recovered, Situation
from windrow.graph.recovery_machine import (
    Appended,
    AppendRewound,
    BackingRead,
    CompleteLate,
    FenceTargets,
    GoOn,
    LateDelivered,
    ReadBacking,
    ReadSink,
    RecoveryCommand,
    RecoveryEvent,
    RecoveryMachine,
    Refuse,
    SinkRead,
    TakenByOther,
    TakeOwnership,
    TargetsFenced,
)
from windrow.graph.routing import RoutingPin
from windrow.points import pass_by
from windrow.spark.query.leg_plan import LegPlan, routing_of
from windrow.spark.query.opened import STORES, Stores
from windrow.spark.runner.checkpoint import SparkCheckpoint, read_checkpoint
from windrow.spark.runner.files import Files, files_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Accepted:
    """What an operator has said may be lost, or done again.

    Attributes:
        sink_loss: The sink is to be filled anew.
        state_loss: State may begin empty.
        when_sink_behind: Whether to deliver again what a sink that was set back has lost.
        begin: Where inputs begin that were never read; by default with what they have.
    """

    sink_loss: bool = False
    state_loss: bool = False
    when_sink_behind: Literal["rewind", "refuse"] = "rewind"
    begin: SourceOffsets = SourceOffsets()  # noqa: RUF009 - frozen


@dataclass(frozen=True, slots=True)
class Started:
    """What a start came to: the plan of a query that may run.

    Attributes:
        plan: With the epoch, the routing, and where to go on.
        recovered: Where to go on.
        epoch: Of this owner.
        dropped_checkpoint: Whether Spark's checkpoint was there and did not agree.
    """

    plan: LegPlan
    recovered: Recovered
    epoch: int
    dropped_checkpoint: bool = False


def owner_name() -> str:
    """A name that no other process has, and that tells where this one runs."""
    host = "".join(c if c.isalnum() or c in "._-" else "-" for c in socket.gethostname())
    return f"{host[:60]}-{os.getpid()}-{uuid.uuid4().hex[:12]}"


def ensure_places(plan: LegPlan, stores: Stores | None = None) -> None:
    """Make the journals and topics of a leg that are not there yet."""
    places = [plan.backing, plan.target, *plan.sources.values(), *plan.by_hand.values()]
    places += plan.outputs.values()
    (stores or STORES).ensure(list(dict.fromkeys(places)))


def recover_leg(
    plan: LegPlan,
    checkpoint: str,
    *,
    owner: str | None = None,
    accepted: Accepted | None = None,
    session: SparkSession | None = None,
    files: Files | None = None,
    stores: Stores | None = None,
) -> Started:
    """Take a leg over and find out where it goes on; its places are there.

    Args:
        plan: The leg.
        checkpoint: Where Spark keeps what it remembers of the query.
        owner: Who runs it; by default a new name for this process.
        accepted: What may be lost.
        session: How a checkpoint is reached that does not lie on this machine.
        files: The same, if it was found out already.
        stores: How places are opened.

    Raises:
        Refused: Going on would lose or double something; the error says what to do.
        Fenced: A later owner is there.
        TornFile: A checkpoint that holds state is damaged.
    """
    pass_by("graph.recover-before")
    files = files or files_of(checkpoint, session)
    start = _Start(
        plan,
        read_checkpoint(files, checkpoint),
        owner or owner_name(),
        accepted or Accepted(),
        stores or STORES,
    )
    started = start.perform()
    if started.dropped_checkpoint:
        files.remove(checkpoint)
    pass_by("graph.recover-after")
    return started


class _Start:
    """Performs one recovery."""

    def __init__(
        self,
        plan: LegPlan,
        checkpoint: SparkCheckpoint,
        owner: str,
        accepted: Accepted,
        stores: Stores,
    ) -> None:
        self._plan, self._checkpoint = plan, checkpoint
        self._owner, self._accepted, self._stores = owner, accepted, stores
        self._backing = stores.backing(plan)
        self._target = stores.target(plan.target)
        self._first = SourceOffsets()
        self._epoch = 0
        if checkpoint.torn and plan.is_stateful:
            raise checkpoint.torn[0]

    def perform(self) -> Started:
        """Until it is known where to go on."""
        done = self._recover()
        routing = routing_of(self._plan.target, self._target.targets())
        if self._put_aside(done, routing):
            done = self._recover()
        recovered = done.recovered
        return Started(
            self._plan.begun(self._owner, done.epoch, routing, recovered),
            recovered,
            done.epoch,
            self._checkpoint.exists and not recovered.keep_checkpoint,
        )

    def _recover(self) -> GoOn:
        machine = RecoveryMachine(self._plan.uid, self._owner)
        command = machine.start()
        while not isinstance(command, GoOn | Refuse):
            command = machine.handle(self._perform(command))
        if isinstance(command, Refuse):
            raise command.error
        return command

    def _perform(self, command: RecoveryCommand) -> RecoveryEvent:
        match command:
            case TakeOwnership():
                taken = self._backing.take(command.owner)
                if not isinstance(taken, TakenByOther):
                    self._epoch = taken.epoch
                return taken
            case ReadBacking():
                state = self._backing.read()
                if state.taken is not None:
                    # The very first batch has no start in Spark's log: recovery tells it.
                    self._first = state.taken.snapshot.starts
                return BackingRead(state)
            case ReadSink():
                delivered = self._target.read_delivered(self._plan.uid)
                return SinkRead(delivered, self._situation())
            case FenceTargets():
                later = [
                    waters.epoch
                    for waters in self._target.fence(self._plan.uid, command.epoch)
                    if waters.epoch > command.epoch
                ]
                return TakenByOther(max(later)) if later else TargetsFenced()
            case AppendRewound():
                outcome = self._backing.append(command.record, self._epoch)
                if isinstance(outcome, BackingRefused):
                    return TakenByOther(outcome.found_epoch)
                if not isinstance(outcome, BackingAppended):
                    raise DeliveryUnknown(self._plan.name, 0, "1", outcome.reason)
                return Appended()
            case CompleteLate():
                self._target.commit_delivered(command.expected, command.delivered)
                return LateDelivered(self._target.read_delivered(self._plan.uid))
        raise AssertionError(command)

    def _situation(self) -> Situation:
        plan, accepted = self._plan, self._accepted
        available = [
            each
            for place in plan.sources.values()
            for each in self._stores.reader(place).available()
        ]
        marks = [
            self._target.read_high_water(plan.uid, number)
            for number in range(self._target.targets())
        ]
        return Situation(
            uid=plan.uid,
            inputs=frozenset(plan.leg.inputs),
            available=available,
            code_version=plan.code_version,
            is_stateful=plan.is_stateful,
            checkpoint=self._checkpoint.for_recovery(self._first),
            begin=accepted.begin,
            marks=marks,
            when_sink_behind=accepted.when_sink_behind,
            accept_sink_loss=accepted.sink_loss,
            accept_state_loss=accepted.state_loss,
        )

    def _put_aside(self, done: GoOn, routing: RoutingPin) -> bool:
        """Step 6: see whether a message is known that ended its worker, and have it passed over."""
        recovered = done.recovered
        if recovered.in_doubt is None:
            return False
        suspects = self._stores.suspects(self._plan)
        noted = suspects.read(recovered.in_doubt.snapshot.delivery_hash)
        if not noted:
            return False
        plan = self._plan.begun(self._owner, done.epoch, routing, recovered)
        machine = DeliveryMachine.while_running(plan.delivery, recovered, done.epoch)
        suspect = Position.from_json(json.loads(noted))
        if suspect in recovered.poisoned:
            return False
        command = machine.handle(BatchFailed("its worker died", suspect))
        if not isinstance(command, AppendBacking):
            return False
        outcome = self._backing.append(command.record, done.epoch)
        if not isinstance(outcome, BackingAppended):
            raise SuspectNotKept(plan.name)
        return True


class SuspectNotKept(Failed):
    """It could not be written down which message ends its worker."""

    def __init__(self, processor: str) -> None:
        super().__init__(processor)
        self.processor = processor

    def __str__(self) -> str:
        return f'processor "{self.processor}": the backing journal did not answer; start again'
