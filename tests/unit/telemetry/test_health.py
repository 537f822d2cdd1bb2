from __future__ import annotations

import json

import pytest

from windrow.telemetry import CheckKind, Health
from windrow.telemetry.errors import DuplicateCheck


def ok() -> None:
    return None


def health_of(*names: str, timeout: float = 2.0, max_age: float = 1.0) -> Health:
    health = Health()
    for name in names:
        health.add(name, ok, timeout=timeout, max_age=max_age)
    return health


def names_due(health: Health, now: float, kind: CheckKind | None = None) -> list[str]:
    return [check.name for check in health.due(now, kind)]


def test_a_process_without_checks_is_healthy() -> None:
    assert Health().report(now=0).is_ok


def test_a_check_that_never_answered_is_not_healthy() -> None:
    (result,) = health_of("kafka").report(now=0).checks
    assert (result.ok, result.problem) == (False, "not checked yet")


def test_a_check_is_due_at_first_and_again_when_its_answer_is_too_old() -> None:
    health = health_of("kafka", max_age=1.0)
    assert names_due(health, now=0) == ["kafka"]
    health.on_answered("kafka", None, now=0.5)
    assert names_due(health, now=1.4) == []
    assert names_due(health, now=1.5) == ["kafka"]


def test_a_check_under_way_is_not_begun_again_however_long_it_takes() -> None:
    health = health_of("kafka", timeout=2.0)
    assert names_due(health, now=0) == ["kafka"]
    assert names_due(health, now=1) == []
    assert names_due(health, now=1_000) == []


def test_waiting_ends_with_the_last_deadline_of_those_under_way() -> None:
    health = Health()
    health.add("slow", ok, timeout=5)
    health.add("quick", ok, timeout=1)
    assert health.wait_until(now=0) is None
    health.due(now=10)
    assert health.wait_until(now=10) == 15
    health.on_answered("slow", None, now=10.5)
    assert health.wait_until(now=10.5) == 11
    assert health.wait_until(now=11) is None


def test_a_check_that_hangs_fails_and_names_itself_until_it_answers() -> None:
    health = health_of("kafka", "etcd", timeout=2.0)
    health.due(now=0)
    health.on_answered("etcd", None, now=0.1)
    report = health.report(now=7)
    assert not report.is_ok
    assert [(c.name, c.problem) for c in report.checks if not c.ok] == [
        ("kafka", "no answer for 7.0s; 2s are allowed")
    ]
    health.on_answered("kafka", None, now=8)
    assert health.report(now=8).is_ok


def test_an_old_good_answer_does_not_hide_a_hanging_check() -> None:
    health = health_of("kafka", timeout=2.0, max_age=1.0)
    health.due(now=0)
    health.on_answered("kafka", None, now=0)
    health.due(now=5)
    assert not health.report(now=7).is_ok


def test_a_report_holds_the_problem_and_its_age() -> None:
    health = health_of("kafka")
    health.due(now=0)
    health.on_answered("kafka", "no broker", now=1)
    (result,) = health.report(now=1.5).checks
    assert (result.ok, result.problem, result.age) == (False, "no broker", 0.5)


def test_each_kind_is_asked_and_reported_apart() -> None:
    health = Health()
    health.add("loop", ok, kind=CheckKind.LIVE)
    health.add("kafka", ok, kind=CheckKind.READY)
    assert names_due(health, 0, CheckKind.LIVE) == ["loop"]
    health.on_answered("loop", None, 0)
    assert health.report(0, CheckKind.LIVE).is_ok
    assert not health.report(0).is_ok
    assert names_due(health, 0) == ["kafka"]


def test_a_second_check_of_a_name_is_refused() -> None:
    health = health_of("kafka")
    with pytest.raises(DuplicateCheck, match='"kafka" is registered already'):
        health.add("kafka", ok)


def test_the_report_as_json() -> None:
    health = health_of("kafka")
    health.due(now=0)
    health.on_answered("kafka", "no broker", now=0)
    assert json.loads(health.report(now=0.25).to_json()) == {
        "status": "failing",
        "checks": [
            {"name": "kafka", "kind": "ready", "ok": False, "problem": "no broker", "age": 0.25}
        ],
    }
    health.on_answered("kafka", None, now=1)
    assert json.loads(health.report(now=1).to_json())["status"] == "ok"
