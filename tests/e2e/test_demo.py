"""``windrow demo``, and the story it tells on a database of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from signal import SIGINT

import psycopg
import pytest

from tests.fixtures.processes import eventually, is_gone
from windrow.demo import Demonstration
from windrow.demo.parts import version_of_kafka
from windrow.demo.story import create_tables, place_order, written
from windrow.embedded.groups import Process, all_processes, family_of
from windrow.verify import tally
from windrow.verify.tally import Entry
from windrow.version import __version__

WINDROW = Path(sys.executable).with_name("windrow")


def windrow(*argv: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [WINDROW, *argv],
        env={**os.environ, **environ},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )


def descendants_of(pid: int) -> list[Process]:
    return [process for process in family_of(pid, all_processes()) if process.pid != pid]


@pytest.mark.usefixtures("postgres_server")  # without it this machine cannot run the demo
@pytest.mark.proves("outbox-atomic")
def test_demo_ends_by_itself_with_a_verdict_it_computed() -> None:
    done = windrow("demo", "--json", "--orders", "400")
    assert (done.returncode, done.stderr) == (0, "")
    shown = json.loads(done.stdout)
    verdict = shown["verdict"]
    assert (verdict["written"], verdict["delivered"], shown["rolled_back"]) == (360, 360, 40)
    assert (verdict["lost"], verdict["misordered"], verdict["unexpected"]) == (0, 0, 0)
    assert verdict["doubled"] == verdict["forgiven"]
    assert verdict["holds"]
    assert shown["killed"] in ("first", "second")
    versions = {part["name"]: part["version"] for part in shown["parts"]}
    assert versions["Windrow"] == __version__
    assert versions["Python"] == sys.version.split()[0]
    assert versions["PostgreSQL, embedded"]


@pytest.mark.usefixtures("postgres_server")
def test_demo_tells_people_the_same_and_names_what_is_missing(tmp_path: Path) -> None:
    done = windrow("demo", "--orders", "40", PATH="/usr/bin:/bin", XDG_CACHE_HOME=str(tmp_path))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[-1].startswith("verdict: written 36, delivered 36, lost 0, misordered 0, doubled")
    assert lines[-1].endswith(": clean")
    assert any("killed with SIGKILL" in line for line in lines)
    by_part = {line.split("  ")[0]: line.split("  ")[-1].strip() for line in lines}
    assert by_part["Kafka"] == "not installed: make setup"


@pytest.mark.usefixtures("postgres_server")
@pytest.mark.parametrize("interrupted", [False, True])
def test_demo_leaves_no_process(interrupted: bool) -> None:
    started: dict[int, Process] = {}
    with subprocess.Popen(
        [WINDROW, "demo"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        deadline = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < deadline:
            started |= {child.pid: child for child in descendants_of(process.pid)}
            if interrupted and any("postgres" in _command(pid) for pid in started):
                process.send_signal(SIGINT)
                break
        _, err = process.communicate(timeout=60)
    assert process.returncode == (130 if interrupted else 0)
    assert err == ""
    assert started, "the demo was never seen to start anything"
    assert eventually(lambda: all(map(is_gone, started.values())))


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


@pytest.mark.parametrize(
    ("arrived", "wrong"),
    [
        ([("a", 1), ("b", 2)], "lost"),
        ([("a", 1), ("b", 2), ("b", 2), ("a", 3)], "doubled"),
        ([("a", 3), ("b", 2), ("a", 1)], "misordered"),
        ([("a", 1), ("b", 2), ("a", 3), ("c", 4)], "unexpected"),
    ],
)
def test_a_record_lost_doubled_swapped_or_made_up_breaks_the_verdict(
    arrived: list[tuple[str, int]], wrong: str
) -> None:
    verdict = tally([Entry("a", 1), Entry("b", 2), Entry("a", 3)], arrived)
    assert getattr(verdict, wrong) == 1
    assert not Demonstration("18", 0, "first", verdict).holds


def test_verdict_on_nothing_does_not_hold() -> None:
    assert not Demonstration("18", 0, "first", tally([], [])).holds


def test_the_demo_reads_the_truth_from_the_services_own_table(database: str) -> None:
    with psycopg.connect(database) as connection:
        create_tables(connection)
        for number in range(1, 7):
            place_order(connection, number)
            if number % 3:
                connection.commit()
            else:
                connection.rollback()
        assert [entry.id for entry in written(connection)] == [1, 2, 4, 5]


def test_version_of_kafka_is_the_one_of_its_jar(tmp_path: Path) -> None:
    (tmp_path / "kafka-clients-3.9.2.jar").touch()
    assert version_of_kafka(tmp_path) is None
    (tmp_path / "kafka_2.13-4.1.0.jar").touch()
    assert version_of_kafka(tmp_path) == "4.1.0"
