"""From an outbox in PostgreSQL to a target: the parts of each mode, put together."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from windrow.outbox.stores.postgres import PostgresStore
from windrow.outbox.stores.postgres_batches import PostgresBatches
from windrow.relay.batch_machine import BatchMachine
from windrow.relay.charge import Pipeline
from windrow.relay.doorbell import Doorbell
from windrow.relay.election.leading import Leading
from windrow.relay.events import LeaderOverran
from windrow.relay.machine import BarrierMachine, Limits
from windrow.relay.pace import Pace
from windrow.relay.pipeline import BarrierPipeline
from windrow.relay.policy import Policy
from windrow.relay.settling import Settlement, SettlingPipeline
from windrow.relay.targets.journal import JournalTarget
from windrow.relay.targets.jsonl import JsonlTarget
from windrow.relay.targets.kafka import KafkaTarget
from windrow.relay.targets.kafka_transactions import KafkaTransactions
from windrow.relay.targets.memory import MemoryTarget
from windrow.relay.transaction_pipeline import TransactionPipeline
from windrow.telemetry.events import EventBus


@dataclass
class BarrierRoad:
    """An outbox, a target, and the limits and policies between them."""

    store: PostgresStore
    target: KafkaTarget | JsonlTarget | MemoryTarget
    events: EventBus
    limits: Limits = field(default_factory=Limits)
    policy_of: Callable[[str], Policy] = lambda topic: Policy()
    pace: Callable[[], Pace] = Pace
    delivery_timeout: float = 1.0
    settlement: Settlement | None = None
    """How to settle what an earlier number of shards left; without one nothing is shared."""
    doorbell: Doorbell = field(default_factory=Doorbell)
    """What wakes the reader when there is nothing to do."""

    def open(self) -> None:
        """Look at the table, make the producer."""
        self.store.open()
        self.target.open()
        self.doorbell.open()

    def lead(self, leading: Leading, sends_until: Callable[[], float]) -> Pipeline:
        """A pipeline that reads from the head, fenced by this epoch."""
        enter(self.store, leading)
        if isinstance(self.target, KafkaTarget):
            self.target.sends_until = sends_until
            self.target.on_overrun = partial(self.events.emit, LeaderOverran(leading.epoch))
        machine = BarrierMachine(self.limits, self.policy_of, random.random)
        pipeline = BarrierPipeline(
            self.store,
            self.target,
            machine,
            epoch=leading.epoch,
            sends_until=sends_until,
            emit=self.events.emit,
            pace=self.pace(),
            doorbell=self.doorbell,
        )
        return settled_first(self.settlement, leading, pipeline)

    def renew_target(self) -> None:
        """Replace a producer that is of no more use."""
        self.target.close(0.0)
        self.target.open()

    def close(self) -> None:
        """Let go of both ends; what is on its way may still arrive."""
        self.doorbell.close()
        self.target.close(1.0)
        self.store.close()


@dataclass
class TransactionRoad:
    """An outbox and a target that commit the same batch names."""

    store: PostgresBatches
    target: KafkaTransactions | JournalTarget
    events: EventBus
    batch_size: int = 8_000
    batch_bytes: int = 32 * 1024 * 1024
    """Of one batch; while it is on its way the next one is held as well."""
    policy_of: Callable[[str], Policy] = lambda topic: Policy()
    pace: Callable[[], Pace] = Pace
    delivery_timeout: float = 0.0
    """A fenced transaction can never land, however late: nothing has to be waited for."""
    identity_prefix: str | None = None
    """Before the outbox's own identity it makes the transactional id; None if that is given."""
    shard: int = 0
    settlement: Settlement | None = None
    """How to settle what an earlier number of shards left; without one nothing is shared."""
    doorbell: Doorbell = field(default_factory=Doorbell)
    """What wakes the reader when there is nothing to do."""

    def open(self) -> None:
        """Look at the table, and at where the target keeps the names of batches."""
        self.store.open()
        if self.identity_prefix is not None:
            self.target.identify(self.identity(), self.shard)
        self.target.open()
        self.doorbell.open()

    def identity(self) -> str:
        """What the target knows the outbox by.

        Two outboxes of one name, in two databases, must not fence each other.
        """
        return f"{self.identity_prefix}-{self.store.identity()}"

    def lead(self, leading: Leading, sends_until: Callable[[], float]) -> Pipeline:
        """A pipeline that first finds out what the last leader committed."""
        enter(self.store, leading)
        self.target.enter(leading.plan.generation, leading.epoch)
        pipeline = TransactionPipeline(
            self.store,
            self.target,
            BatchMachine(),
            batch_size=self.batch_size,
            batch_bytes=self.batch_bytes,
            policy_of=self.policy_of,
            emit=self.events.emit,
            pace=self.pace(),
            doorbell=self.doorbell,
        )
        return settled_first(self.settlement, leading, pipeline)

    def renew_target(self) -> None:
        """The pipeline fences the target by itself before its first batch."""

    def close(self) -> None:
        """Let go of both ends."""
        self.doorbell.close()
        self.target.close()
        self.store.close()


def enter(store: PostgresStore, leading: Leading) -> None:
    """Have a store work under this right, on the rows of its shard."""
    plan = leading.plan
    store.enter_epoch(leading.epoch, leading.shard, shards=plan.shards, generation=plan.generation)


def settled_first(settlement: Settlement | None, leading: Leading, pipeline: Pipeline) -> Pipeline:
    """The pipeline, after whatever the old generation left; only shard 0 is led before that."""
    if settlement is None or leading.plan.is_settled:
        return pipeline
    return SettlingPipeline(settlement, leading, pipeline)
