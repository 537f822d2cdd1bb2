"""That the checker checks: brokers that break a promise are caught, each for what it does."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from tests.faults.journal_bench import JournalBench, journal_bench
from tests.fixtures.relaying import wait_for
from windrow.verify.journal_ledger import Outcome


def troubles(bench: JournalBench) -> set[str]:
    """All kinds of trouble that the ledger and the contents show."""
    return {kind for journal in bench.journals for kind in bench.verdict(journal).troubles}


def is_withheld_one_seen(bench: JournalBench, withheld: Path) -> bool:
    journal, end = json.loads(withheld.read_text() or "[null, 0]")
    return journal is not None and bench.seen_end(journal) >= int(end)


@pytest.mark.proves("counting-honest")
def test_an_append_that_was_acknowledged_before_it_was_durable_is_found_to_be_lost(
    tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    with journal_bench(pytestconfig, tmp_path, plant="forgetful", patience=5.0) as bench:
        wait_for(lambda: bench.progress() > 100, "there is something to lose")
        for broker in bench.brokers.values():
            broker.kill()
        bench.restart()
        bench.stop_load()
        verdicts = [bench.verdict(journal) for journal in bench.journals]
        # Not one that cannot be read at all: the brokers may have noticed.
        assert any(verdict.found and verdict.count("lost") for verdict in verdicts), verdicts


@pytest.mark.proves("counting-honest")
def test_bytes_that_are_seen_before_all_replicas_have_them_are_found_to_change(
    tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    """The primary has and shows an append that its replica never hears of, and dies."""
    with journal_bench(pytestconfig, tmp_path, plant="hasty", patience=20.0) as bench:
        primary = bench.primary()
        points = primary.points.directory
        (points / "withhold").touch()
        wait_for((points / "withheld").exists, "an append is withheld from the replica")
        wait_for(partial(is_withheld_one_seen, bench, points / "withheld"), "it is seen")
        primary.kill()
        # With what it has on its disk it could still make good what it showed.
        bench.wait_for_appends("the others go on without it")
        bench.restart()
        bench.stop_load()
        problems = bench.problems()
        assert any("different in the end" in problem for problem in problems), problems


@pytest.mark.proves("counting-honest")
def test_appends_that_are_written_into_each_other_are_found_to_be_torn(
    tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    with journal_bench(pytestconfig, tmp_path, plant="mixing", pace=0.002) as bench:
        wait_for(lambda: bench.progress() > 500, "some are committed together")
        bench.stop_load()
        found = troubles(bench)
        assert {"torn", "wrong sum"} <= found
        assert bench.outcomes()[Outcome.ACKED] > 500
