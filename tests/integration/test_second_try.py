from __future__ import annotations

from pathlib import Path

import pytest

from tests.fixtures import second_try

CONFTEST = Path(second_try.__file__).read_text() + 'pytest_plugins = ["windrow.testing.faults"]'
FIRST_TIME = """
import itertools, subprocess, sys
import pytest
from windrow.verify import Ledger

tries = itertools.count(1)

def test_one(): assert next(tries) == 2
"""
LOST = """
def test_lost(faults, tmp_path):
    with Ledger(tmp_path / "ledger") as ledger:
        ledger.written([("a", 1), ("a", 2)])
    part = faults.part("relay")
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as victim:
        part.inject("kill", victim, victim.kill, work=itertools.count().__next__)
    part.settle(tmp_path / "ledger", [("a", 1), ("a", 2)][: next(tries)])
"""


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makeconftest(CONFTEST)
    return pytester


def put(suite: pytest.Pytester, path: str, text: str) -> None:
    file = suite.path / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_what_passes_at_the_second_try_passes_and_is_named(suite: pytest.Pytester) -> None:
    put(suite, "tests/integration/test_it.py", FIRST_TIME)
    done = suite.runpytest_subprocess("--second-try", "-rR")
    done.assert_outcomes(passed=1)
    done.stdout.fnmatch_lines(["RERUN tests/integration/test_it.py::test_one*"])


def test_why_the_first_try_failed_is_told(suite: pytest.Pytester) -> None:
    says = FIRST_TIME.replace("test_one(): ", "test_one():\n    print('a log')\n    ")
    put(suite, "tests/integration/test_it.py", says)
    done = suite.runpytest_subprocess("--second-try")
    done.assert_outcomes(passed=1)
    lines = ["*first try of *::test_one*", "E *assert 1 == 2", "*stdout*", "a log"]
    done.stdout.fnmatch_lines(lines)


def test_without_being_asked_nothing_is_tried_twice(suite: pytest.Pytester) -> None:
    put(suite, "tests/integration/test_it.py", FIRST_TIME)
    suite.runpytest_subprocess().assert_outcomes(failed=1)


def test_unit_test_is_not_tried_twice(suite: pytest.Pytester) -> None:
    put(suite, "tests/unit/test_it.py", FIRST_TIME)
    suite.runpytest_subprocess("--second-try").assert_outcomes(failed=1)


def test_record_that_was_lost_once_was_lost(suite: pytest.Pytester) -> None:
    put(suite, "tests/faults/test_it.py", FIRST_TIME.replace("test_one", "one") + LOST)
    done = suite.runpytest_subprocess("--second-try")
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["*lost 1*"])


def test_each_fault_of_two_tries_is_counted_once(suite: pytest.Pytester) -> None:
    fails_first = LOST.replace("[: next(tries)]", "") + "    assert next(tries) == 2\n"
    put(suite, "tests/faults/test_it.py", FIRST_TIME.replace("test_one", "one") + fails_first)
    done = suite.runpytest_subprocess("--second-try")
    done.assert_outcomes(passed=1)
    done.stdout.fnmatch_lines(["faults relay: injected 2, *"])
