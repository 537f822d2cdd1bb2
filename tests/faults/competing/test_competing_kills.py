"""Kill competing relays at the worst moments, and count at the receiver."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.claim_places import Place, new_place
from tests.faults.competing.bench import POINTS, competing_bench
from tests.fixtures.relaying import wait_for
from windrow.testing import FaultLog, FaultPart, Moment
from windrow.verify import LedgerFile
from windrow.verify.tally import tally


@pytest.fixture(params=["postgresql", "mysql"])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    with new_place(request.param, request) as found:
        yield found


def moments(part: FaultPart, config: pytest.Config) -> list[Moment]:
    """Every named point three times at least, and some at random; many to soak."""
    if config.getoption("soak"):
        return part.kill_times(152, POINTS)
    return [*[Moment(point) for point in POINTS] * 3, *part.kill_times(3, POINTS[2:3])]


@pytest.mark.proves("relay-competing")
def test_killed_relays_lose_nothing_and_repeat_only_what_they_held(
    place: Place, faults: FaultLog, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    part = faults.part("competing")
    with competing_bench(place, tmp_path) as bench:
        for _ in range(3):
            bench.start_relay()
        bench.start_writer()
        bench.start_receiver()
        for moment in moments(part, pytestconfig):
            # The one that has run for longest; the next two live on, or are about to.
            bench.relays[0].wait_for_start()
            bench.kill(part, bench.relays[0], moment)
            bench.start_relay()
        bench.settle(part)


def test_relay_that_finishes_before_it_sends_is_caught(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    with new_place("postgresql", request) as place, competing_bench(place, tmp_path) as bench:
        bench.start_receiver()
        bench.start_writer()
        victim = bench.start_relay("tests.faults.competing.planted")
        victim.wait_for_start()
        bench.wait_for_arrivals(10)
        victim.points.reach("competing.claimed")
        victim.kill()
        bench.remember(victim)
        bench.start_relay()
        bench.stop_writer()
        bench.wait_until_empty()
        verdict = tally(LedgerFile(tmp_path / "ledger"), bench.arrived(), bench.allowed())
        assert verdict.lost > 0


@pytest.mark.proves("relay-competing")
def test_stopped_relay_leaves_nothing_behind_and_doubles_nothing(
    place: Place, faults: FaultLog, tmp_path: Path
) -> None:
    part = faults.part("competing")
    with competing_bench(place, tmp_path) as bench:
        bench.start_receiver()
        bench.start_writer()
        # Before that, SIGTERM ends it as it ends any process.
        bench.start_relay().wait_for_start()
        for _ in range(2):
            bench.start_relay().wait_for_start()
            leaving = bench.relays[0]
            part.inject("terminate", leaving, leaving.stop, work=bench.progress)
            assert bench.held_by(leaving) == []
            bench.remember(leaving)
        before = bench.progress()
        wait_for(lambda: bench.progress() > before, "the other goes on")
        bench.settle(part)
