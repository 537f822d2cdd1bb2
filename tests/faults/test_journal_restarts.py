"""Restart brokers in good order, one after the other: nobody who appends notices."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.journal_bench import journal_bench, rounds
from windrow.testing import FaultLog
from windrow.verify.journal_ledger import Outcome


@pytest.mark.proves("journal-append")
def test_a_rolling_restart_fails_no_append(
    faults: FaultLog, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    """Clients follow the journals, and try again only where nothing can have been written."""
    part = faults.part("journal")
    with journal_bench(pytestconfig, tmp_path, retries=True) as bench:
        for _ in range(rounds(pytestconfig, 2, 20)):
            for broker in bench.brokers.values():
                part.inject("terminate", broker, broker.end, work=bench.progress)
                bench.recover()
        bench.settle(part)
    # Beside its first line an append has one more if its outcome stayed unknown.
    failed = [line for line in bench.appends() if line[0] != Outcome.ACKED and len(line) > 6]
    assert not failed, failed[:5]
    assert set(bench.outcomes()) == {Outcome.ACKED}
