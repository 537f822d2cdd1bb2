"""Kill, restart and pause the broker under a relay, and delete its state topic; then count."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.relay_bench import RelayBench, relay_bench
from tests.fixtures.relaying import OutboxDatabase, wait_for
from tests.fixtures.services import start_service
from windrow.embedded.kafka import KafkaBroker
from windrow.testing import FaultLog, FaultPart, Moment

modes = pytest.mark.parametrize("mode", ["barrier", "transactional"])
A_FEW_SECONDS = 8.0


@pytest.fixture(scope="module")
def broker(pytestconfig: pytest.Config) -> Iterator[KafkaBroker]:
    with start_service(pytestconfig, "Kafka", KafkaBroker.start) as broker:
        yield broker


@pytest.fixture
def topic(broker: KafkaBroker, request: pytest.FixtureRequest) -> str:
    name = f"topic-{abs(hash(request.node.nodeid)):x}"
    broker.create_topic(name, partitions=3)
    return name


def settings_of(mode: str) -> dict[str, str]:
    settings = {"relay.mode": mode, "relay.drain_timeout": "2s"}
    if mode == "transactional":
        settings["kafka.producer.delivery.timeout.ms"] = "2000"
    return settings


def allow_repeats(bench: RelayBench) -> None:
    """A record whose delivery is in doubt is sent again, and may have been written before."""
    if bench.settings["relay.mode"] == "barrier":
        bench.may_repeat += bench.unacknowledged()


def strike(bench: RelayBench, part: FaultPart, broker: KafkaBroker, kind: str) -> None:
    acts = {"kill": broker.kill, "restart": broker.restart, "pause": broker.pause}
    part.inject(kind, broker, acts[kind], work=bench.progress)
    allow_repeats(bench)
    if kind == "kill":
        broker.restart()
    if kind == "pause":
        time.sleep(3.0)  # the pause is what is tested: longer than a record may take
        broker.resume()
    allow_repeats(bench)
    bench.wait_for_progress(f"the relay goes on after the {kind}", timeout=60.0)


@modes
def test_a_broker_that_is_paused_restarted_or_killed_costs_no_record_and_no_order(
    mode: str,
    faults: FaultLog,
    outbox: OutboxDatabase,
    broker: KafkaBroker,
    topic: str,
    tmp_path: Path,
    pytestconfig: pytest.Config,
) -> None:
    part = faults.part(f"relay {mode}")
    settings = settings_of(mode)
    with relay_bench(outbox, broker.bootstrap, topic, tmp_path, **settings) as bench:
        bench.start_writers()
        bench.start_relay()
        for _ in range(10 if pytestconfig.getoption("soak") else 1):
            for kind in ("pause", "restart", "kill"):
                strike(bench, part, broker, kind)
        stop_without_answer(bench, part, broker)
        bench.start_relay()
        bench.settle(part, timeout=90.0)


def stop_without_answer(bench: RelayBench, part: FaultPart, broker: KafkaBroker) -> None:
    """A stop is bounded, and orderly, though nobody says what became of what was sent."""
    relay = bench.leader()
    part.inject("pause", broker, broker.pause, work=bench.progress)
    wait_for(lambda: bench.outbox.count("leader_id IS NOT NULL") > 0, "something is under way")
    began = time.monotonic()
    assert relay.stop() == 0
    assert time.monotonic() - began < 2.0 + A_FEW_SECONDS
    del bench.relays[relay.name]
    allow_repeats(bench)
    broker.resume()


def test_a_deleted_state_topic_stops_the_relay_before_anything_is_doubled(
    faults: FaultLog, outbox: OutboxDatabase, broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    """Rows carry the name of a batch, and nobody can tell any more whether it was committed."""
    part = faults.part("relay transactional")
    settings = settings_of("transactional")
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
