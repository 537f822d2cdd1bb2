"""Kill relays at the worst moments, and count at a consumer."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.relay_bench import relay_bench
from tests.fixtures.relaying import OutboxDatabase
from windrow.testing import FaultLog

BARRIER_POINTS = ["relay.marked", "relay.acknowledged", "relay.purged"]
BATCH_POINTS = ["relay.batch-marked", "relay.batch-produced", "relay.batch-published"]


def kills(config: pytest.Config, few: int, many: int) -> int:
    return many if config.getoption("soak") else few


@pytest.mark.proves("relay-barrier")
@pytest.mark.parametrize("reader", ["mark", "diff"])
def test_killed_leaders_lose_nothing_and_repeat_only_the_latest_of_a_key(
    reader: str,
    faults: FaultLog,
    outbox: OutboxDatabase,
    kafka: str,
    topic: str,
    tmp_path: Path,
    pytestconfig: pytest.Config,
) -> None:
    part = faults.part("relay barrier")
    settings = {"relay.reader": reader}
    with relay_bench(outbox, kafka, topic, tmp_path, **settings) as bench:
        bench.start_writers()
        bench.start_relay()
        bench.start_relay()
        for moment in part.kill_times(kills(pytestconfig, 8, 150), BARRIER_POINTS):
            bench.kill(part, bench.leader(), moment)
            bench.start_relay()
        bench.settle(part)


@pytest.mark.proves("relay-transactional")
def test_killed_leaders_in_transactional_mode_lose_and_repeat_nothing(
    faults: FaultLog,
    outbox: OutboxDatabase,
    kafka: str,
    topic: str,
    tmp_path: Path,
    pytestconfig: pytest.Config,
) -> None:
    part = faults.part("relay transactional")
    settings = {"relay.mode": "transactional"}
    with relay_bench(outbox, kafka, topic, tmp_path, **settings) as bench:
        bench.start_writers()
        bench.start_relay()
        bench.start_relay()
        for moment in part.kill_times(kills(pytestconfig, 12, 200), BATCH_POINTS):
            bench.kill(part, bench.leader(), moment)
            bench.may_repeat.clear()  # nothing may
            bench.start_relay()
        bench.settle(part)


@pytest.mark.proves("relay-barrier")
def test_a_killed_standby_is_not_noticed(
    faults: FaultLog, outbox: OutboxDatabase, kafka: str, topic: str, tmp_path: Path
) -> None:
    part = faults.part("relay barrier")
    with relay_bench(outbox, kafka, topic, tmp_path) as bench:
        bench.start_writers()
        leader = bench.start_relay()
        assert bench.leader() is leader
        for _ in range(3):
            bench.kill(part, bench.start_relay())
            bench.may_repeat.clear()  # the leader lives: nothing may
        assert bench.leader() is leader
        bench.settle(part)


@pytest.mark.parametrize("mode", ["barrier", "transactional"])
def test_a_clean_hand_over_under_load_doubles_nothing(
    mode: str, faults: FaultLog, outbox: OutboxDatabase, kafka: str, topic: str, tmp_path: Path
) -> None:
    part = faults.part(f"relay {mode}")
    with relay_bench(outbox, kafka, topic, tmp_path, **{"relay.mode": mode}) as bench:
        bench.start_writers()
        bench.start_relay()
        for _ in range(3):
            bench.wait_for_start(bench.start_relay())
            leader = bench.leader()
            part.inject("terminate", leader, leader.stop, work=bench.progress)
            del bench.relays[leader.name]
            bench.wait_for_progress("the next one sends")
        bench.settle(part)


@pytest.mark.proves("relay-transactional")
def test_a_zombie_that_wakes_up_changes_nothing_in_transactional_mode(
    faults: FaultLog, outbox: OutboxDatabase, kafka: str, topic: str, tmp_path: Path
) -> None:
    part = faults.part("relay transactional")
    settings = {"relay.mode": "transactional"}
    with relay_bench(outbox, kafka, topic, tmp_path, **settings) as bench:
        bench.start_writers()
        bench.start_relay()
        bench.start_relay()
        bench.wake_zombies(part, [None, *BATCH_POINTS])
        bench.settle(part)
