"""From the configuration to a relay: which parts, with which settings."""

from __future__ import annotations

import os
import re
import socket
import time
from collections.abc import Callable, Mapping
from typing import Any

from windrow.config import Config, Secret
from windrow.config import relay as section
from windrow.errors import InvalidValue
from windrow.outbox.stores.postgres import PostgresStore
from windrow.outbox.stores.postgres_batches import PostgresBatches
from windrow.outbox.table import Table
from windrow.relay.election.leading import Election
from windrow.relay.election.neli import NeliElection
from windrow.relay.election.neli_machine import NeliTiming
from windrow.relay.election.neli_settings import NeliSettings
from windrow.relay.election.postgres_lease import PostgresLease, lease_session
from windrow.relay.election.single import SingleElection
from windrow.relay.machine import Limits
from windrow.relay.pace import Pace
from windrow.relay.policy import Policy, WhenExhausted
from windrow.relay.road import BarrierRoad, TransactionRoad
from windrow.relay.service import Relay
from windrow.relay.targets.jsonl import JsonlTarget
from windrow.relay.targets.kafka import TIMEOUT_NAMES, KafkaTarget
from windrow.relay.targets.kafka_transactions import KafkaTransactions
from windrow.telemetry.events import EventBus


def build_relay(config: Config, events: EventBus | None = None) -> Relay:
    """A relay as the configuration describes it; nothing is connected yet."""
    bus = events or EventBus()
    road = _barrier(config, bus) if config.relay.mode == "barrier" else _transactional(config, bus)
    return Relay(
        road,
        _election(config, road.store),
        events=bus,
        drain_timeout=config.relay.drain_timeout,
        margin=config.relay.election.margin,
        meter_interval=config.relay.meter_interval,
    )


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


def _barrier(config: Config, bus: EventBus) -> BarrierRoad:
    relay = config.relay
    _refuse_timeouts(config)
    timeout = {"delivery.timeout.ms": round(relay.delivery_timeout * 1000)}
    producer = kafka_properties(config, config.kafka.producer, timeout)
    kafka = relay.target == "kafka"
    limits = relay.limits
    return BarrierRoad(
        PostgresStore(**_database(config), reader=relay.reader),
        KafkaTarget(producer) if kafka else JsonlTarget(relay.path),
        bus,
        limits=Limits(limits.batch, limits.records, limits.bytes, limits.lane),
        policy_of=policy_of(relay),
        pace=lambda: Pace(relay.polling.quick, relay.polling.slow, relay.polling.patience),
        delivery_timeout=relay.delivery_timeout if kafka else 0.0,
    )


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


def _transactional(config: Config, bus: EventBus) -> TransactionRoad:
    store = PostgresBatches(**_database(config))
    target = KafkaTransactions(
        kafka_properties(config, config.kafka.producer),
        transactional_id="windrow",
        state_topic=config.kafka.state_topic,
    )
    polling = config.relay.polling
    return TransactionRoad(
        store,
        target,
        bus,
        batch_size=config.relay.limits.transaction,
        policy_of=policy_of(config.relay),
        pace=lambda: Pace(polling.quick, polling.slow, polling.patience),
        identity_prefix=f"windrow-{config.database.table}",
    )


def _database(config: Config) -> dict[str, Any]:
    return {
        "dsn": config.database.dsn.reveal(),
        "table": Table.parse(config.database.table),
        "pooler": config.relay.pooler,
        "connect_timeout": config.database.connect_timeout,
        "answer_timeout": config.database.answer_timeout,
    }


def _election(config: Config, store: PostgresStore) -> Election:
    election, name = config.relay.election, relay_name(config)
    if election.kind == "neli":
        settings = NeliSettings(
            election.group,
            name,
            leader_topic=election.topic,
            assignor=election.assignor,
            timing=NeliTiming(election.heartbeat_interval, election.heartbeat_timeout),
        )
        return NeliElection(
            kafka_properties(config), settings, lambda shard: store.raise_epoch(name, shard)
        )
    # An answer that comes when the right has run out is worth nothing.
    session = lease_session(
        config.database.dsn.reveal(),
        connect_timeout=config.database.connect_timeout,
        answer_timeout=min(election.lease_ttl, config.database.answer_timeout),
        pooler=config.relay.pooler,
    )
    table = Table.parse(config.database.table)
    if election.kind == "single":
        # Long enough to send in, between two pulses.
        right = max(election.lease_ttl, 2 * (config.relay.delivery_timeout + election.margin))
        waits = config.relay.mode == "barrier"
        return SingleElection(session, table, name, right=right, waits=waits)
    return PostgresLease(session, table, name, lease_ttl=election.lease_ttl)
