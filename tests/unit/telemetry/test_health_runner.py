from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from windrow.telemetry import CheckKind, Health, Metrics
from windrow.telemetry.health_runner import HealthRunner


@pytest.fixture
def released() -> Iterator[threading.Event]:
    """What a hanging probe waits for; set at the end, so that its thread ends too."""
    event = threading.Event()
    yield event
    event.set()


def problems(runner: HealthRunner, kind: CheckKind | None = None) -> dict[str, str | None]:
    return {check.name: check.problem for check in runner.report(kind).checks}


def test_probes_are_run_and_reported() -> None:
    health = Health()
    health.add("good", lambda: None)
    health.add("bad", lambda: "no broker")
    assert problems(HealthRunner(health)) == {"good": None, "bad": "no broker"}


def test_a_probe_that_raises_counts_as_failed() -> None:
    health = Health()
    health.add("raises", lambda: str(1 / 0))
    health.add("exits", lambda: sys.exit(3))
    assert problems(HealthRunner(health)) == {
        "raises": "ZeroDivisionError: division by zero",
        "exits": "SystemExit: 3",
    }


def test_a_probe_whose_error_cannot_be_shown_counts_as_failed() -> None:
    class Unprintable(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    def probe() -> str | None:
        raise Unprintable

    health = Health()
    health.add("raises", probe, timeout=10)
    assert "Unprintable" in str(problems(HealthRunner(health))["raises"])


def test_a_secret_in_a_problem_is_hidden() -> None:
    health = Health()
    health.add("database", lambda: "cannot reach postgresql://me:hunter2@db/orders")
    assert "hunter2" not in HealthRunner(health).report().to_json()


def test_a_hanging_probe_holds_the_report_no_longer_than_its_time_out(
    released: threading.Event,
) -> None:
    health = Health()
    health.add("hangs", lambda: str(released.wait()), timeout=0.2)
    health.add("good", lambda: None)
    runner = HealthRunner(health)

    began = time.monotonic()
    found = problems(runner)
    took = time.monotonic() - began

    assert 0.2 <= took < 2
    assert found["good"] is None
    assert "no answer" in str(found["hangs"])


def test_a_probe_that_still_hangs_is_reported_at_once_and_holds_one_thread(
    released: threading.Event,
) -> None:
    health = Health()
    health.add("hangs", lambda: str(released.wait()), timeout=1)
    runner = HealthRunner(health)
    runner.report()
    began = time.monotonic()
    for _ in range(20):
        assert not runner.report().is_ok
    assert time.monotonic() - began < 0.9
    assert [t.name for t in threading.enumerate()].count("windrow-health-hangs") == 1


def test_probes_that_take_their_time_run_side_by_side() -> None:
    """Each waits for the others to have begun, so one after another they would never answer."""
    together = threading.Barrier(4, timeout=5)
    health = Health()
    for name in "abcd":
        health.add(name, lambda: None if together.wait() >= 0 else "", timeout=10)
    assert HealthRunner(health).report().is_ok


def test_callers_at_once_share_one_run() -> None:
    runs, released = [], threading.Event()

    def probe() -> None:
        runs.append(1)
        released.wait(5)

    health = Health()
    health.add("slow", probe, timeout=10, max_age=10)
    runner = HealthRunner(health)
    with ThreadPoolExecutor(4) as pool:
        reports = [pool.submit(runner.report) for _ in range(4)]
        released.set()
    assert all(report.result().is_ok for report in reports)
    assert len(runs) == 1


def test_only_probes_of_the_kind_asked_for_are_run() -> None:
    health, runs = Health(), list[str]()
    health.add("live", lambda: runs.append("live"), kind=CheckKind.LIVE)
    health.add("ready", lambda: runs.append("ready"))
    assert problems(HealthRunner(health), CheckKind.LIVE) == {"live": None}
    assert runs == ["live"]


def test_the_result_of_each_check_is_a_gauge() -> None:
    health, metrics = Health(), Metrics()
    health.add("good", lambda: None)
    health.add("bad", lambda: "no broker")
    HealthRunner(health, metrics).report()
    exposed = metrics.exposition().decode()
    assert 'windrow_health_check_up{check="good"} 1.0' in exposed
    assert 'windrow_health_check_up{check="bad"} 0.0' in exposed
