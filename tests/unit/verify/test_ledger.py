from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from windrow.verify import Entry, Ledger, LedgerFile, NotALedger


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger"


def entries(path: Path) -> list[Entry]:
    return list(LedgerFile(path))


def test_what_was_written_is_read_in_order(path: Path) -> None:
    with Ledger(path) as ledger:
        ledger.written([("a", 1), ("b", "x")])
        ledger.written([("a", 2)])
    assert entries(path) == [Entry("a", 1), Entry("b", "x"), Entry("a", 2)]


def test_keys_and_ids_may_hold_any_text(path: Path) -> None:
    with Ledger(path) as ledger:
        ledger.written([('two\nlines "', "é\t\0")])
    assert entries(path) == [Entry('two\nlines "', "é\t\0")]


def test_a_commit_that_is_never_confirmed_stays_a_maybe(path: Path) -> None:
    with Ledger(path) as ledger:
        ledger.maybe([("a", 1)])
        ledger.maybe([("a", 2)])
        ledger.written([("a", 2)])
    assert entries(path) == [Entry("a", 1, maybe=True), Entry("a", 2)]


def test_a_record_that_was_rolled_back_is_not_in_the_ledger(path: Path) -> None:
    with Ledger(path) as ledger:
        ledger.maybe([("a", 1)])
        ledger.undone([("a", 1)])
    assert entries(path) == []


def test_a_record_rolled_back_and_tried_again_has_the_place_of_its_last_try(path: Path) -> None:
    with Ledger(path) as ledger:
        ledger.maybe([("a", 1)])
        ledger.undone([("a", 1)])
        ledger.written([("a", 2)])
        ledger.maybe([("a", 1)])
        ledger.written([("a", 1)])
    assert entries(path) == [Entry("a", 2), Entry("a", 1)]


def test_the_order_is_that_of_the_commits_and_not_of_their_confirmations(path: Path) -> None:
    with Ledger(path) as ledger:
        ledger.maybe([("a", 1)])
        ledger.maybe([("a", 2)])
        ledger.written([("a", 2)])
        ledger.written([("a", 1)])
    assert entries(path) == [Entry("a", 1), Entry("a", 2)]


def test_a_torn_last_line_is_ignored(path: Path) -> None:
    path.write_text('["maybe", "a", 1]\n["written", "a", 1')
    assert entries(path) == [Entry("a", 1, maybe=True)]


def test_a_writer_that_goes_on_cuts_off_the_torn_line(path: Path) -> None:
    path.write_text('["maybe", "a", 1]\n["written", "a", 1')
    with Ledger(path) as ledger:
        ledger.written([("a", 2)])
    assert entries(path) == [Entry("a", 1, maybe=True), Entry("a", 2)]


def test_a_torn_line_longer_than_one_reading_is_cut_off_too(path: Path) -> None:
    path.write_text('["written", "a", 1]\n["written", "' + "x" * 10_000)
    with Ledger(path) as ledger:
        ledger.written([("a", 2)])
    assert entries(path) == [Entry("a", 1), Entry("a", 2)]


@pytest.mark.parametrize("line", ["not json", '["lost", "a", 1]', '["written", "a"]', "7", "null"])
def test_a_line_that_is_not_of_a_ledger_is_refused_with_its_number(path: Path, line: str) -> None:
    path.write_text(f'["written", "a", 1]\n{line}\n')
    with pytest.raises(NotALedger, match="line 2"):
        entries(path)


def test_progress_moves_with_every_line(path: Path) -> None:
    file = LedgerFile(path)
    readings = [file.progress()]
    with Ledger(path, fsync=True) as ledger:
        for n in range(3):
            ledger.maybe([("a", n)])
            readings.append(file.progress())
    assert len(set(readings)) == 4


WRITER = """
import sys
from pathlib import Path
from windrow.verify import Ledger
ledger = Ledger(Path(sys.argv[1]))
n = 0
while True:
    ledger.maybe([("a", n)])
    ledger.written([("a", n)])
    print(n, flush=True)
    n += 1
"""


def test_every_line_of_a_writer_killed_at_any_moment_is_there(path: Path) -> None:
    """What the writer had said it wrote is written, and at most one record is in doubt."""
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE)
    assert writer.stdout is not None
    with writer.stdout:
        said = [int(writer.stdout.readline()) for _ in range(200)]
        os.kill(writer.pid, signal.SIGKILL)
        said += [int(line) for line in writer.stdout.read().splitlines() if line]
    writer.wait()
    found = entries(path)
    assert [entry.id for entry in found] == list(range(len(found)))
    assert len(found) - len(said) in (0, 1)
    assert not any(entry.maybe for entry in found[: len(said)])
