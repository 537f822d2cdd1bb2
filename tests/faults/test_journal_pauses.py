"""Stop brokers for a while, shorter and longer than their lease, and let them go on."""

from __future__ import annotations

from functools import partial
from itertools import cycle
from pathlib import Path

import pytest

from tests.faults.journal_bench import (
    JOURNALS,
    LEASE,
    SENDING_POINTS,
    BenchBroker,
    JournalBench,
    journal_bench,
    rounds,
)
from tests.fixtures.relaying import wait_for
from windrow.testing import FaultLog, FaultPart, Moment

ZOMBIE_POINTS = (None, *SENDING_POINTS)


def pause(
    part: FaultPart, bench: JournalBench, victim: BenchBroker, point: str | None = None
) -> None:
    reach = None if point is None else partial(victim.points.reach, point)
    moment = Moment(point=point)
    part.inject("pause", victim, victim.pause, work=bench.progress, at=moment, reach=reach)


def has_ended(victim: BenchBroker) -> None:
    """One that slept through its lease finds out and ends; it must not serve on."""
    wait_for(lambda: not victim.is_alive(), "the broker whose lease is lost ends")


@pytest.mark.proves("journal-append")
def test_brokers_that_stop_and_go_on_lose_no_acknowledged_append_and_show_no_other(
    faults: FaultLog, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    """A replica that hangs delays appends for a while; a primary that wakes up changes nothing."""
    part = faults.part("journal")
    journals = cycle(JOURNALS)
    with journal_bench(pytestconfig, tmp_path) as bench:
        for _ in range(rounds(pytestconfig, 2, 20)):
            journal = next(journals)
            bench.wait_for_balance()
            victim = bench.replica(journal)
            pause(part, bench, victim)
            bench.wait_for_trouble(journal)
            victim.resume()
            bench.recover()
        for _ in range(rounds(pytestconfig, 1, 20)):
            bench.wait_for_balance()
            victim = bench.replica(next(journals))
            pause(part, bench, victim)
            bench.recover("the others go on without it", without=victim, timeout=10 * LEASE)
            victim.resume()
            has_ended(victim)
            bench.recover()
        for point in ZOMBIE_POINTS * rounds(pytestconfig, 1, 8):
            bench.wait_for_balance()
            zombie = bench.primary(next(journals))
            pause(part, bench, zombie, point)
            bench.recover("another is primary", without=zombie, timeout=10 * LEASE)
            if point is not None:
                zombie.points.release(point)
            zombie.resume()
            has_ended(zombie)
            bench.recover()
        bench.settle(part)
