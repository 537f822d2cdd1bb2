"""``windrow demo``: one run of the whole road, and what its verdict catches.

The run is kept when it has come to its verdict, then harm is done at the far end again and again,
and ``windrow verify`` is asked as the demo asks it. In the end it is interrupted with harm done.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, Queue
from signal import SIGINT
from typing import IO, TYPE_CHECKING, Any

import psycopg
import pytest

from tests.fixtures.processes import eventually, is_gone
from windrow.embedded.groups import Process, all_processes, family_of
from windrow.report.cells import shown
from windrow.version import __version__

if TYPE_CHECKING:
    from playwright.sync_api import Browser

WINDROW = Path(sys.executable).with_name("windrow")
PATIENCE = 900.0
"""Seconds for what takes forty when nothing else runs."""

HARMS = {
    "missing": (
        "DELETE FROM arrivals WHERE place ="
        " (SELECT place FROM arrivals ORDER BY place DESC LIMIT 1 OFFSET 7)"
    ),
    "doubled": (
        "INSERT INTO arrivals (id, name, team, strength, mission)"
        " SELECT id, name, team, strength, mission FROM arrivals ORDER BY place DESC LIMIT 1"
    ),
    "misordered": (
        "WITH last AS (SELECT team FROM arrivals ORDER BY place DESC LIMIT 1), two AS"
        " (SELECT min(place) AS a, max(place) AS b FROM (SELECT place FROM arrivals"
        " WHERE team = (TABLE last) ORDER BY place DESC LIMIT 2) AS places)"
        " UPDATE arrivals AS x SET id = y.id FROM arrivals AS y, two"
        " WHERE (x.place = a AND y.place = b) OR (x.place = b AND y.place = a)"
    ),
}
"""What is done to the table, by what it must be called."""


@dataclass
class Run:
    """All that one run showed."""

    told: dict[str, Any]
    report: Path
    verified: dict[str, tuple[int, dict[str, Any]]] = field(default_factory=dict)
    mended: tuple[int, dict[str, Any]] = (-1, {})
    ended: int = -1
    errors: str = ""
    left: list[Process] = field(default_factory=list)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One run of the demo, harmed on purpose when it had come to its verdict."""
    directory = tmp_path_factory.mktemp("demo")
    argv = ["demo", "--small", "--keep", "--json", "--report", "report.html"]
    with started(argv, directory) as process:
        told = json.loads(until_brace(process))
        run = Run(told, directory / "report.html")
        for name, harm in HARMS.items():
            with harmed(told["addresses"]["PostgreSQL"], harm):
                run.verified[name] = verify(told["comparisons"]["table"])
        run.mended = verify(told["comparisons"]["table"])
        with psycopg.connect(told["addresses"]["PostgreSQL"]) as connection:
            connection.execute(HARMS["missing"].encode())
        family = descendants_of(process.pid)
        process.send_signal(SIGINT)
        run.ended = process.wait(PATIENCE)
        assert process.stderr is not None
        run.errors = process.stderr.read()
        eventually(lambda: all(map(is_gone, family)))
        run.left = [each for each in family if not is_gone(each)]
    return run


@contextmanager
def started(argv: list[str], directory: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [WINDROW, *argv],
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        with process:
            yield process
    finally:
        process.kill()


def until_brace(process: subprocess.Popen[str]) -> str:
    """What it prints up to the end of the JSON, while it goes on."""
    lines: Queue[str] = Queue()
    assert process.stdout is not None
    threading.Thread(target=forward, args=(process.stdout, lines), daemon=True).start()
    printed, deadline = "", time.monotonic() + PATIENCE
    while not printed.endswith("\n}\n"):
        try:
            printed += lines.get(timeout=max(0.0, deadline - time.monotonic()))
        except Empty:
            pytest.fail(f"no verdict within {PATIENCE:g} s, only: {printed!r}")
        if process.poll() is not None and lines.empty() and not printed.endswith("\n}\n"):
            assert process.stderr is not None
            pytest.fail(f"it ended with {process.returncode}: {process.stderr.read()}")
    return printed


def forward(stream: IO[str], lines: Queue[str]) -> None:
    """One line after the other, and an empty one in the end."""
    while True:
        line = stream.readline()
        lines.put(line)
        if not line:
            return


@contextmanager
def harmed(dsn: str, harm: str) -> Iterator[None]:
    """Do harm, and undo it: the table is as it was. Totals stay out of it."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("SET session_replication_role = replica")
        connection.execute("CREATE TEMPORARY TABLE kept AS TABLE arrivals")
        connection.execute(harm.encode())
        try:
            yield
        finally:
            connection.execute("DELETE FROM arrivals")
            connection.execute("INSERT INTO arrivals TABLE kept")


def verify(arguments: list[str]) -> tuple[int, dict[str, Any]]:
    done = subprocess.run(
        [WINDROW, "verify", *arguments, "--json"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.stderr == ""
    return done.returncode, json.loads(done.stdout)


def descendants_of(pid: int) -> list[Process]:
    return [process for process in family_of(pid, all_processes()) if process.pid != pid]


pytestmark = pytest.mark.usefixtures("postgres_server")  # without it there is no demo


@pytest.mark.proves("outbox-atomic")
def test_demo_ends_with_a_clean_verdict_though_three_parts_were_killed(run: Run) -> None:
    verdict = run.told["verdict"]
    assert verdict["holds"]
    assert verdict["written"] == verdict["delivered"] >= 100
    assert {verdict[name] for name in ("lost", "doubled", "misordered", "unexpected")} == {0}
    assert [end["end"] for end in run.told["ends"]] == ["table", "audit"]
    assert all(end["written"] == verdict["written"] for end in run.told["ends"])
    first, *others = [killed["part"] for killed in run.told["killed"]]
    assert first in ("relay first", "relay second")
    assert others == ["broker", "Spark driver"]


def test_totals_of_the_teams_are_those_of_the_heroes(run: Run) -> None:
    assert run.told["wrong_totals"] == 0
    assert sum(run.told["totals"].values()) == run.told["verdict"]["written"]
    assert sorted(run.told["totals"]) == [f"team {n}" for n in range(8)]


def test_delays_are_told_for_each_stretch(run: Run) -> None:
    names = [stretch["name"] for stretch in run.told["stretches"]]
    assert names == ["service to journal", "journal to table", "service to table"]
    assert all(0 < stretch["p50"] <= stretch["p99"] for stretch in run.told["stretches"])


def test_where_the_time_went_is_told(run: Run) -> None:
    names = [stage["name"] for stage in run.told["stages"]]
    # It may have started by the time the broker is back.
    assert [name for name in names if name != "Spark starts"] == [
        "the parts start",
        "a relay is killed",
        "the broker is killed",
        "the driver of Spark is killed",
        "Spark starts again",
        "heroes arrive again",
        "the rest arrives",
        "the verdict",
    ]
    killed = run.told["killed"][-1]["at"]
    assert sum(stage["seconds"] for stage in run.told["stages"]) > killed


def test_heroes_were_written_after_the_last_kill(run: Run) -> None:
    """If none were on their way by then, the driver's death would prove nothing."""
    assert run.told["verdict"]["written"] > run.told["killed"][-1]["written"]


def test_versions_of_the_parts_are_told(run: Run) -> None:
    versions = {part["name"]: part["version"] for part in run.told["parts"]}
    assert versions["Windrow"] == __version__
    assert versions["Python"] == sys.version.split()[0]


def test_report_holds_what_was_told(run: Run) -> None:
    text = run.report.read_text()
    _, _, rest = text.partition('<script type="application/json" id="report">')
    embedded = json.loads(rest.partition("</script>")[0])
    assert embedded == {name: run.told[name] for name in embedded}
    assert 'data-verdict="pass"' in text
    assert text.count('class="mark"') == 3


def test_numbers_on_the_page_are_those_that_were_told(run: Run, chromium: Browser) -> None:
    page = chromium.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda message: problems.append(message.text))
    page.goto(run.report.as_uri())
    assert problems == []
    assert page.locator("h1 [data-verdict]").get_attribute("data-verdict") == "pass"
    for end in run.told["ends"]:
        row = page.locator(f'#verdict tr[data-row="{end["end"]}"]')
        for name in ("written", "delivered", "lost", "doubled", "misordered", "unexpected"):
            cell = row.locator(f'[data-column="{name}"]')
            assert cell.is_visible()
            assert json.loads(cell.get_attribute("data-value") or "") == end[name]
            assert cell.inner_text() == shown(end[name])
    for team, heroes in run.told["totals"].items():
        cell = page.locator(f'#totals tr[data-row="{team}"] [data-column="heroes"]')
        assert cell.inner_text() == shown(heroes)
    marks = page.locator("#counts g.mark").all()
    assert [mark.get_attribute("data-label") for mark in marks] == [
        killed["part"] for killed in run.told["killed"]
    ]


@pytest.mark.parametrize("harm", HARMS)
def test_verdict_catches_harm_at_the_far_end(run: Run, harm: str) -> None:
    """A record deleted, one inserted again, two of one team swapped."""
    status, found = run.verified[harm]
    assert status == 1
    assert not found["clean"]
    assert found[harm] == 1
    assert {found[other] for other in HARMS if other != harm} == {0}


def test_verdict_is_clean_again_when_the_harm_is_undone(run: Run) -> None:
    assert run.mended[0] == 0
    assert run.mended[1]["clean"]


def test_demo_that_is_kept_judges_anew_and_ends_with_one_if_harm_was_done(run: Run) -> None:
    assert (run.ended, run.errors) == (1, "")


@pytest.mark.proves("nothing-left-behind")
def test_demo_leaves_no_process(run: Run) -> None:
    assert run.left == []


@pytest.mark.usefixtures("kafka")  # without its jars there is no such demo
def test_demo_over_kafka_ends_with_a_clean_verdict_too(
    tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    """The same parts die, but for the broker: here it is Kafka's."""
    if not pytestconfig.getoption("soak"):
        pytest.skip("takes minutes beside other tests: make soak")
    argv = ["demo", "--small", "--kafka", "--json", "--report", "report.html"]
    done = subprocess.run(
        [WINDROW, *argv],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    verdict = told["verdict"]
    assert verdict["written"] == verdict["delivered"] >= 100
    assert {verdict[name] for name in ("lost", "doubled", "misordered", "unexpected")} == {0}
    assert [killed["part"] for killed in told["killed"]][1:] == ["Kafka broker", "Spark driver"]
    assert verdict["written"] > told["killed"][-1]["written"]
    assert [stretch["name"] for stretch in told["stretches"]] == [
        "service to Kafka",
        "Kafka to table",
        "service to table",
    ]


@pytest.mark.proves("nothing-left-behind")
def test_demo_that_is_interrupted_leaves_no_process(tmp_path: Path) -> None:
    with started(["demo"], tmp_path) as process:
        deadline = time.monotonic() + PATIENCE
        while not any("postgres" in _command(each.pid) for each in descendants_of(process.pid)):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        family = descendants_of(process.pid)
        process.send_signal(SIGINT)
        _, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, errors) == (130, "")
    assert eventually(lambda: all(map(is_gone, family)))


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def test_demo_names_what_is_missing_before_it_starts_anything(tmp_path: Path) -> None:
    environ = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    done = subprocess.run(
        [WINDROW, "demo"],
        cwd=tmp_path,
        env={**environ, "PATH": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "windrow: error: 'java' is not installed; run: apt-get install openjdk-17-jre-headless\n"
    )
