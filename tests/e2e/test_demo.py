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
from windrow.demo import judge
from windrow.demo.parts import version_of_kafka
from windrow.demo.story import create_tables, place_order, read_back
from windrow.embedded.groups import Process, all_processes, family_of
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
def test_demo_ends_by_itself_with_a_verdict_it_computed() -> None:
    done = windrow("demo", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    shown = json.loads(done.stdout)
    assert shown["orders"] == shown["events"] == ["order-1"]
    assert shown["verdict"] == {
        "committed": 1,
        "rolled_back": 1,
        "lost": 0,
        "doubled": 0,
        "orphaned": 0,
        "holds": True,
    }
    versions = {part["name"]: part["version"] for part in shown["parts"]}
    assert versions["Windrow"] == __version__
    assert versions["Python"] == sys.version.split()[0]
    assert versions["PostgreSQL, embedded"]


@pytest.mark.usefixtures("postgres_server")
def test_demo_tells_people_the_same_and_names_what_is_missing(tmp_path: Path) -> None:
    done = windrow("demo", PATH="/nonexistent", XDG_CACHE_HOME=str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[-1] == (
        "verdict: committed 1, rolled back 1, lost 0, doubled 0, orphaned 0:"
        " an event exists exactly if its data does"
    )
    by_part = {line.split("  ")[0]: line.split("  ")[-1].strip() for line in lines}
    for part in ("Java", "Kafka", "etcd", "Chromium"):
        assert by_part[part] == "not installed: make setup"


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


def test_event_exists_exactly_if_the_data_does(database: str) -> None:
    with psycopg.connect(database) as connection:
        create_tables(connection)
        for number in range(20):
            place_order(connection, f"order-{number}", "1.00")
            if number % 3:
                connection.rollback()
            else:
                connection.commit()
    with psycopg.connect(database) as reader:
        orders, events = read_back(reader)
    committed = {f"order-{number}" for number in range(0, 20, 3)}
    rolled_back = {f"order-{number}" for number in range(20)} - committed
    assert judge(committed, rolled_back, orders, events).holds


def test_event_written_outside_the_transaction_breaks_the_verdict(database: str) -> None:
    """The dual write that the outbox is there to prevent is seen for what it is."""
    with psycopg.connect(database) as connection, psycopg.connect(database) as other:
        create_tables(connection)
        place_order(other, "order-1", "1.00")
        other.execute("DELETE FROM orders")
        other.commit()
        orders, events = read_back(connection)
    assert (orders, events) == ([], ["order-1"])
    verdict = judge(set(), {"order-1"}, orders, events)
    assert (verdict.orphaned, verdict.holds) == (1, False)


@pytest.mark.parametrize(
    ("orders", "events", "wrong"),
    [
        (["a"], [], "lost"),
        ([], ["a"], "lost"),
        ([], [], "lost"),
        (["a"], ["a", "a"], "doubled"),
        (["a", "b"], ["a", "b"], "orphaned"),
        (["a", "b"], ["a"], "orphaned"),
        (["a"], ["a", "b"], "orphaned"),
        (["a"], ["a", "c"], "orphaned"),
    ],
)
def test_every_way_to_be_wrong_is_counted_once(
    orders: list[str], events: list[str], wrong: str
) -> None:
    verdict = judge({"a"}, {"b"}, orders, events)
    assert not verdict.holds
    counted = {kind: getattr(verdict, kind) for kind in ("lost", "doubled", "orphaned")}
    assert counted == {kind: int(kind == wrong) for kind in counted}


def test_verdict_on_nothing_does_not_hold() -> None:
    assert not judge([], [], [], []).holds


def test_version_of_kafka_is_the_one_of_its_jar(tmp_path: Path) -> None:
    (tmp_path / "kafka-clients-3.9.2.jar").touch()
    assert version_of_kafka(tmp_path) is None
    (tmp_path / "kafka_2.13-4.1.0.jar").touch()
    assert version_of_kafka(tmp_path) == "4.1.0"
