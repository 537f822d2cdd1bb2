"""Leaders that sleep beyond their right and wake, and two that lead at once; then count."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.faults.relay_bench import STEADY_LEASE, RelayBench, RelayProcess, relay_bench
from tests.fixtures.relaying import OutboxDatabase
from windrow.testing import FaultLog, FaultPart, Moment, NotDelivered
from windrow.testing.run_record import write_json

FULL_PRODUCER = {"kafka.producer.linger.ms": "100"}
"""Whatever is sent waits inside the producer for a while, so that a pause finds it there."""
DEEP_LANES = {"kafka.producer.linger.ms": "20"}
"""With few keys: behind what is sent there is always more in memory, marked and waiting."""
POINTS = ["relay.may-send"]
"""Where the right to lead has just been looked at, and nothing been handed over yet."""


def pause_at(part: FaultPart, bench: RelayBench, leader: RelayProcess, moment: Moment) -> None:
    """Stop the leader at that point, or at any moment of its work."""
    point = moment.point or ""
    part.inject(
        "pause",
        leader,
        leader.pause,
        work=bench.progress,
        at=moment,
        reach=lambda: leader.points.reach(point),
    )


def put_to_sleep(bench: RelayBench, part: FaultPart, moment: Moment) -> None:
    """Pause the leader until another leads and sends, and wake it up."""
    zombie = bench.leader()
    pause_at(part, bench, zombie, moment)
    bench.may_repeat += bench.unacknowledged()
    bench.wait_for_another(zombie)
    for _ in range(3):
        bench.wait_for_progress("the new leader sends")
    bench.may_repeat += bench.unacknowledged()
    zombie.points.release(moment.point or "")
    zombie.resume()
    bench.wait_for_progress("the leader goes on")


def test_a_barrier_zombie_loses_nothing_and_how_often_a_stale_record_shows_is_measured(
    faults: FaultLog,
    outbox: OutboxDatabase,
    kafka: str,
    topic: str,
    tmp_path: Path,
    pytestconfig: pytest.Config,
) -> None:
    """The one hole that no idempotent producer closes: what it held goes out when it wakes."""
    part = faults.part("relay barrier, zombies")
    pauses = 200 if pytestconfig.getoption("soak") else 6
    with relay_bench(outbox, kafka, topic, tmp_path, **FULL_PRODUCER) as bench:
        bench.start_writers(rate=150.0)
        bench.start_relay()
        bench.start_relay()
        for moment in part.kill_times(pauses, POINTS):
            put_to_sleep(bench, part, moment)
        overran = sum(
            bench.log_of(relay).count("leader overran") for relay in bench.relays.values()
        )
        with suppress(NotDelivered):  # what it counted is in the totals
            bench.settle(part, timeout=180.0)
    totals = part.totals
    assert totals.lost == totals.unexpected == 0
    assert totals.misordered <= overran, "a stale record that nobody told of"
    figure = {
        "pauses": pauses,
        "overran": overran,
        "written": totals.written,
        "doubled": totals.doubled,
        "misordered": totals.misordered,
    }
    print(f"barrier zombies: {figure}")
    write_json(pytestconfig.rootpath / "build" / "zombies.json", figure)


def test_pauses_within_the_promise_cost_no_order(
    faults: FaultLog, outbox: OutboxDatabase, kafka: str, topic: str, tmp_path: Path
) -> None:
    """Shorter than the take-over delay less the delivery time-out, wherever they fall.

    The right is not always fresh, so in the longer ones another takes over.
    """
    part = faults.part("relay barrier")
    settings = STEADY_LEASE | FULL_PRODUCER | {"relay.delivery_timeout": "400ms"}
    with relay_bench(outbox, kafka, topic, tmp_path, **settings) as bench:
        bench.start_writers(rate=150.0)
        bench.start_relay()
        bench.start_relay()
        for number, moment in enumerate(part.kill_times(6, POINTS)):
            sleeper = bench.leader()
            pause_at(part, bench, sleeper, moment)
            bench.may_repeat += bench.unacknowledged()
            time.sleep(0.8 + 0.14 * number)  # the pause is what is tested: 1.5 s at the most
            sleeper.points.release(moment.point or "")
            sleeper.resume()
        bench.settle(part)


@pytest.mark.parametrize("mode", ["barrier", "transactional"])
def test_of_two_that_are_told_to_lead_alone_the_later_one_leads(
    mode: str, faults: FaultLog, outbox: OutboxDatabase, kafka: str, topic: str, tmp_path: Path
) -> None:
    """The earlier one marks nothing more, sends nothing more, and ends with the reason."""
    part = faults.part(f"relay {mode}")
    settings = {"relay.mode": mode, "relay.election.kind": "single"} | STEADY_LEASE | DEEP_LANES
    with relay_bench(outbox, kafka, topic, tmp_path, **settings) as bench:
        bench.start_writers(keys=6)
        earlier = bench.start_relay()
        for _ in range(2):
            part.inject("rival", earlier, bench.start_relay, work=bench.progress)
            assert earlier.process.wait(20.0) == 1
            assert "was fenced by a later one" in bench.log_of(earlier)
            del bench.relays[earlier.name]
            if mode == "barrier":
                bench.may_repeat += bench.unacknowledged()
            (earlier,) = bench.relays.values()
            bench.wait_for_progress("the later one sends")
        bench.settle(part)
        assert earlier.stop() == 0
