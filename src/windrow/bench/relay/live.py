"""How soon a record arrives while services write, and what an idle relay costs."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from statistics import median, quantiles

from windrow.bench.processor_time import cpu_seconds
from windrow.bench.relay.stage import PARTITIONS, Settings, Stage, arrivals
from windrow.extras import require

WRITER = """
import os, sys, time, psycopg
topic, rate, seconds = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
insert = ("INSERT INTO outbox (create_time, kafka_topic, kafka_key, kafka_value, kafka_header_keys,"
          " kafka_header_values) VALUES (now(), %s, %s, %s, '{source,trace}', '{bench,none}')")
with psycopg.connect(os.environ["WRITER_DSN"], autocommit=True) as connection:
    began = time.time()
    for n in range(int(rate * seconds)):
        due = began + n / rate
        while (wait := due - time.time()) > 0:
            time.sleep(wait)  # to keep the rate
        connection.execute(insert, (topic, f"key-{n % 1000}", "0" * 1000), prepare=True)
        # The commit is over: its moment goes into the next record's value, for the reader.
        print(n, time.time(), flush=False)
"""


def writer_argv(topic: str, rate: int, seconds: float) -> list[str]:
    """A program that writes at a rate for a while, and tells when each record was committed."""
    return [sys.executable, "-c", WRITER, topic, str(rate), str(seconds)]


def writer_env(stage: Stage) -> dict[str, str]:
    """Where it writes to: not an argument, since anybody may read those."""
    return {**os.environ, "WRITER_DSN": stage.postgres.dsn()}


def delays(stage: Stage, rate: int, seconds: float, settings: Settings) -> tuple[float, float]:
    """Median and 99th percentile, in milliseconds, from a row's commit to its consumer."""
    kafka = require("confluent_kafka")
    topic = stage.new_topic()
    stage.connection.execute("TRUNCATE outbox")
    stage.go()
    consumer = stage.new_consumer()
    consumer.assign([kafka.TopicPartition(topic, p, 0) for p in range(PARTITIONS)])
    consumer.poll(1.0)
    arrived: dict[bytes, list[float]] = {}
    expected = int(rate * seconds)

    def consume() -> None:
        count = 0
        while count < expected:
            messages, now = arrivals(consumer), time.time()
            for message in messages:
                arrived.setdefault(message.key(), []).append(now)
            count += len(messages)

    with stage.relay(settings):
        reader = threading.Thread(target=consume, daemon=True)
        reader.start()
        done = subprocess.run(
            writer_argv(topic, rate, seconds),
            env=writer_env(stage),
            capture_output=True,
            text=True,
            check=True,
        )
        reader.join(30)
    consumer.close()
    return _delays(done.stdout, arrived)


def _delays(written: str, arrived: dict[bytes, list[float]]) -> tuple[float, float]:
    """Pair the n-th record of a key with its n-th arrival: keys keep their order."""
    values = []
    position: dict[bytes, int] = {}
    for line in written.splitlines():
        number, committed = line.split()
        key = f"key-{int(number) % 1000}".encode()
        at = position.get(key, 0)
        values.append((arrived[key][at] - float(committed)) * 1000)
        position[key] = at + 1
    # The first second warms both ends up.
    values = values[len(values) // 5 :]
    return median(values), quantiles(values, n=100)[98]


def idle(stage: Stage, seconds: float, settings: Settings) -> tuple[float, float]:
    """Statements a second and percent of a processor, of a relay with nothing to do."""
    stage.connection.execute("TRUNCATE outbox")
    stage.go()
    with stage.relay(settings) as relay:
        time.sleep(5.0)  # it slows down by and by: only then it is idle
        statements, cpu = _statements(stage), cpu_seconds(relay.pid)
        time.sleep(seconds)  # the span that is measured
        return (
            (_statements(stage) - statements) / seconds,
            (cpu_seconds(relay.pid) - cpu) / seconds * 100,
        )


def _statements(stage: Stage) -> int:
    """How many there were so far, less those that look: transactions would count autovacuum's."""
    (count,) = stage.connection.execute(
        "SELECT sum(calls)::int8 FROM pg_stat_statements WHERE query !~ 'pg_stat_statements'"
    ).fetchone()
    return int(count)
