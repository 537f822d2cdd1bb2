"""Disks that are full and stores that are gone, and kills while they are."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path

import pytest

from tests.faults.journal_bench import (
    JOURNALS,
    SENDING_POINTS,
    BenchBroker,
    JournalBench,
    journal_bench,
    rounds,
)
from tests.fixtures.relaying import wait_for
from windrow.testing import FaultLog, FaultPart

FULL = 100_000
"""No file of the broker grows beyond it: spools have room for some appends, and then for none."""


def wait_for_refusal(bench: JournalBench, journal: str) -> None:
    """Until an append failed because no file may grow."""

    def refusals() -> int:
        told = (str(line[-1]) for line in bench.appends() if line[1] == journal)
        return sum("File too large" in why for why in told)

    before = refusals()
    wait_for(lambda: refusals() > before, f"{journal} refuses an append")


@contextmanager
def full_disk(part: FaultPart, bench: JournalBench, victim: BenchBroker) -> Iterator[None]:
    """A limit on the size of files, imposed on the running process."""
    pid = victim.pid
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE)

    def act() -> None:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (FULL, before[1]))

    part.inject("full disk", victim, act, work=bench.progress)
    yield
    if victim.is_alive():
        resource.prlimit(pid, resource.RLIMIT_FSIZE, before)


@contextmanager
def store_gone(part: FaultPart, bench: JournalBench) -> Iterator[None]:
    """The root of the store is not there, as if it were not mounted."""
    away = bench.file_root.with_name("unmounted")
    part.inject(
        "store gone", bench.primary(), lambda: bench.file_root.rename(away), work=bench.progress
    )
    yield
    away.rename(bench.file_root)


@pytest.mark.proves("journal-append")
def test_full_disks_and_missing_stores_lose_no_acknowledged_append_and_show_no_other(
    faults: FaultLog, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    part = faults.part("journal")
    journals = cycle(JOURNALS)
    with journal_bench(pytestconfig, tmp_path) as bench:
        for _ in range(rounds(pytestconfig, 1, 15)):
            for find in (bench.primary, bench.replica):
                journal = next(journals)
                bench.wait_for_balance()  # one that the journal is leaving refuses nothing
                with full_disk(part, bench, find(journal)):
                    wait_for_refusal(bench, journal)
                bench.recover()
            with full_disk(part, bench, bench.primary(next(journals))):
                bench.kill_all(part, work=bench.attempts)
            bench.recover()
            bench.wait_for_balance()
            with store_gone(part, bench):
                bench.wait_for_appends("a store that is away is no matter for now")
            bench.recover()
            for moment in part.kill_times(2, SENDING_POINTS):
                # One that gets a journal meanwhile cannot know how far it reaches, and waits.
                bench.wait_for_balance()
                with store_gone(part, bench):
                    bench.kill(part, bench.primary(next(journals)), moment)
                    bench.restart()
                bench.recover()
        bench.settle(part)
