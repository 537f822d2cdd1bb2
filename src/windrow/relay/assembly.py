"""From the configuration to a relay: which parts, with which settings."""

from __future__ import annotations

import os
import re
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from windrow.clock import SystemClock
from windrow.config import Config, Secret
from windrow.config import relay as section
from windrow.errors import InvalidValue
from windrow.journal.client.configured import connect_to
from windrow.journal.names import valid_journal
from windrow.outbox.stores.postgres import PostgresStore
from windrow.outbox.stores.postgres_batches import PostgresBatches
from windrow.outbox.stores.session import LAZY_COMMIT, Session
from windrow.outbox.table import Table
from windrow.relay.charge import Road
from windrow.relay.doorbell import Doorbell, PostgresDoorbell
from windrow.relay.election.leading import Election, SharesOut
from windrow.relay.election.neli import NeliElection
from windrow.relay.election.neli_machine import NeliTiming
from windrow.relay.election.neli_settings import NeliSettings
from windrow.relay.election.plan import Plan
from windrow.relay.election.plan_table import PlanTable
from windrow.relay.election.postgres_lease import lease_session
from windrow.relay.election.shard_leases import ShardLeases
from windrow.relay.election.shared_neli import RaiseEpoch, SharedNeli
from windrow.relay.election.single import SingleElection
from windrow.relay.machine import Limits
from windrow.relay.pace import Pace
from windrow.relay.policy import Policy, WhenExhausted
from windrow.relay.road import BarrierRoad, TransactionRoad
from windrow.relay.settling import ResolveBatches, Settlement, WaitForOldLeaders
from windrow.relay.targets.journal import JournalTarget
from windrow.relay.targets.jsonl import JsonlTarget
from windrow.relay.targets.kafka import TIMEOUT_NAMES, KafkaTarget
from windrow.relay.targets.kafka_transactions import KafkaTransactions
from windrow.relay.targets.memory import MemoryTarget
from windrow.telemetry.events import EventBus

SYSTEM_NAMES = {"mysql": "MySQL or MariaDB", "sqlite": "SQLite"}


@dataclass(frozen=True)
class Parts:
    """What a relay is made of."""

    road_of: Callable[[int], Road]
    """Makes both ends of a shard's road."""
    election: Election | SharesOut
    drain_timeout: float
    margin: float
    meter_interval: float


def assemble(config: Config, bus: EventBus, memory: MemoryTarget | None = None) -> Parts:
    """The parts of a relay as the configuration describes it; nothing is connected yet.

    Raises:
        ConfigError: Parts of it do not go together.
    """
    relay = config.relay
    _refuse_to_compete(config)

    def road_of(shard: int) -> Road:
        if relay.mode == "transactional":
            return _transactional(config, bus, shard)
        return _barrier(config, bus, shard, memory)

    if memory is not None and relay.mode == "transactional":
        reason = "memory has no transactions: it goes with 'barrier' only"
        raise InvalidValue("relay.mode", relay.mode, "the configuration", reason)
    road_of(0)  # once, for what is wrong with the configuration
    return Parts(
        road_of,
        _election(config, relay_name(config)),
        relay.drain_timeout,
        relay.election.margin,
        relay.meter_interval,
    )


def _refuse_to_compete(config: Config) -> None:
    """An ordered relay leads an outbox in PostgreSQL alone; others share theirs."""
    if config.relay.mode == "competing":
        reason = "it has no leader: run it as windrow relay does, with competing_relay(config)"
        raise InvalidValue("relay.mode", "competing", "the configuration", reason)
    system = config.database.dsn.system
    if system != "postgresql":
        reason = (
            f"an outbox in {SYSTEM_NAMES[system]} is relayed in no order: set relay.mode to"
            " 'competing' and relay.http.url to where messages go"
        )
        raise InvalidValue("relay.mode", config.relay.mode, "the configuration", reason)


def relay_name(config: Config) -> str:
    """The configured name, or one that no other process has: host, process, start."""
    return config.relay.name or f"{_host()}_{os.getpid()}_{int(time.time())}"


def _host() -> str:
    try:
        name = socket.gethostname()
    except OSError:
        name = "localhost"
    return re.sub(r"[^a-zA-Z0-9._-]", "_", name)


def kafka_properties(config: Config, *more: Mapping[str, Any]) -> dict[str, Any]:
    """What a client of Kafka is made with, secrets revealed: hand it on, never show it."""
    properties: dict[str, Any] = {"bootstrap.servers": config.kafka.bootstrap}
    for layer in (config.kafka.properties, *more):
        for key, value in layer.items():
            properties[key] = value.reveal() if isinstance(value, Secret) else value
    return properties


def policy_of(relay: section.Relay) -> Callable[[str], Policy]:
    """What a topic's failures are answered with."""
    default = _policy(relay.retry)
    # What a topic does not say for itself is as it is for all.
    special = {
        topic: _policy(relay.retry.model_copy(update=retry.model_dump(exclude_unset=True)))
        for topic, retry in relay.topics.items()
    }
    return lambda topic: special.get(topic, default)


def _policy(retry: section.Retry) -> Policy:
    return Policy(
        max_attempts=retry.max_attempts,
        base_delay=retry.base_delay,
        max_delay=retry.max_delay,
        when_exhausted=WhenExhausted(retry.when_exhausted),
    )


def _barrier(config: Config, bus: EventBus, shard: int, memory: MemoryTarget | None) -> BarrierRoad:
    relay = config.relay
    _refuse_timeouts(config)
    timeout = {"delivery.timeout.ms": round(relay.delivery_timeout * 1000)}
    producer = kafka_properties(config, config.kafka.producer, timeout)
    kafka = relay.target == "kafka" and memory is None
    target = KafkaTarget(producer) if kafka else JsonlTarget(relay.path)
    limits = relay.limits
    return BarrierRoad(
        PostgresStore(**_database(config), reader=relay.reader),
        target if memory is None else memory.beside(),
        bus,
        limits=Limits(limits.batch, limits.records, limits.bytes, limits.lane),
        policy_of=policy_of(relay),
        pace=lambda: Pace(relay.polling.quick, relay.polling.slow, relay.polling.patience),
        delivery_timeout=relay.delivery_timeout if kafka else 0.0,
        settlement=_waiting(config, bus) if shard == 0 else None,
        doorbell=_doorbell(config, shard),
    )


def _waiting(config: Config, bus: EventBus) -> Settlement:
    plan_table = _plan_table(config)
    # Of leases it is seen when they end; how long Kafka's word is good for is not.
    delay = _session_timeout(config) if config.relay.election.kind == "neli" else 0.0
    return Settlement(plan_table, WaitForOldLeaders(plan_table, delay, SystemClock()), bus.emit)


def _refuse_timeouts(config: Config) -> None:
    """A longer one, put in past us, would outlast the right to lead and nobody would know."""
    for name, properties in (
        ("kafka.properties", config.kafka.properties),
        ("kafka.producer", config.kafka.producer),
    ):
        for key in TIMEOUT_NAMES:
            if key in properties:
                reason = "in barrier mode it belongs to the relay: set relay.delivery_timeout"
                raise InvalidValue(f"{name}.{key}", str(properties[key]), "kafka", reason)


def _transactional(config: Config, bus: EventBus, shard: int) -> TransactionRoad:
    store = PostgresBatches(**_database(config))
    polling = config.relay.polling
    road = TransactionRoad(
        store,
        _exactly_once(config),
        bus,
        batch_size=config.relay.limits.transaction,
        batch_bytes=config.relay.limits.bytes // 2,
        policy_of=policy_of(config.relay),
        pace=lambda: Pace(polling.quick, polling.slow, polling.patience),
        identity_prefix=f"windrow-{config.database.table}",
        shard=shard,
        doorbell=_doorbell(config, shard),
    )
    if shard == 0:

        def target_of(old_shard: int) -> KafkaTransactions | JournalTarget:
            target = _exactly_once(config)
            target.identify(road.identity(), old_shard)
            return target

        resolve = ResolveBatches(store, target_of, bus.emit)
        road.settlement = Settlement(_plan_table(config), resolve, bus.emit)
    return road


def _exactly_once(config: Config) -> KafkaTransactions | JournalTarget:
    if config.relay.target == "journal":
        journal = valid_journal(config.relay.journal)
        return JournalTarget(lambda: connect_to(config.journal), journal)
    return KafkaTransactions(
        kafka_properties(config, config.kafka.producer),
        transactional_id="windrow",
        state_topic=config.kafka.state_topic,
    )


def _database(config: Config) -> dict[str, Any]:
    return {
        "dsn": config.database.dsn.reveal(),
        "table": Table.parse(config.database.table),
        "pooler": config.relay.pooler,
        "connect_timeout": config.database.connect_timeout,
        "answer_timeout": config.database.answer_timeout,
    }


def _doorbell(config: Config, shard: int) -> Doorbell:
    if not config.relay.doorbell:
        return Doorbell()
    dsn, table = config.database.dsn.reveal(), Table.parse(config.database.table)
    session = Session(dsn, LAZY_COMMIT, connect_timeout=config.database.connect_timeout)
    return PostgresDoorbell(dsn, session, table, shard)


def _plan_table(config: Config, name: str = "", ttl: float = 2.5) -> PlanTable:
    return PlanTable(
        _session(config),
        Table.parse(config.database.table),
        name,
        wanted=config.relay.shards,
        ttl=ttl,
    )


def _session(config: Config) -> Session:
    # An answer that comes when the right has run out is worth nothing.
    return lease_session(
        config.database.dsn.reveal(),
        connect_timeout=config.database.connect_timeout,
        answer_timeout=min(config.relay.election.lease_ttl, config.database.answer_timeout),
        pooler=config.relay.pooler,
    )


def _session_timeout(config: Config) -> float:
    return 3 * config.relay.election.heartbeat_timeout


def _election(config: Config, name: str) -> Election | SharesOut:
    election, table = config.relay.election, Table.parse(config.database.table)
    if election.kind == "neli":
        return _neli(config, name)
    if election.kind == "single":
        # Long enough to send in, between two pulses.
        right = max(election.lease_ttl, 2 * (config.relay.delivery_timeout + election.margin))
        waits = config.relay.mode == "barrier"
        return SingleElection(_session(config), table, name, right=right, waits=waits)
    return ShardLeases(
        _session(config),
        table,
        name,
        wanted=config.relay.shards,
        lease_ttl=election.lease_ttl,
    )


def _neli(config: Config, name: str) -> SharedNeli:
    election = config.relay.election
    base = kafka_properties(config)

    def build(plan: Plan, raise_epoch: RaiseEpoch) -> NeliElection:
        settings = NeliSettings(
            election.group,
            name,
            leader_topic=election.topic,
            shards=plan.shards,
            assignor=election.assignor,
            timing=NeliTiming(election.heartbeat_interval, election.heartbeat_timeout),
        )
        return NeliElection(base, settings, raise_epoch, plan=plan)

    session_timeout = _session_timeout(config)
    plan_table = _plan_table(config, name, ttl=session_timeout)
    return SharedNeli(plan_table, build, session_timeout)
