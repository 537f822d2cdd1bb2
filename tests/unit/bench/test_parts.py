from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest

from windrow.bench import PARTS, Figure, Progress, TooSlow, UnknownPart, at_least, parts, run_part
from windrow.cli.main import main


def ignore(done: float, what: str) -> None:
    """A progress that nobody looks at."""


class Plant:
    """Puts a part of the test's own on the list."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch

    def __call__(self, name: str, *figures: Figure, seconds: float = 0.0) -> None:
        def measure(quick: bool, progress: Progress) -> list[Figure]:
            progress(0.5, "half")
            time.sleep(seconds)
            return list(figures)

        module = ModuleType(f"planted_{name}")
        module.measure = measure  # type: ignore[attr-defined]  # made here
        self._monkeypatch.setitem(sys.modules, module.__name__, module)
        self._monkeypatch.setitem(PARTS, name, module.__name__)


@pytest.fixture
def plant(monkeypatch: pytest.MonkeyPatch) -> Plant:
    for name in list(PARTS):
        monkeypatch.delitem(PARTS, name)
    return Plant(monkeypatch)


GOOD = Figure("drain", "records/s", (10.0, 12.0, 11.0), at_least(10))
BAD = Figure("append", "ms", (10.0,), at_least(11))


def test_a_part_measures_and_reports_progress() -> None:
    """The one that needs no server; for the others see the integration tests."""
    part = "cli"
    seen: list[float] = []
    measured = run_part(part, quick=True, progress=lambda done, what: seen.append(done))
    assert measured
    assert all(m.command == f"windrow bench {part} --quick" and m.value > 0 for m in measured)
    assert seen == sorted(seen)
    assert 0 <= seen[0] < seen[-1] <= 1


def test_an_unknown_part_names_the_nearest_and_the_list() -> None:
    with pytest.raises(UnknownPart, match=r'did you mean "verify"\? known: cli, '):
        run_part("verfy", quick=True, progress=ignore)


def test_a_quick_part_that_is_not_quick_is_broken_off(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "QUICK_LIMIT", 0.05)
    plant("slow", GOOD, seconds=30)
    began = time.monotonic()
    with pytest.raises(TooSlow, match=r'part "slow" was not measured within the 0\.05 s'):
        run_part("slow", quick=True, progress=ignore)
    assert time.monotonic() - began < 10


def test_a_full_run_may_take_its_time(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "QUICK_LIMIT", 0.01)
    plant("slow", GOOD, seconds=0.1)
    assert run_part("slow", quick=False, progress=ignore)[0].command == "windrow bench slow"


def test_the_command_prints_a_list_as_json(
    plant: Plant, capsys: pytest.CaptureFixture[str]
) -> None:
    plant("relay", GOOD)
    assert main(["bench", "relay", "--quick", "--json"]) == 0
    (measured,) = json.loads(capsys.readouterr().out)
    assert list(measured) == [
        "name",
        "value",
        "unit",
        "goal",
        "holds",
        "repeats",
        "command",
        "hardware",
    ]
    assert (measured["value"], measured["holds"]) == (11.0, True)


def test_the_command_ends_with_1_if_a_goal_does_not_hold(
    plant: Plant, capsys: pytest.CaptureFixture[str]
) -> None:
    plant("relay", GOOD)
    plant("journal", BAD)
    assert main(["bench", "relay"]) == 0
    assert main(["bench", "all"]) == 1
    out = capsys.readouterr().out.splitlines()
    assert out[-1].split() == ["append", "10", "ms", "10", "…", "10", "≥", "11", "no"]


def test_the_command_ends_with_2_for_an_unknown_part(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "verfy"]) == 2
    assert capsys.readouterr().err == (
        'windrow: error: no part "verfy" to measure; did you mean "verify"?'
        f" known: {', '.join(PARTS)}, all\n"
    )


def test_the_command_writes_the_page(plant: Plant, tmp_path: Path) -> None:
    plant("relay", GOOD)
    assert main(["bench", "all", "--quick", "--write", str(tmp_path / "page.md")]) == 0
    assert "| drain | 11 | records/s | 10 … 12 | 3 | ≥ 10 | yes |" in (
        tmp_path / "page.md"
    ).read_text(encoding="utf-8")
