from __future__ import annotations

import json

import pytest

PLUGIN = 'pytest_plugins = ["windrow.testing.faults"]'

VICTIM = """
import itertools, subprocess, sys
import pytest
from windrow.verify import Ledger

@pytest.fixture
def ledger(tmp_path):
    with Ledger(tmp_path / "ledger") as ledger:
        ledger.written([("a", 1), ("a", 2)])
    return tmp_path / "ledger"

def kill_one(part):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as victim:
        part.inject("kill", victim, victim.kill, work=itertools.count().__next__)
"""


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makeconftest(PLUGIN)
    return pytester


def test_the_run_closes_with_one_line_per_part_over_all_tests(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        VICTIM
        + """
@pytest.mark.parametrize("name", ["relay", "relay", "journal"])
def test_kill(faults, name, ledger):
    part = faults.part(name)
    kill_one(part)
    part.settle(ledger, [("a", 1), ("a", 1), ("a", 2)], may_repeat=[("a", 1)])
"""
    )
    result = suite.runpytest("--fault-seed", "42")
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(
        [
            "fault seed: 42",
            "faults journal: injected 1, lost 0, misordered 0, doubled 1 (allowed 1)",
            "faults relay: injected 2, lost 0, misordered 0, doubled 2 (allowed 2)",
            "faults seed: 42; repeat with --fault-seed 42",
        ]
    )
    account = json.loads((suite.path / "build" / "faults.json").read_text())
    assert account["seed"] == 42
    assert account["parts"]["relay"] == {
        "injected": 2,
        "at_named_points": 0,
        "written": 4,
        "delivered": 4,
        "lost": 0,
        "misordered": 0,
        "doubled": 2,
        "allowed": 2,
        "unexpected": 0,
    }


def test_a_failed_count_is_in_the_closing_line_too(suite: pytest.Pytester) -> None:
    suite.makepyfile(VICTIM + "def test_loss(faults, ledger): faults.part('p').settle(ledger, [])")
    result = suite.runpytest()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["faults p: injected 0, lost 2, misordered 0, doubled 0 (allowed 0)"]
    )


def test_a_test_that_injects_and_never_counts_is_an_error(suite: pytest.Pytester) -> None:
    suite.makepyfile(VICTIM + "def test_kill(faults): kill_one(faults.part('relay'))")
    result = suite.runpytest()
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*faults relay: 1 injected after the last count*"])


def test_a_test_that_failed_before_it_could_count_is_not_an_error_as_well(
    suite: pytest.Pytester,
) -> None:
    suite.makepyfile(VICTIM + "def test_kill(faults): kill_one(faults.part('relay')); assert 0")
    suite.runpytest().assert_outcomes(failed=1)


def test_a_run_without_faults_says_nothing_and_leaves_the_last_account(
    suite: pytest.Pytester,
) -> None:
    (suite.path / "build").mkdir()
    (suite.path / "build" / "faults.json").write_text("{}")
    suite.makepyfile("def test_nothing(): pass")
    result = suite.runpytest()
    result.stdout.no_fnmatch_line("faults *")
    assert (suite.path / "build" / "faults.json").read_text() == "{}"


def test_the_seed_decides_the_moments_and_a_test_run_alone_has_the_same(
    suite: pytest.Pytester,
) -> None:
    suite.makepyfile(
        """
def test_first(faults): print("drawn 1", faults.part("p").kill_times(4, ["a"]))
def test_second(faults): print("drawn 2", faults.part("p").kill_times(4, ["a"]))
"""
    )

    def drawn(*arguments: str) -> list[str]:
        lines = suite.runpytest("-s", *arguments).outlines
        return [line[line.index("drawn") :] for line in lines if "drawn" in line]

    seven = drawn("--fault-seed", "7")
    assert drawn("--fault-seed", "7") == seven
    assert drawn("--fault-seed", "7", "-k", "second") == seven[1:]
    assert drawn("--fault-seed", "8") != seven
