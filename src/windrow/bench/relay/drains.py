"""How fast a backlog is drained, and what a record costs on the way."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from uuid import uuid4

from windrow.bench.relay.stage import Stage, cpu_seconds
from windrow.outbox.stores.postgres import PostgresStore
from windrow.outbox.table import Table


@dataclass(frozen=True)
class Drain:
    """One drained backlog."""

    rate: float
    relay_cpu: float
    """Microseconds of the relay for each record."""
    postgres_cpu: float
    """Microseconds of PostgreSQL for each record."""


def drain(stage: Stage, rows: int, keys: int, **settings: str) -> Drain:
    """Fill, relay, check at a consumer; the clock runs from the first read to the last purge."""
    topic = stage.new_topic()
    stage.fill(topic, rows, keys)
    stage.pause()
    with stage.relay(**settings) as relay:
        stage.wait(lambda: warm(stage), "the relay has warmed up", step=0.05)
        began = time.perf_counter()
        relay_before, postgres_before = cpu_seconds(relay.pid), stage.postgres_cpu()
        stage.go()
        stage.wait(stage.is_empty, f"{rows} rows are relayed")
        seconds = time.perf_counter() - began
        relay_cpu = cpu_seconds(relay.pid) - relay_before
        postgres_cpu = stage.postgres_cpu() - postgres_before
    stage.check_arrival(topic, rows)
    return Drain(rows / seconds, relay_cpu / rows * 1e6, postgres_cpu / rows * 1e6)


def warm(stage: Stage) -> bool:
    """The relay has connected to the database with all its sessions."""
    (count,) = stage.connection.execute(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    ).fetchone()
    return bool(count >= 3)


def raw_rate(stage: Stage, rows: int, keys: int) -> float:
    """The same statements, reading and purging side by side, with nothing published."""
    stage.fill("none", rows, keys)
    stage.go()
    batches: list[list[int]] = []
    ready, done = threading.Semaphore(0), threading.Event()
    with PostgresStore(stage.postgres.dsn(), Table()) as store:
        store.raise_epoch("raw")

        def purge() -> None:
            while ready.acquire() and (batches or not done.is_set()):
                store.purge(batches.pop(0))

        purging = threading.Thread(target=purge, daemon=True)
        leader = uuid4()
        began = time.perf_counter()
        purging.start()
        while marked := store.read(leader, 2_000):
            batches.append([row.id for row in marked])
            ready.release()
        done.set()
        ready.release()
        purging.join()
        return rows / (time.perf_counter() - began)
