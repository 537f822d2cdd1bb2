"""Points: who is struck, how often, and what is left behind by it."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from windrow.points import VARIABLE, Points, Strike, Struck, StruckDown

PASSER_BY = """
import sys
from windrow.points import StruckDown, pass_by
for _ in range(int(sys.argv[1])):
    try:
        pass_by("a.point")
    except StruckDown:
        print("struck", flush=True)
"""


@pytest.fixture
def points(tmp_path: Path) -> Points:
    return Points(tmp_path)


def run(directory: Path | None, times: int) -> subprocess.CompletedProcess[str]:
    environ = {name: value for name, value in os.environ.items() if name != VARIABLE}
    environ |= {} if directory is None else {VARIABLE: str(directory)}
    argv = [sys.executable, "-c", PASSER_BY, str(times)]
    return subprocess.run(argv, env=environ, capture_output=True, text=True, check=False)


def test_process_that_is_not_wanted_goes_on_and_leaves_nothing(points: Points) -> None:
    assert run(points.directory, 1).returncode == 0
    assert list(points.directory.iterdir()) == []
    points.want("a.point", Strike("exit"))
    assert run(None, 1).returncode == 0, "nor does one that knows of no directory"
    assert points.struck("a.point") == []


@pytest.mark.parametrize(
    ("strike", "hit"),
    [
        (Strike("raise"), [1]),
        (Strike("raise", nth=3), [3]),
        (Strike("raise", nth=2, times=2), [2, 3]),
        (Strike("raise", nth=4, times=0), [4, 5]),
    ],
)
def test_only_those_wanted_are_struck(points: Points, strike: Strike, hit: list[int]) -> None:
    points.want("a.point", strike)
    struck = []
    for _ in range(5):
        try:
            points.pass_by("a.point")
        except StruckDown as error:
            struck.append(error.number)
    assert struck == hit == [one.number for one in points.struck("a.point")]


def test_passers_by_are_counted_over_all_processes(points: Points) -> None:
    """The third to come is struck, and nobody else, although each process passes but twice."""
    points.want("a.point", Strike("raise", nth=3))
    said = [run(points.directory, 2).stdout for _ in range(3)]
    assert said == ["", "struck\n", ""]
    assert points.passed("a.point") == 6


def test_of_many_who_come_at_once_one_is_struck(points: Points) -> None:
    points.want("a.point", Strike("raise", nth=7))
    with ThreadPoolExecutor(4) as threads:
        said = [one.stdout for one in threads.map(lambda _: run(points.directory, 5), range(4))]
    assert sorted(said) == ["", "", "", "struck\n"]


def test_exit_is_as_by_sigkill_and_tells_who_it_was(points: Points) -> None:
    points.want("a.point", Strike("exit"))
    assert run(points.directory, 1).returncode == -signal.SIGKILL
    (struck,) = points.struck("a.point")
    assert struck.number == 1
    assert struck.program.endswith(" 1")
    assert struck.pid != os.getpid()


def test_wanting_a_point_again_begins_to_count_anew(points: Points) -> None:
    for _ in range(2):
        points.want("a.point", Strike("raise", nth=2))
        points.pass_by("a.point")
        with pytest.raises(StruckDown):
            points.pass_by("a.point")
        assert len(points.struck("a.point")) == 1
    points.release("a.point")
    points.pass_by("a.point")
    assert len(points.struck("a.point")) == 1, "who was struck is known after the release"


def pass_twice(points: Points) -> None:
    points.pass_by("a.point")
    points.pass_by("a.point")


@pytest.mark.parametrize("strike", [None, Strike("wait", nth=2)])
def test_whoever_waits_goes_on_when_released(points: Points, strike: Strike | None) -> None:
    if strike is not None:
        points.want("a.point", strike)
    with ThreadPoolExecutor(2) as threads:
        if strike is None:
            reaching = threads.submit(points.reach, "a.point")
            while not (points.directory / "a.point.wanted").exists():
                assert not reaching.done()
        passing = threads.submit(pass_twice, points)
        points.wait_for("a.point")
        assert not passing.done()
        points.release("a.point")
        passing.result(10)


def test_error_survives_pickling_and_names_the_point() -> None:
    error = pickle.loads(pickle.dumps(StruckDown("graph.write-after", 3)))
    assert str(error).startswith("struck down at graph.write-after, as passer-by number 3")


def test_struck_process_is_known_by_its_program(points: Points) -> None:
    points.want("a.point", Strike("raise"))
    with pytest.raises(StruckDown):
        points.pass_by("a.point")
    assert points.struck("a.point") == [Struck(os.getpid(), " ".join(sys.orig_argv[1:]), 1)]
