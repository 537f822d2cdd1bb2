"""How fast a backlog is drained, and what a record costs on the way."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from uuid import uuid4

from windrow.bench.errors import NotDelivered
from windrow.bench.processor_time import cpu_seconds
from windrow.bench.relay.stage import NO_ROOM, ROOM_FOR_MARKS, Settings, Stage
from windrow.outbox.stores.postgres import PostgresStore
from windrow.outbox.table import Table
from windrow.relay.machine import Limits
from windrow.telemetry import get_logger

log = get_logger("windrow.bench")


@dataclass(frozen=True)
class Drain:
    """One drained backlog."""

    rate: float
    relay_cpu: float
    """Microseconds of the relay for each record."""
    postgres_cpu: float
    """Microseconds of PostgreSQL for each record."""
    rows_per_purge: float


def drain(stage: Stage, rows: int, keys: int, settings: Settings, *, analyse: bool = True) -> Drain:
    """Fill, relay, check at a consumer; the clock runs from the word "go" to the last purge.

    The relay has relayed a record before, so that it is connected and knows its way; then it waits
    at a pause, looking often whether that is over.
    """
    stage.fillfactor = NO_ROOM if settings.get("relay.reader") == "diff" else ROOM_FOR_MARKS
    topic = stage.new_topic()
    with stage.relay({**settings, "relay.polling.slow": "10ms"}) as relay:
        stage.fill(topic, 1, 1)
        stage.go()
        stage.wait(stage.is_empty, "a first record is relayed", step=0.02)
        stage.pause()
        topic = stage.new_topic()
        stage.fill(topic, rows, keys, analyse=analyse)
        began = time.perf_counter()
        relay_before, postgres_before = cpu_seconds(relay.pid), stage.postgres_cpu()
        purges_before, _ = stage.purges()
        stage.go()
        stage.wait_until_relayed(topic, rows)
        seconds = time.perf_counter() - began
        relay_cpu = cpu_seconds(relay.pid) - relay_before
        postgres_cpu = stage.postgres_cpu() - postgres_before
        purges = stage.purges()[0] - purges_before
    repeats = stage.check_arrival(topic, rows)
    if repeats:
        _on_repeats(stage, repeats, settings, relay.log_tail(5))
    return Drain(
        rate=rows / seconds,
        relay_cpu=relay_cpu / rows * 1e6,
        postgres_cpu=postgres_cpu / rows * 1e6,
        rows_per_purge=rows / max(purges, 1),
    )


def _on_repeats(stage: Stage, repeats: int, settings: Settings, said: str) -> None:
    """Count what came twice though nothing was killed: barrier mode allows it, no other does."""
    if settings.get("relay.mode") == "transactional":
        raise NotDelivered(f"{repeats} records came twice; the relay said: {said}", 0)
    log.warning("records came twice", repeats=repeats, said=said)
    stage.repeats += repeats


@dataclass(frozen=True)
class Bare:
    """A backlog that was read and purged, and went nowhere."""

    rate: float
    postgres_cpu: float
    """Microseconds of PostgreSQL for each record."""


def bare_sql(stage: Stage, rows: int, keys: int) -> Bare:
    """The same statements, reading and purging side by side, with nothing published."""
    stage.fillfactor = ROOM_FOR_MARKS
    stage.fill("none", rows, keys)
    stage.go()
    batches: list[list[int]] = []
    ready, done = threading.Semaphore(0), threading.Event()
    with PostgresStore(stage.postgres.dsn(), Table()) as store:
        store.raise_epoch("bare")

        def purge() -> None:
            while ready.acquire() and (batches or not done.is_set()):
                store.purge(batches.pop(0))

        purging = threading.Thread(target=purge, daemon=True)
        leader = uuid4()
        began, postgres_before = time.perf_counter(), stage.postgres_cpu()
        purging.start()
        while marked := store.read(leader, Limits().batch):
            batches.append([row.id for row in marked])
            ready.release()
        done.set()
        ready.release()
        purging.join()
        seconds = time.perf_counter() - began
        postgres_cpu = stage.postgres_cpu() - postgres_before
    return Bare(rate=rows / seconds, postgres_cpu=postgres_cpu / rows * 1e6)
