"""Kill brokers and etcd in the middle of appends, and read everything back."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle
from pathlib import Path

import pytest

from tests.faults.journal_bench import (
    JOURNALS,
    REPLICA_POINTS,
    SENDING_POINTS,
    SYNC_POINTS,
    JournalBench,
    journal_bench,
    rounds,
)
from windrow.testing import FaultLog, FaultPart, Moment


def kill_while_the_route_changes(
    part: FaultPart, bench: JournalBench, journal: str, point: str
) -> None:
    """Kill a replica, and then its primary when it is about to settle with the next one."""
    primary, replica = bench.primary(journal), bench.replica(journal)

    def reach() -> None:
        bench.kill(part, replica)
        primary.points.reach(point)

    moment = Moment(point=point)
    part.inject("kill", primary, primary.kill, work=bench.progress, at=moment, reach=reach)


@pytest.mark.proves("journal-append")
def test_killed_members_lose_no_acknowledged_append_and_show_no_other(
    faults: FaultLog,
    tmp_path: Path,
    pytestconfig: pytest.Config,
    record_property: Callable[[str, object], None],
) -> None:
    """Primaries before and after each step of an append, replicas before and after their flush."""
    part = faults.part("journal")
    journals = cycle(JOURNALS)
    with journal_bench(pytestconfig, tmp_path) as bench:
        for moment in part.kill_times(rounds(pytestconfig, 6, 80), SENDING_POINTS):
            bench.wait_for_balance()
            victim = bench.primary(next(journals))
            served = [journal for journal in JOURNALS if bench.route(journal)[0] == victim.member]
            bench.kill(part, victim, moment)
            took = bench.recover("another is primary", served, without=victim)
            bench.fail_overs.append(took)
            bench.recover()
        for moment in part.kill_times(rounds(pytestconfig, 4, 40), REPLICA_POINTS):
            bench.wait_for_balance()
            bench.kill(part, bench.replica(next(journals)), moment)
            bench.recover()
        bench.settle(part)
    record_property("seconds from the kill of a primary to the next append", bench.fail_overs)
    print("seconds from the kill of a primary to the next append:", bench.fail_overs)


@pytest.mark.proves("journal-append")
def test_killed_majorities_and_leaders_lose_no_acknowledged_append_and_show_no_other(
    faults: FaultLog, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    """All brokers at once, whoever assigns journals, etcd, and a primary while its route changes.

    After each kill of all, their disks are compared before one of them starts again.
    """
    part = faults.part("journal")
    journals = cycle(JOURNALS)
    with journal_bench(pytestconfig, tmp_path) as bench:
        for moment in part.kill_times(rounds(pytestconfig, 3, 40), SENDING_POINTS):
            bench.wait_for_balance()
            bench.kill_all(part, moment)
            bench.recover()
        for _ in range(rounds(pytestconfig, 1, 10)):
            for point in SYNC_POINTS:
                bench.wait_for_balance()
                kill_while_the_route_changes(part, bench, next(journals), point)
                bench.recover()
        for _ in range(rounds(pytestconfig, 2, 20)):
            bench.kill(part, bench.leader())
            bench.recover()
        for _ in range(rounds(pytestconfig, 2, 20)):
            part.inject("kill", bench.etcd, bench.etcd.kill, work=bench.progress)
            bench.etcd.restart()
            bench.recover()
        bench.settle(part)
