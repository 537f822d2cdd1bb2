"""Between two generations: see that nothing of the old shards is on its way or in doubt.

In barrier mode that is a matter of time: whoever led an old shard has lost the right to, and what
was sent has arrived or expired. In transactional mode every old leader is shut out of the target,
and what it committed last is read back and removed, so that nothing has to be waited for.
Each step may be repeated: whoever leads shard 0 next begins at the beginning.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from windrow.clock import Clock
from windrow.errors import OutcomeUnknown, Unreachable
from windrow.outbox.errors import Fenced
from windrow.outbox.stores.postgres_batches import PostgresBatches
from windrow.relay.batch_machine import BatchName, CommitUnknown
from windrow.relay.charge import Pipeline
from windrow.relay.election.leading import Leading
from windrow.relay.election.plan_table import PlanTable
from windrow.relay.errors import BatchesForgotten
from windrow.relay.events import DatabaseLost, ShardsSettled, TargetLost
from windrow.relay.targets.journal import JournalTarget
from windrow.relay.targets.kafka_transactions import KafkaTransactions
from windrow.telemetry.events import Event

RETRY = 0.1


class Resolve(Protocol):
    """Sees to what the old shards left; true when all of it is done, false to be called again."""

    def __call__(self, leading: Leading) -> bool:
        """Do a part of it."""


@dataclass
class WaitForOldLeaders:
    """Barrier mode: wait until nobody of an earlier generation may still send.

    Args:
        plan_table: Where leases are seen; on a connection of its own.
        delay: How long a right may run on that is not seen there.
    """

    plan_table: PlanTable
    delay: float
    clock: Clock
    _began: tuple[int, float] = (-1, 0.0)

    def __call__(self, leading: Leading) -> bool:
        """Whether it is over."""
        now = self.clock.monotonic()
        if self._began[0] != leading.epoch:
            self._began = leading.epoch, now
        return now >= self._began[1] + self.delay and self.plan_table.is_over()


@dataclass
class ResolveBatches:
    """Transactional mode: shut out every old leader and remove what it had committed.

    Args:
        store: The outbox, under the epoch of shard 0 of the new generation.
        target_of: The target as the leader of an old shard had it.
        emit: Where to tell of a target that gives no answer.
    """

    store: PostgresBatches
    target_of: Callable[[int], KafkaTransactions | JournalTarget]
    emit: Callable[[Event], None]

    def __call__(self, leading: Leading) -> bool:
        """Resolve all, or say that it has to be tried again."""
        committed: list[BatchName] = []
        for shard in range(leading.plan.unsettled):
            found = self._resolve(shard, leading)
            if isinstance(found, CommitUnknown):
                self.emit(TargetLost(found.failure))
                return False
            if found is not None:
                committed.append(found)
        if not committed:
            self._refuse_to_forget()
        # None that is left was committed: they were sent by nobody, or undone.
        self.store.release_names()
        return True

    def _resolve(self, shard: int, leading: Leading) -> BatchName | CommitUnknown | None:
        target = self.target_of(shard)
        target.enter(leading.plan.generation, leading.epoch)
        # One that was asleep must not shut out whoever leads the shard by now.
        self.store.check_fence()
        try:
            trouble = target.fence()
            if trouble is not None:
                return trouble
            answer = target.read_back()
        finally:
            target.close()
        if isinstance(answer, CommitUnknown):
            return answer
        batch = answer.committed
        if batch is not None:
            self.store.purge_and_mark((batch.uuid, batch.count), (), None, 0)
        return batch

    def _refuse_to_forget(self) -> None:
        count, first = self.store.named_rows(of_all_shards=True)
        if first is not None:
            raise BatchesForgotten(self.target_of(0).state_topic, count, first)


@dataclass
class Settlement:
    """How a generation is settled: what has to be seen to, and where that is written down."""

    plan_table: PlanTable
    resolve: Resolve
    emit: Callable[[Event], None]

    def settle(self, leading: Leading, ended: threading.Event) -> bool:
        """Settle it; false if the relay ended meanwhile.

        Raises:
            Fenced: Somebody else leads shard 0, or the outbox was divided once more.
        """
        while not ended.is_set():
            try:
                if self._is_settled(leading):
                    return True
            except (OutcomeUnknown, Unreachable) as error:
                self.emit(DatabaseLost(str(error), RETRY))
            ended.wait(RETRY)
        return False

    def _is_settled(self, leading: Leading) -> bool:
        plan = self.plan_table.look().plan
        if plan.generation != leading.plan.generation:
            raise Fenced(self.plan_table.outbox, leading.epoch)
        if plan.is_settled:
            return True
        if not self.resolve(leading):
            return False
        if not self.plan_table.settle(plan, leading.epoch):
            raise Fenced(self.plan_table.outbox, leading.epoch)
        self.emit(ShardsSettled(plan.generation, plan.shards))
        return True


class SettlingPipeline:
    """Settles what the old generation left, then relays."""

    def __init__(self, settlement: Settlement, leading: Leading, pipeline: Pipeline) -> None:
        self._settlement, self._leading, self._pipeline = settlement, leading, pipeline
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._has_started = False
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="windrow-settle", daemon=True)

    def start(self) -> None:
        """Begin to settle."""
        self._thread.start()

    def _run(self) -> None:
        try:
            is_settled = self._settlement.settle(self._leading, self._ended)
        except BaseException as error:
            self._error = error
            return
        with self._lock:
            if is_settled and not self._ended.is_set():
                self._pipeline.start()
                self._has_started = True

    @property
    def error(self) -> BaseException | None:
        """What ended it, if it ended by itself."""
        return self._error or self._pipeline.error

    @property
    def leader(self) -> object:
        """The id that its rows are marked with."""
        return self._pipeline.leader

    @property
    def in_flight(self) -> int:
        """How many records are held."""
        return self._pipeline.in_flight

    @property
    def in_flight_keys(self) -> list[str]:
        """The keys of which a record is on its way, in no order."""
        return self._pipeline.in_flight_keys

    @property
    def delivered(self) -> int:
        """How many records have been purged after their acknowledgement."""
        return self._pipeline.delivered

    def stop(self, drain_timeout: float) -> bool:
        """Drain and end; settling is left to whoever leads next."""
        with self._lock:
            self._ended.set()
        return self._pipeline.stop(drain_timeout) if self._has_started else True

    def abandon(self) -> None:
        """End at once."""
        with self._lock:
            self._ended.set()
        if self._has_started:
            self._pipeline.abandon()
