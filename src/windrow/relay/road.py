"""From an outbox in PostgreSQL to Kafka: the parts of each mode, put together."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from windrow.outbox.stores.postgres import PostgresStore
from windrow.outbox.stores.postgres_batches import PostgresBatches
from windrow.relay.batch_machine import BatchMachine
from windrow.relay.election.leading import Leading
from windrow.relay.events import LeaderOverran
from windrow.relay.machine import BarrierMachine, Limits
from windrow.relay.pace import Pace
from windrow.relay.pipeline import BarrierPipeline
from windrow.relay.policy import Policy
from windrow.relay.targets.jsonl import JsonlTarget
from windrow.relay.targets.kafka import KafkaTarget
from windrow.relay.targets.kafka_transactions import KafkaTransactions
from windrow.relay.transaction_pipeline import TransactionPipeline
from windrow.telemetry.events import EventBus


@dataclass
class BarrierRoad:
    """An outbox, a target, and the limits and policies between them."""

    store: PostgresStore
    target: KafkaTarget | JsonlTarget
    events: EventBus
    limits: Limits = field(default_factory=Limits)
    policy_of: Callable[[str], Policy] = lambda topic: Policy()
    pace: Callable[[], Pace] = Pace
    delivery_timeout: float = 1.0

    def open(self) -> None:
        """Look at the table, make the producer."""
        self.store.open()
        self.target.open()

    def lead(self, leading: Leading, sends_until: Callable[[], float]) -> BarrierPipeline:
        """A pipeline that reads from the head, fenced by this epoch."""
        self.store.enter_epoch(leading.epoch)
        if isinstance(self.target, KafkaTarget):
            self.target.sends_until = sends_until
            self.target.on_overrun = partial(self.events.emit, LeaderOverran(leading.epoch))
        machine = BarrierMachine(self.limits, self.policy_of, random.random)
        return BarrierPipeline(
            self.store,
            self.target,
            machine,
            epoch=leading.epoch,
            sends_until=sends_until,
            emit=self.events.emit,
            pace=self.pace(),
        )

    def renew_target(self) -> None:
        """Replace a producer that is of no more use."""
        self.target.close(0.0)
        self.target.open()

    def close(self) -> None:
        """Let go of both ends; what is on its way may still arrive."""
        self.target.close(1.0)
        self.store.close()


@dataclass
class TransactionRoad:
    """An outbox and a Kafka that commit the same batch names."""

    store: PostgresBatches
    target: KafkaTransactions
    events: EventBus
    batch_size: int = 5_000
    policy_of: Callable[[str], Policy] = lambda topic: Policy()
    pace: Callable[[], Pace] = Pace
    delivery_timeout: float = 0.0
    """A fenced transaction can never land, however late: nothing has to be waited for."""
    identity_prefix: str | None = None
    """Before the outbox's own identity it makes the transactional id; None if that is given."""

    def open(self) -> None:
        """Look at the table and at the state topic."""
        self.store.open()
        if self.identity_prefix is not None:
            # Two outboxes of one name, in two databases, must not fence each other.
            self.target.identify(f"{self.identity_prefix}-{self.store.identity()}")
        self.target.ensure_state_topic()

    def lead(self, leading: Leading, sends_until: Callable[[], float]) -> TransactionPipeline:
        """A pipeline that first finds out what the last leader committed."""
        self.store.enter_epoch(leading.epoch)
        return TransactionPipeline(
            self.store,
            self.target,
            BatchMachine(),
            batch_size=self.batch_size,
            policy_of=self.policy_of,
            emit=self.events.emit,
            pace=self.pace(),
        )

    def renew_target(self) -> None:
        """The pipeline fences the target by itself before its first batch."""

    def close(self) -> None:
        """Let go of both ends."""
        self.target.close()
        self.store.close()
