from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from windrow.embedded.errors import NotRunning
from windrow.testing import FaultLog, FaultNotCounted, FaultPart, Moment, NotDelivered
from windrow.testing.errors import NothingToSettle, NotSettled
from windrow.testing.processes import find_living
from windrow.verify import Ledger

IDLER = "import sys; print(flush=True); sys.stdin.read()"


@pytest.fixture
def victim() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        [sys.executable, "-c", IDLER], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


@pytest.fixture
def log() -> FaultLog:
    return FaultLog(Random(1))


@pytest.fixture
def part(log: FaultLog) -> FaultPart:
    return log.part("relay")


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    path = tmp_path / "ledger"
    with Ledger(path) as ledger:
        ledger.written([("a", 1), ("a", 2), ("b", 1)])
    return path


@pytest.fixture
def work() -> Callable[[], int]:
    """Work that is under way: each reading differs from the last."""
    return itertools.count().__next__


def test_a_fault_on_a_living_process_at_work_counts(
    part: FaultPart, victim: subprocess.Popen[bytes], work: Callable[[], int]
) -> None:
    part.inject("kill", victim, victim.kill, work=work)
    assert (part.totals.injected, part.totals.at_named_points) == (1, 0)
    assert find_living(victim.pid) is None


def test_a_fault_on_a_dead_process_does_not_count(
    part: FaultPart, victim: subprocess.Popen[bytes], work: Callable[[], int]
) -> None:
    victim.kill()
    victim.wait()
    with pytest.raises(FaultNotCounted, match=f"process {victim.pid} is not alive"):
        part.inject("kill", victim, victim.kill, work=work)
    assert part.totals.injected == 0


def test_a_fault_on_a_process_of_which_only_the_exit_status_is_left_does_not_count(
    part: FaultPart, victim: subprocess.Popen[bytes], work: Callable[[], int]
) -> None:
    os.kill(victim.pid, signal.SIGKILL)
    os.waitid(os.P_PID, victim.pid, os.WEXITED | os.WNOWAIT)
    with pytest.raises(FaultNotCounted, match="is not alive"):
        part.inject("kill", victim, victim.kill, work=work)


def test_a_fault_on_a_service_that_is_not_running_does_not_count(
    part: FaultPart, work: Callable[[], int]
) -> None:
    class Stopped:
        @property
        def pid(self) -> int:
            raise NotRunning("kafka", 7)

    with pytest.raises(FaultNotCounted, match="kafka"):
        part.inject("kill", Stopped(), lambda: None, work=work)


def test_a_fault_does_not_count_if_its_victim_dies_on_the_way_to_the_moment(
    part: FaultPart, victim: subprocess.Popen[bytes], work: Callable[[], int]
) -> None:
    def dies_too_early() -> None:
        victim.kill()
        victim.wait()

    with pytest.raises(FaultNotCounted, match="is not alive"):
        part.inject("kill", victim, victim.kill, work=work, at=Moment("p"), reach=dies_too_early)


def test_a_fault_on_a_stopped_process_counts_only_if_that_was_meant(
    part: FaultPart, victim: subprocess.Popen[bytes], work: Callable[[], int]
) -> None:
    part.inject("pause", victim, lambda: victim.send_signal(signal.SIGSTOP), work=work)
    with pytest.raises(FaultNotCounted, match="is stopped"):
        part.inject("kill", victim, victim.kill, work=work)
    part.inject("kill", victim, victim.kill, work=work, stopped=True)
    assert part.totals.injected == 2


def test_a_fault_in_an_idle_system_does_not_count(
    part: FaultPart, victim: subprocess.Popen[bytes]
) -> None:
    with pytest.raises(FaultNotCounted, match="no work was under way: progress stood at 41"):
        part.inject("kill", victim, victim.kill, work=lambda: 41, patience=0.05)
    assert part.totals.injected == 0
    assert find_living(victim.pid) is not None


def test_work_that_ended_before_a_random_moment_does_not_count(
    part: FaultPart, victim: subprocess.Popen[bytes]
) -> None:
    began = time.monotonic()

    def progress() -> int:
        """Moves for a while, then no more."""
        return min(int((time.monotonic() - began) * 1000), 100)

    with pytest.raises(FaultNotCounted, match="progress stood at 100"):
        part.inject("kill", victim, victim.kill, work=progress, at=Moment(delay=0.2), patience=0.05)


def test_a_named_point_is_reached_after_work_was_seen_and_before_the_fault(
    part: FaultPart, victim: subprocess.Popen[bytes]
) -> None:
    happened: list[str] = []

    def progress() -> int:
        happened.append("read")
        return len(happened)

    part.inject(
        "cut",
        victim,
        lambda: happened.append("cut"),
        work=progress,
        at=Moment("after-commit"),
        reach=lambda: happened.append("reached"),
    )
    assert happened == ["read", "read", "reached", "cut"]
    assert (part.totals.injected, part.totals.at_named_points) == (1, 1)


def test_a_named_point_in_an_idle_system_does_not_count(
    part: FaultPart, victim: subprocess.Popen[bytes]
) -> None:
    with pytest.raises(FaultNotCounted, match="no work was under way"):
        part.inject(
            "kill",
            victim,
            victim.kill,
            work=lambda: 0,
            at=Moment("after-commit"),
            reach=lambda: None,
            patience=0.05,
        )


def test_a_named_point_without_a_way_to_reach_it_does_not_count(
    part: FaultPart, victim: subprocess.Popen[bytes], work: Callable[[], int]
) -> None:
    with pytest.raises(FaultNotCounted, match="no way given to reach the point 'p'"):
        part.inject("kill", victim, victim.kill, work=work, at=Moment("p"))


@pytest.mark.parametrize("kind", ["kill", "pause"])
def test_a_fault_without_effect_does_not_count(
    kind: str, part: FaultPart, victim: subprocess.Popen[bytes], work: Callable[[], int]
) -> None:
    with pytest.raises(FaultNotCounted, match=f"process {victim.pid} is as it was"):
        part.inject(kind, victim, lambda: None, work=work, patience=0.05)
    assert part.totals.injected == 0


def test_what_arrived_is_settled_against_the_ledger(part: FaultPart, ledger: Path) -> None:
    verdict = part.settle(ledger, iter([("a", 1), ("b", 1), ("a", 2)]))
    assert (verdict.written, verdict.delivered) == (3, 3)
    assert str(part.totals) == "injected 0, lost 0, misordered 0, doubled 0 (allowed 0)"


@pytest.mark.parametrize(
    ("arrived", "counted"),
    [
        ([("a", 1), ("b", 1)], "lost 1, misordered 0, doubled 0 (allowed 0)"),
        ([("a", 1), ("a", 2), ("a", 2), ("b", 1)], "lost 0, misordered 0, doubled 1 (allowed 0)"),
        ([("a", 2), ("a", 1), ("b", 1)], "lost 0, misordered 1, doubled 0 (allowed 0)"),
        ([("a", 1), ("a", 2), ("a", 1), ("b", 1)], "lost 0, misordered 1, doubled 0 (allowed 0)"),
        (
            [("a", 1), ("a", 2), ("b", 1), ("c", 1)],
            "lost 0, misordered 0, doubled 0 (allowed 0), unexpected 1",
        ),
    ],
)
def test_what_went_wrong_is_counted_and_fails(
    part: FaultPart, ledger: Path, arrived: list[tuple[str, int | str]], counted: str
) -> None:
    with pytest.raises(NotDelivered):
        part.settle(ledger, arrived)
    assert str(part.totals) == f"injected 0, {counted}"


def test_a_repeat_is_allowed_by_naming_the_record_and_not_by_a_number(
    part: FaultPart, ledger: Path
) -> None:
    arrived: list[tuple[str, int | str]] = [("a", 1), ("a", 2), ("a", 2), ("b", 1)]
    part.settle(ledger, arrived, may_repeat={("a", 2)})
    assert str(part.totals) == "injected 0, lost 0, misordered 0, doubled 1 (allowed 1)"
    with pytest.raises(NotDelivered, match="doubled: a/2"):
        part.settle(ledger, arrived, may_repeat={("b", 1)})


def test_several_writers_are_settled_together(
    part: FaultPart, ledger: Path, tmp_path: Path
) -> None:
    second = tmp_path / "second"
    with Ledger(second) as other:
        other.written([("c", 1)])
    with pytest.raises(NotDelivered, match="lost: c/1"):
        part.settle([ledger, second], [("a", 1), ("a", 2), ("b", 1)])


def test_an_empty_ledger_settles_nothing(part: FaultPart, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.touch()
    with pytest.raises(NothingToSettle, match="empty"):
        part.settle(empty, [])


def test_faults_that_nobody_counted_are_refused(
    log: FaultLog,
    part: FaultPart,
    victim: subprocess.Popen[bytes],
    ledger: Path,
    work: Callable[[], int],
) -> None:
    log.check_settled()
    part.settle(ledger, [("a", 1), ("a", 2), ("b", 1)])
    part.inject("kill", victim, victim.kill, work=work)
    with pytest.raises(NotSettled, match="relay: 1 injected after the last count"):
        log.check_settled()
    part.settle(ledger, [("a", 1), ("a", 2), ("b", 1)])
    log.check_settled()
