"""Spark's Python processes are forked from one that has all they need, and none can tell."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from signal import SIGTERM

import pytest

from tests.fixtures.relaying import wait_for
from windrow.embedded.directory import create_directory, remove_directory
from windrow.embedded.groups import find_process, living_family
from windrow.embedded.process import kill_process
from windrow.spark.forks import Forks

TELLING = """
import json, os, random, sys
import numpy

print(json.dumps({
    "name": __name__, "argv": sys.argv[1:], "orig_argv": sys.orig_argv[1:], "pid": os.getpid(),
    "directory": os.getcwd(), "variable": os.environ.get("VARIABLE"), "path": sys.path[:2],
    "input": sys.stdin.read(), "drawn": [random.random(), float(numpy.random.random())],
}))
print("a word", file=sys.stderr)
sys.exit(int(sys.argv[1]))
"""
SLEEPING = """
import os, signal, sys, time
print(os.getpid(), flush=True)
if sys.argv[1:]:
    os.kill(os.getpid(), int(sys.argv[1]))
time.sleep(60)
"""


class Forge:
    """A server, and processes that it is asked for."""

    def __init__(self, directory: Path, forks: Forks) -> None:
        self.directory, self.forks = directory, forks
        self.server = forks._server

    def launch(self, *arguments: str, **more: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [str(self.forks.program), "-m", *arguments],
            cwd=self.directory,
            env={**os.environ, "PYTHONPATH": str(self.directory / "modules"), **more},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def forked(self) -> list[int]:
        return [process.pid for process in living_family(self.server.pid)][1:]


@contextmanager
def new_forge() -> Iterator[Forge]:
    directory = create_directory("forks")
    modules = directory / "modules"
    modules.mkdir()
    (modules / "telling.py").write_text(TELLING)
    (modules / "sleeping.py").write_text(SLEEPING)
    forks = Forks.start(directory)
    forks.wait_until_listening()
    yield Forge(directory, forks)
    forks.stop()
    remove_directory(directory)


@pytest.fixture(scope="module")
def forge() -> Iterator[Forge]:
    with new_forge() as forge:
        yield forge


def told_by(process: subprocess.Popen[str], status: int = 0) -> dict[str, object]:
    output, errors = process.communicate("what was typed", timeout=60)
    assert (process.returncode, errors) == (status, "a word\n")
    told = json.loads(output)
    assert isinstance(told, dict)
    return told


def test_process_is_as_if_python_had_been_started_for_it(forge: Forge) -> None:
    told = told_by(forge.launch("telling", "3", "x y", VARIABLE="a\n\udcff"), status=3)
    assert told["name"] == "__main__"
    assert told["argv"] == ["3", "x y"]
    assert told["orig_argv"] == ["-m", "telling", "3", "x y"]
    assert told["variable"] == "a\n\udcff"
    assert told["directory"] == str(forge.directory)
    assert told["path"] == [str(forge.directory), str(forge.directory / "modules")]
    assert told["input"] == "what was typed"


def test_processes_asked_for_at_once_are_all_forked_and_draw_numbers_of_their_own(
    forge: Forge,
) -> None:
    launched = [forge.launch("telling", "0") for _ in range(20)]
    told = [told_by(process) for process in launched]
    assert len({str(each["pid"]) for each in told}) == 20
    assert len({str(each["drawn"]) for each in told}) == 20
    wait_for(lambda: forge.forked() == [], "nothing is left of them")


def test_process_that_dies_of_a_signal_is_seen_to_die_of_it(forge: Forge) -> None:
    with forge.launch("sleeping", "9") as launcher:
        assert launcher.wait(60) == -9


def test_process_ends_when_spark_ends_what_it_takes_for_it(forge: Forge) -> None:
    with forge.launch("sleeping") as launcher:
        assert launcher.stdout is not None
        pid = int(launcher.stdout.readline())
        assert pid in forge.forked()
        launcher.send_signal(SIGTERM)
        wait_for(lambda: find_process(pid) is None, "it has ended, and was waited for")
    assert told_by(forge.launch("telling", "0"))  # the server goes on


def test_nothing_outlives_the_server() -> None:
    with new_forge() as forge, forge.launch("sleeping") as launcher:
        assert launcher.stdout is not None
        pid = int(launcher.stdout.readline())
        forge.forks.stop()
        assert launcher.wait(60) == 1
        assert living_family(pid) == []  # however long the machine keeps its number


def test_python_itself_is_started_where_there_is_no_server_any_more() -> None:
    with new_forge() as forge:
        kill_process(forge.server.pid)
        launcher = forge.launch("telling", "4")
        assert told_by(launcher, status=4)["pid"] == launcher.pid


def test_python_itself_is_started_for_what_is_no_module(forge: Forge) -> None:
    asked = [str(forge.forks.program), "-c", "import os; print(os.getpid())"]
    with subprocess.Popen(asked, stdout=subprocess.PIPE, text=True) as launcher:
        assert launcher.communicate(timeout=60)[0] == f"{launcher.pid}\n"


def test_stranger_on_the_socket_is_not_served_and_disturbs_nobody(forge: Forge) -> None:
    assert told_by(forge.launch("telling", "0"))
    for words in (b"", b"\x00\x00", b"\x00\x00\x00\x04what"):
        with socket.socket(socket.AF_UNIX) as stranger:
            stranger.connect(str(forge.directory / "forks.sock"))
            stranger.sendall(words)
    assert told_by(forge.launch("telling", "0"))


def test_program_is_python_where_nothing_can_be_executed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    forks = Forks.start(tmp_path)
    forks.stop()
    assert forks.program == Path(sys.executable)


JOURNEY = """
import gc, json, sys
from windrow.spark.forks.server import load

load()
before = set(sys.modules)
from windrow.graph.planning import Split
from windrow.graph.positions import Span
from windrow.graph.snapshot import ProcessorUid
from windrow.graph.staging import Outputs
from windrow.spark.chunks import rows_of, unpacked
from windrow.spark.query.encoding import Encoded
from windrow.spark.query.staged import StagedRows
from windrow.spark.queues.frames import decode_block
from windrow.spark.targets.journal_records import encode_rows

rows = StagedRows(ProcessorUid("g", "p"), Split((Span("q", "i", 0, 0, 1),)), 1, 10)
rows.add(0, 0, "ab" * 32, b"k", Outputs({"out": [Encoded(b"v")]}))
pieces = [piece for batch in rows.finish() for _, piece in unpacked(batch)]
decode_block(encode_rows(rows_of(pieces).present(), "w", 0), 0).columns()
print(json.dumps([sorted(set(sys.modules) - before), gc.get_freeze_count()]))
"""


def test_a_task_loads_nothing_that_its_worker_was_not_forked_with() -> None:
    """And what was loaded is not looked through for garbage after each task."""
    told = subprocess.run(
        [sys.executable, "-c", JOURNEY], check=True, capture_output=True, text=True
    ).stdout
    loaded, frozen = json.loads(told)
    assert loaded == []
    assert frozen > 50_000
