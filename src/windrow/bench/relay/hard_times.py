"""What the relay does when the backlog is huge, vacuum is blocked, or the leader leaves."""

from __future__ import annotations

import subprocess
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, Any

from windrow.bench.relay.drains import drain
from windrow.bench.relay.live import writer_argv, writer_env
from windrow.bench.relay.stage import PARTITIONS, STOP_PATIENCE, Settings, Stage, arrivals
from windrow.extras import require

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from windrow.embedded.process import Child


def cost(stage: Stage, rows: int, keys: int, repeats: int, settings: Settings) -> float:
    """Microseconds of relay and PostgreSQL together for each record of such a backlog."""
    drains = [drain(stage, rows, keys, settings) for _ in range(repeats)]
    return median(one.relay_cpu + one.postgres_cpu for one in drains)


def worst_mark(stage: Stage, rows: int, keys: int, settings: Settings) -> float:
    """The longest mark, in seconds, with a transaction open throughout and stale statistics.

    The table is analysed while it is empty, which is when planners choose badly, and the open
    transaction keeps vacuum from removing a single dead row.
    """
    stage.connection.execute("TRUNCATE outbox")
    stage.connection.execute("ANALYZE outbox")
    with _held_transaction(stage):
        stage.connection.execute("SELECT pg_stat_statements_reset()")
        drain(stage, rows, keys, settings, analyse=False)
        (longest,) = stage.connection.execute(
            "SELECT max(max_exec_time) FROM pg_stat_statements"
            r" WHERE query ~ 'UPDATE \S*outbox\S* SET'"
        ).fetchone()
    return float(longest) / 1000


@contextmanager
def _held_transaction(stage: Stage) -> Iterator[None]:
    with require("psycopg").connect(stage.postgres.dsn()) as holder:
        holder.execute("SELECT txid_current()")
        yield


@dataclass(frozen=True)
class Succession:
    """How a consumer sees that the leader has left."""

    silence: float
    """The longest time without a record, in milliseconds."""
    repeats: int


def stop(leader: Child) -> None:
    """Ask the leader to leave."""
    leader.stop(STOP_PATIENCE)


def succession(
    stage: Stage, rate: int, seconds: float, settings: Settings, leave: Callable[[Child], None]
) -> Succession:
    """Let the leader leave while records come in and another relay stands by."""
    topic = stage.new_topic()
    stage.connection.execute("TRUNCATE outbox")
    stage.go()
    expected = int(rate * seconds)
    times: list[float] = []
    stop_reading = threading.Event()
    consumer = stage.new_consumer()
    partition = require("confluent_kafka").TopicPartition
    consumer.assign([partition(topic, number, 0) for number in range(PARTITIONS)])
    reader = threading.Thread(target=_collect, args=(consumer, times, stop_reading), daemon=True)
    with stage.relay(settings) as leader, stage.standby(settings):
        reader.start()
        writer = subprocess.Popen(
            writer_argv(topic, rate, seconds),
            env=writer_env(stage),
            stdout=subprocess.DEVNULL,
        )
        stage.wait(lambda: len(times) > expected // 2, "half of the records arrive")
        left_at = time.time()
        leave(leader)
        writer.wait(seconds + 30)
        stage.wait(lambda: len(times) >= expected, "all records arrive")
        stage.wait(stage.is_empty, "all records are purged")
    stop_reading.set()
    reader.join(10)
    consumer.close()
    around = [at for at in times if at >= left_at - 0.5]
    silence = max(later - earlier for earlier, later in pairwise(around))
    return Succession(silence * 1000, len(times) - expected)


def _collect(consumer: Any, times: list[float], stop: threading.Event) -> None:
    while not stop.is_set():
        messages = arrivals(consumer)
        times += [time.time()] * len(messages)
