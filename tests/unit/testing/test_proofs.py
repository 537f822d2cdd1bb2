from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from windrow.testing.proofs import Promise, Result, load_promises, main, page

ROOT = Path(__file__).parents[3]

PROMISES = """
[[promise]]
id = "kept"
group = "First"
says = "It is kept."

[[promise]]
id = "coming"
group = "Second"
says = "It will be."

[[promise]]
id = "command"
group = "Second"
says = "A command shows it."
command = "true"
"""

PROVING = """
import pytest

@pytest.mark.proves("kept")
@pytest.mark.parametrize("n", [1, 2])
def test_kept(n): pass
"""


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makeconftest('pytest_plugins = ["windrow.testing.faults"]')
    (pytester.path / "docs").mkdir()
    (pytester.path / "docs" / "promises.toml").write_text(PROMISES)
    return pytester


def noted(suite: pytest.Pytester) -> dict[str, dict[str, str]]:
    results = json.loads((suite.path / "build" / "proofs.json").read_text())
    return {
        promise: {test: result["outcome"] for test, result in tests.items()}
        for promise, tests in results.items()
    }


def promises_on(text: str) -> list[str]:
    return re.findall(r"^\*\*.+\*\* \(`([a-z-]+)`\)$", text, flags=re.MULTILINE)


def test_the_page_of_the_docs_lists_exactly_the_promises() -> None:
    listed = load_promises(ROOT)
    text = (ROOT / "docs" / "proofs.md").read_text(encoding="utf-8")
    assert promises_on(text) == [promise.id for promise in listed]
    assert all(promise.says in text for promise in listed)
    assert len({promise.id for promise in listed}) == len(listed)


def test_the_page_gives_what_proves_a_promise_and_its_last_result() -> None:
    promises = [
        Promise("kept", "First", "It is kept."),
        Promise("coming", "Second", "It will be."),
        Promise("command", "Second", "A command shows it.", "make check"),
    ]
    results = {
        "kept": {
            "tests/a.py::test_one": Result("passed", "2026-01-02", "abc"),
            "tests/a.py::test_two[x]": Result("passed", "2026-01-02", "abc"),
            "tests/a.py::test_two[y]": Result("failed", "2026-01-01", "abd"),
            "tests/a.py::test_two[z]": Result("skipped", "2026-01-02", "abc"),
        }
    }
    text = page(promises, results)
    assert promises_on(text) == ["kept", "coming", "command"]
    assert text.endswith(
        """
## First

**It is kept.** (`kept`)

- `tests/a.py::test_one`: passed, 2026-01-02, commit abc
- `tests/a.py::test_two` (3 cases): failed, 2026-01-01, commit abd

## Second

**It will be.** (`coming`)

- not built yet

**A command shows it.** (`command`)

- `make check`: not run yet
"""
    )


def test_a_run_notes_how_the_proving_tests_ended(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        test_all="""
import pytest

@pytest.fixture
def breaks():
    yield
    raise ValueError

@pytest.mark.proves("kept", "coming")
def test_passes(): pass

@pytest.mark.proves("kept")
def test_fails(): assert 0

@pytest.mark.proves("kept")
@pytest.mark.skip
def test_skips(): pass

@pytest.mark.proves("kept")
def test_breaks_afterwards(breaks): pass

def test_proves_nothing(): pass
"""
    )
    suite.runpytest()
    assert noted(suite) == {
        "coming": {"test_all.py::test_passes": "passed"},
        "kept": {
            "test_all.py::test_breaks_afterwards": "failed",
            "test_all.py::test_fails": "failed",
            "test_all.py::test_passes": "passed",
            "test_all.py::test_skips": "skipped",
        },
    }


def test_an_unknown_promise_stops_the_run_and_the_known_ones_are_named(
    suite: pytest.Pytester,
) -> None:
    suite.makepyfile(PROVING.replace('"kept"', '"kpet"'))
    result = suite.runpytest()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*proves 'kpet'*it lists: kept, coming, command"])


def test_a_narrow_run_keeps_the_results_of_the_others(suite: pytest.Pytester) -> None:
    suite.makepyfile(test_a=PROVING, test_b=PROVING.replace("[1, 2]", "[3]"))
    suite.runpytest()
    before = noted(suite)
    assert len(before["kept"]) == 3
    for narrow in (["test_b.py"], ["-k", "1"], ["test_a.py::test_kept[1]"]):
        suite.runpytest(*narrow)
        assert noted(suite) == before


def test_a_test_that_vanished_or_proves_it_no_longer_is_dropped(suite: pytest.Pytester) -> None:
    suite.makepyfile(test_a=PROVING, test_b=PROVING, test_c=PROVING)
    suite.runpytest()
    suite.makepyfile(test_a=PROVING.replace("test_kept", "test_renamed"))
    suite.makepyfile(test_b=PROVING.replace('@pytest.mark.proves("kept")', ""))
    (suite.path / "test_c.py").unlink()
    suite.runpytest()
    assert list(noted(suite)["kept"]) == [
        "test_a.py::test_renamed[1]",
        "test_a.py::test_renamed[2]",
    ]


def test_the_page_is_written_from_the_notes_of_the_run(suite: pytest.Pytester) -> None:
    suite.makepyfile(test_a=PROVING)
    suite.runpytest()
    assert main(suite.path, []) == 0
    text = (suite.path / "docs" / "proofs.md").read_text()
    assert "- `test_a.py::test_kept` (2 cases): passed, " in text


@pytest.mark.parametrize(
    ("command", "outcome", "code"), [("true", "passed", 0), ("false", "failed", 1)]
)
def test_the_command_of_a_promise_is_run_when_asked_for(
    suite: pytest.Pytester, command: str, outcome: str, code: int
) -> None:
    (suite.path / "docs" / "promises.toml").write_text(PROMISES.replace('"true"', f'"{command}"'))
    assert main(suite.path, ["--run", "command"]) == code
    assert noted(suite) == {"command": {f"$ {command}": outcome}}
    assert f"- `{command}`: {outcome}, " in (suite.path / "docs" / "proofs.md").read_text()


def test_the_script_says_how_it_is_used() -> None:
    finished = subprocess.run(
        [sys.executable, ROOT / "scripts" / "proofs", "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "scripts/proofs [-h] [--run ID]" in finished.stdout
