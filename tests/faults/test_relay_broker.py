"""Kill, restart and pause the broker under a relay, and delete its state topic; then count."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest

from tests.faults.relay_bench import STEADY_LEASE, RelayBench, make_outbox, relay_bench
from tests.fixtures.databases import Postgres
from tests.fixtures.relaying import OutboxDatabase, consume, wait_for
from tests.fixtures.services import start_service
from windrow.embedded import Link
from windrow.embedded.kafka import KafkaBroker
from windrow.embedded.link_rules import Action, Chunk, Direction, pass_all
from windrow.outbox.marked import Marked
from windrow.relay.batch_machine import BatchName, Committed, CommitUnknown, ReadBack
from windrow.relay.targets.kafka_transactions import KafkaTransactions
from windrow.testing import FaultLog, FaultPart, Moment

A_FEW_SECONDS = 15.0  # to end on a busy machine: what is not bounded takes for ever


@pytest.fixture(scope="module")
def link() -> Iterator[Link]:
    """A link that leads to the broker."""
    with Link.start() as link:
        yield link


@pytest.fixture(scope="module")
def broker(pytestconfig: pytest.Config, link: Link) -> Iterator[KafkaBroker]:
    with start_service(pytestconfig, "Kafka", partial(KafkaBroker.start, link=link)) as broker:
        yield broker


@pytest.fixture
def topic(broker: KafkaBroker) -> str:
    name = f"topic-{secrets.token_hex(6)}"
    broker.create_topic(name, partitions=3)
    return name


@pytest.fixture
def outboxes(postgres_server: Postgres) -> Iterator[list[OutboxDatabase]]:
    """Two of them, for two relays that suffer together."""
    names = [f"test_{secrets.token_hex(6)}" for _ in range(2)]
    yield [make_outbox(postgres_server, name) for name in names]
    for name in names:
        postgres_server.drop_database(name)


@dataclass
class Side:
    """A relay of one mode at work, and the account of what befalls it."""

    bench: RelayBench
    part: FaultPart
    is_barrier: bool

    def allow_repeats(self) -> None:
        """A record whose delivery is in doubt is sent again, and may have been written before."""
        if self.is_barrier:
            self.bench.may_repeat += self.bench.unacknowledged()


PATIENT = STEADY_LEASE | {"relay.election.lease_ttl": "6s", "relay.delivery_timeout": "2500ms"}
"""The first records wait for a producer and a topic that are new: they are not to time out."""
PAUSE = 3.5
"""Longer than a record may take."""

SETTINGS = {
    "barrier": {"relay.mode": "barrier", "relay.drain_timeout": "2s"} | PATIENT,
    "transactional": {
        "relay.mode": "transactional",
        "relay.drain_timeout": "2s",
        "kafka.producer.delivery.timeout.ms": "2000",
    },
}


def strike(kind: str, broker: KafkaBroker, sides: Sequence[Side]) -> None:
    """Hit the broker once, while all of them are at work."""
    acts = {"kill": broker.kill, "restart": broker.restart, "pause": broker.pause}
    act: Callable[[], object] = acts[kind]
    for side in sides:
        act = partial(side.part.inject, kind, broker, act, work=side.bench.progress)
    act()


def test_a_broker_that_is_paused_restarted_or_killed_costs_no_record_and_no_order(
    faults: FaultLog,
    outboxes: list[OutboxDatabase],
    broker: KafkaBroker,
    tmp_path: Path,
    pytestconfig: pytest.Config,
) -> None:
    with ExitStack() as stack:
        sides = []
        for (mode, settings), outbox in zip(SETTINGS.items(), outboxes, strict=True):
            directory, topic = tmp_path / mode, f"topic-{secrets.token_hex(6)}"
            directory.mkdir()
            broker.create_topic(topic, partitions=3)
            bench = stack.enter_context(
                relay_bench(outbox, broker.bootstrap, topic, directory, **settings)
            )
            bench.start_writers(rate=200.0)
            bench.start_relay()
            sides.append(Side(bench, faults.part(f"relay {mode}"), mode == "barrier"))
        for _ in range(10 if pytestconfig.getoption("soak") else 1):
            for kind in ("pause", "restart", "kill"):
                strike(kind, broker, sides)
                come_back(kind, broker, sides)
        strike("pause", broker, sides)
        for side in sides:
            stop_without_answer(side)
        broker.resume()
        for side in sides:
            side.bench.start_relay()
        for side in sides:
            side.bench.settle(side.part, timeout=90.0)


def come_back(kind: str, broker: KafkaBroker, sides: Sequence[Side]) -> None:
    for side in sides:
        side.allow_repeats()
    if kind == "kill":
        broker.restart()
    if kind == "pause":
        time.sleep(PAUSE)  # what is tested
        broker.resume()
    for side in sides:
        side.allow_repeats()
        side.bench.wait_for_progress(f"the relay goes on after the {kind}", timeout=60.0)


def stop_without_answer(side: Side) -> None:
    """A stop is bounded, and orderly, though nobody says what became of what was sent."""
    bench, relay = side.bench, side.bench.leader()
    wait_for(lambda: bench.outbox.count("leader_id IS NOT NULL") > 0, "something is under way")
    began = time.monotonic()
    assert relay.stop() == 0
    assert time.monotonic() - began < 2.0 + A_FEW_SECONDS
    del bench.relays[relay.name]
    side.allow_repeats()


class LosesTheAnswer:
    """Cuts the link when the broker answers the end of a transaction: it is done, unheard."""

    END_OF_TRANSACTION = (26).to_bytes(2)

    def __init__(self) -> None:
        self._asked_on: int | None = None

    def __call__(self, chunk: Chunk) -> Action:
        if chunk.direction is Direction.TO_SERVICE:
            if chunk.payload[4:6] == self.END_OF_TRANSACTION:
                self._asked_on = chunk.connection
        elif chunk.connection == self._asked_on:
            self._asked_on = None
            return Action.CUT
        return Action.PASS


def test_a_commit_whose_answer_is_lost_is_read_back_and_not_guessed(
    broker: KafkaBroker, link: Link, topic: str
) -> None:
    target = KafkaTransactions(
        {"bootstrap.servers": link.address},
        transactional_id=f"relay-{topic}",
        state_topic=f"state-{topic}",
        operation_timeout=3.0,
    )
    target.open()
    assert target.fence() is None
    batch, rows = BatchName(uuid4(), 1), [Marked(1, topic, "key", b"1", None, None)]
    link.on_bytes = LosesTheAnswer()
    assert isinstance(target.publish(batch, rows), CommitUnknown)
    link.on_bytes = pass_all
    link.restore()
    wait_for(lambda: target.fence() is None, "the broker can be reached again")
    assert target.read_back() == ReadBack(batch)
    assert [seen.value for seen in consume(broker.bootstrap, topic)] == ["1"]
    # The naive version takes the silence for a failure and sends the batch again.
    assert target.publish(BatchName(uuid4(), 1), rows) == Committed()
    assert [seen.value for seen in consume(broker.bootstrap, topic)] == ["1", "1"]


def test_a_deleted_state_topic_stops_the_relay_before_anything_is_doubled(
    faults: FaultLog, outbox: OutboxDatabase, broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    """Rows carry the name of a batch, and nobody can tell any more whether it was committed."""
    part = faults.part("relay transactional")
    settings = SETTINGS["transactional"]
    with relay_bench(outbox, broker.bootstrap, topic, tmp_path, **settings) as bench:
        bench.start_writers()
        # Under a leader that lives: it finds out when it commits the next batch.
        relay = bench.start_relay()
        delete_state_topic(bench, part, broker, "relay.batch-marked")
        relay.points.release("relay.batch-marked")
        check_refusal(bench, relay.process.wait(60))
        put_right(bench)
        # Before one that starts: the batch was committed, and its rows are still there.
        relay = bench.start_relay()
        delete_state_topic(bench, part, broker, "relay.batch-published")
        relay.kill()
        check_refusal(bench, bench.start_relay().process.wait(60))
        put_right(bench)
        bench.start_relay()
        bench.settle(part)


def delete_state_topic(bench: RelayBench, part: FaultPart, broker: KafkaBroker, point: str) -> None:
    from confluent_kafka.admin import AdminClient

    relay, topic = bench.leader(), f"state-{bench.topic}"
    moment = Moment(point=point)
    admin = AdminClient({"bootstrap.servers": bench.bootstrap})
    part.inject(
        "delete",
        relay,
        lambda: admin.delete_topics([topic])[topic].result(20.0),
        work=bench.progress,
        at=moment,
        reach=lambda: relay.points.reach(point),
    )
    wait_for(lambda: topic not in admin.list_topics(timeout=10).topics, "the topic is gone")


def check_refusal(bench: RelayBench, exit_code: int) -> None:
    """It says why, and has changed nothing."""
    log = bench.log_of(list(bench.relays.values())[-1])
    assert exit_code == 1, log
    assert "carry the name of a batch" in log
    assert bench.outbox.count("substr(leader_id::text, 15, 1) = '8'") > 0
    bench.relays.clear()


def put_right(bench: RelayBench) -> None:
    """What the error says: see at a consumer which rows arrived; release the others."""
    with bench.outbox.connect() as connection:
        connection.cursor().executemany(
            "DELETE FROM outbox WHERE kafka_key = %s AND kafka_value = %s",
            [(key, str(value)) for key, value in bench.arrived()],
        )
        connection.execute("UPDATE outbox SET leader_id = NULL")
