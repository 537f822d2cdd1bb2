"""The three scenarios of goharvest's own integration tests, on its table and by its file."""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.fixtures.relaying import Seen, consume, wait_for
from windrow.embedded.kafka import create_topic
from windrow.outbox import Outbox, Record
from windrow.outbox.schema import migrate
from windrow.outbox.table import Table
from windrow.testing import FaultLog, FaultPart
from windrow.verify import Ledger, LedgerFile

ROOT = Path(__file__).parents[2]
TABLE = Table("outbox", "goharvest_test")
GENERATE_INTERVAL = 0.005
PER_TRANSACTION = 20
KEYS = 10
PARTITIONS = 10
MIN_RECORDS = 100

DDL = """
CREATE SCHEMA goharvest_test;
CREATE TABLE goharvest_test.outbox (
  id                  BIGSERIAL PRIMARY KEY,
  create_time         TIMESTAMP WITH TIME ZONE NOT NULL,
  kafka_topic         VARCHAR(249) NOT NULL,
  kafka_key           VARCHAR(5) NOT NULL,
  kafka_value         VARCHAR(50),
  kafka_header_keys   TEXT[] NOT NULL,
  kafka_header_values TEXT[] NOT NULL,
  leader_id           UUID
)
"""
REAPER = """\
harvest:
  baseKafkaConfig:
    bootstrap.servers: {kafka}
    socket.timeout.ms: 10000
  producerKafkaConfig:
    delivery.timeout.ms: 10000
  leaderTopic: {group}.neli
  leaderGroupID: {group}.group
  dataSource: {dsn}
  outboxTable: goharvest_test.outbox
  limits:
    minPollInterval: 100ms
    markBackoff: 1ms
    ioErrorBackoff: 1ms
"""


@dataclass
class Generator:
    """A service that stashes one record every 5 ms and commits every twentieth."""

    dsn: str
    topic: str
    ledger: Path
    test_id: str = field(default_factory=lambda: secrets.token_hex(8))
    written: int = 0
    stopped: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        with psycopg.connect(self.dsn) as connection, Ledger(self.ledger) as ledger:
            sequence, due = 0, time.monotonic()
            while not self.stopped.is_set():
                sequence = self._transaction(connection, ledger, sequence, due)
                due += PER_TRANSACTION * GENERATE_INTERVAL

    def _transaction(
        self, connection: psycopg.Connection[Any], ledger: Ledger, sequence: int, due: float
    ) -> int:
        stash, records = Outbox(TABLE).prepare(connection), []
        for number in range(sequence, sequence + PER_TRANSACTION):
            key, value = str(number % KEYS), f"{self.test_id}_{number}"
            stash.stash(Record(self.topic, key, value, [("testId", self.test_id)]))
            records.append((key, number))
            due += GENERATE_INTERVAL
            self.stopped.wait(max(0.0, due - time.monotonic()))
        ledger.maybe(records)
        connection.commit()
        ledger.written(records)
        self.written += len(records)
        return sequence + len(records)


@contextmanager
def generating(generator: Generator) -> Iterator[None]:
    thread = threading.Thread(target=generator.run, name="generator")
    thread.start()
    try:
        yield
    finally:
        generator.stopped.set()
        thread.join()


@dataclass
class Scenario:
    dsn: str
    kafka: str
    topic: str
    directory: Path
    share: float
    nodes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    watcher: Any = None

    def start_node(self, stack: ExitStack) -> None:
        number = len(self.nodes)
        log = stack.enter_context((self.directory / f"node-{number}.log").open("wb"))
        arguments = [self.directory / "reaper.yaml", self.share, number, self.notes(number)]
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "tests.faults.faulty_node"),
                *map(str, arguments),
                f"harvest-#{number}",
            ],
            cwd=ROOT,
            stderr=log,
        )
        stack.callback(process.kill)
        self.nodes.append(process)

    def notes(self, number: int) -> Path:
        return self.directory / f"notes-{number}"

    def noted(self) -> list[tuple[str, str, int]]:
        files = [self.notes(number) for number in range(len(self.nodes))]
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]

    def stop_node(self, number: int) -> None:
        node = self.nodes[number]
        node.terminate()
        log = self.directory / f"node-{number}.log"
        assert node.wait(30) == 0, log.read_text()

    def progress(self) -> int:
        """How much the topic holds: moves while a node publishes."""
        from confluent_kafka import Consumer, TopicPartition

        if self.watcher is None:
            self.watcher = Consumer({"bootstrap.servers": self.kafka, "group.id": "watch"})
        ends = [
            self.watcher.get_watermark_offsets(TopicPartition(self.topic, number), timeout=10)[1]
            for number in range(PARTITIONS)
        ]
        return sum(ends)

    def count(self) -> int:
        with psycopg.connect(self.dsn) as connection:
            row = connection.execute("SELECT count(*) FROM goharvest_test.outbox").fetchone()
        return int(row[0]) if row else 0


def prepare(dsn: str, kafka: str, directory: Path, share: float) -> Scenario:
    group = f"goharvest-test-{secrets.token_hex(4)}"
    topic = f"{group}.topic"
    create_topic(kafka, topic, partitions=PARTITIONS)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(DDL)
        migrate(connection, TABLE, companions_only=True)
    (directory / "reaper.yaml").write_text(REAPER.format(kafka=kafka, group=group, dsn=dsn))
    return Scenario(dsn, kafka, topic, directory, share)


def run(scenario: Scenario, part: FaultPart, count: int, interval: float) -> None:
    """Start the nodes one by one, stop all but the last in the same order, count the rest."""
    generator = Generator(scenario.dsn, scenario.topic, scenario.directory / "ledger")
    with ExitStack() as stack:
        with generating(generator):
            for _ in range(count):
                scenario.start_node(stack)
                time.sleep(interval)  # the churn is what is tested
            for number in range(count - 1):
                node = scenario.nodes[number]
                part.inject(
                    "terminate",
                    node,
                    lambda number=number: scenario.stop_node(number),  # type: ignore[misc]
                    work=scenario.progress,
                )
                time.sleep(interval)
            wait_for(lambda: scenario.progress() > MIN_RECORDS, "enough is generated")
        wait_for(lambda: scenario.count() == 0, "all is relayed", timeout=90.0)
        scenario.stop_node(count - 1)
        scenario.watcher.close()
    settle(scenario, part, generator)


def settle(scenario: Scenario, part: FaultPart, generator: Generator) -> None:
    seen = consume(scenario.kafka, scenario.topic)
    arrived = [(message.key, _sequence(message, generator)) for message in seen]
    noted = scenario.noted()
    counts = Counter(what for what, _, _ in noted)
    may_repeat = [(key, sequence) for what, key, sequence in noted if what == "rewritten"]
    verdict = part.settle(generator.ledger, arrived, may_repeat)
    assert verdict.delivered == generator.written == len(set(arrived))
    first: dict[str, int | str] = {}
    for key, sequence in arrived:
        first.setdefault(key, sequence)
    assert first == {str(number): number for number in range(KEYS)}
    assert len(list(LedgerFile(generator.ledger))) == generator.written
    print(f"{scenario.topic}: {generator.written} records, {dict(counts)}")
    assert (counts["refused"] > 0) is (scenario.share > 0)
    assert (counts["rewritten"] > 0) is (scenario.share > 0)


def _sequence(message: Seen, generator: Generator) -> int:
    test_id, _, sequence = (message.value or "").partition("_")
    assert test_id == generator.test_id
    assert message.headers == [("testId", test_id.encode())]
    return int(sequence)


@pytest.mark.proves("relay-barrier")
@pytest.mark.parametrize(
    ("nodes", "share", "interval", "soak_interval"),
    [
        pytest.param(1, 0.02, 3.0, 5.0, id="one-node-with-failures"),
        pytest.param(4, 0.02, 0.6, 5.0, id="four-nodes-with-failures"),
        pytest.param(8, 0.0, 0.4, 2.0, id="eight-nodes-without-failures"),
    ],
)
def test_goharvests_scenario_loses_and_misorders_nothing(
    nodes: int,
    share: float,
    interval: float,
    soak_interval: float,
    faults: FaultLog,
    database: str,
    kafka: str,
    tmp_path: Path,
    pytestconfig: pytest.Config,
) -> None:
    """Only what was reported as failed though it had arrived may come twice."""
    is_soak = pytestconfig.getoption("soak")
    scenario = prepare(database, kafka, tmp_path, share)
    run(scenario, faults.part("relay goharvest"), nodes, soak_interval if is_soak else interval)
