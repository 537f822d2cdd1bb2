"""What is left of children and directories once their parent has ended: nothing."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fixtures.processes import FAMILY, eventually, is_gone
from windrow.embedded.directory import create_directory, remove_directory
from windrow.embedded.groups import find_process
from windrow.embedded.process import kill_process
from windrow.embedded.reaper import Reaper, reaper

PARENT = """
import sys, time
from pathlib import Path
from windrow.embedded.directory import create_directory
from windrow.embedded.process import Child
from windrow.embedded.reaper import reaper
directory = create_directory("test")
child = Child.start("family", ["/bin/sh", "-c", {script!r}], cwd=directory, log=directory / "log")
child.wait_until((directory / "inner").exists, 10, "write its child's pid")
print(directory, child.pid, reaper.pid, flush=True)
{then}
"""


class Parent:
    """Another Python, with a child that has a child, and a directory."""

    def __init__(self, then: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", PARENT.format(script=FAMILY, then=then)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        directory, child, helper = self.process.stdout.readline().split()
        self.directory = Path(directory)
        inner = int((self.directory / "inner").read_text())
        found = (find_process(pid) for pid in (int(child), inner, int(helper)))
        self.started = [process for process in found if process is not None]
        assert len(self.started) == 3

    def has_left_nothing(self) -> bool:
        return not self.directory.exists() and all(is_gone(p) for p in self.started)

    def __enter__(self) -> Parent:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.mark.proves("nothing-left-behind")
def test_sigkilled_parent_leaves_no_process_and_no_directory() -> None:
    with Parent("time.sleep(1000)") as parent:
        parent.process.kill()
        parent.process.wait()
        assert eventually(parent.has_left_nothing)


@pytest.mark.proves("nothing-left-behind")
def test_parent_killed_with_its_whole_family_leaves_no_directory() -> None:
    """The reaper is no member of the family: it would not be left to clear up."""
    with Parent("time.sleep(1000)") as parent:
        kill_process(parent.process.pid)
        assert eventually(parent.has_left_nothing)


@pytest.mark.parametrize("then", ["", "raise SystemExit(3)"], ids=["end", "exit"])
def test_parent_that_just_ends_has_left_nothing_when_it_is_gone(then: str) -> None:
    with Parent(then) as parent:
        parent.process.wait(20)
        assert parent.has_left_nothing()


def test_parent_stopped_by_sigterm_leaves_nothing() -> None:
    with Parent("time.sleep(1000)") as parent:
        parent.process.send_signal(signal.SIGTERM)
        assert parent.process.wait(20) == -signal.SIGTERM
        assert eventually(parent.has_left_nothing)


def test_process_forked_by_the_parent_does_not_hold_the_reaper_back() -> None:
    fork = "import os\npid = os.fork()\nif pid: print(pid, flush=True)\ntime.sleep(1000)"
    with Parent(fork) as parent:
        assert parent.process.stdout is not None
        forked = find_process(int(parent.process.stdout.readline()))
        assert forked is not None
        try:
            os.kill(parent.process.pid, signal.SIGKILL)
            assert eventually(parent.has_left_nothing)
            assert not is_gone(forked)
        finally:
            os.kill(forked.pid, signal.SIGKILL)


def test_service_started_in_a_thread_outlives_the_thread() -> None:
    """What PR_SET_PDEATHSIG would get wrong."""
    then = """
import threading
def start():
    global late
    late = Child.start("late", ["/bin/sleep", "1000"], cwd=directory, log=directory / "log")
thread = threading.Thread(target=start)
thread.start(); thread.join()
time.sleep(0.3)
print(late.is_alive(), late.pid, flush=True)
time.sleep(1000)
"""
    with Parent(then) as parent:
        assert parent.process.stdout is not None
        is_alive, pid = parent.process.stdout.readline().split()
        late = find_process(int(pid))
        assert is_alive == "True"
        assert late is not None
        parent.process.kill()
        assert eventually(lambda: parent.has_left_nothing() and is_gone(late))


def test_reaper_leaves_alone_what_was_released_and_a_pid_in_use_again(tmp_path: Path) -> None:
    """A wrong start time stands for another process under a number that was ours once."""
    released, reused, guarded = (subprocess.Popen(["/bin/sleep", "1000"]) for _ in range(3))
    kept, removed = tmp_path / "kept", tmp_path / "removed"
    kept.mkdir()
    removed.mkdir()
    mine = Reaper()
    try:
        for popen, lie in ((released, 0), (reused, 1), (guarded, 0)):
            process = find_process(popen.pid)
            assert process is not None
            mine.guard_group(popen.pid, process.start_time + lie)
        mine.guard_directory(kept)
        mine.guard_directory(removed)
        mine.release_group(released.pid)
        mine.release_directory(kept)
        mine.close()
        assert guarded.wait(10) == -signal.SIGKILL
        assert (released.poll(), reused.poll()) == (None, None)
        assert (kept.exists(), removed.exists()) == (True, False)
    finally:
        for popen in (released, reused, guarded):
            popen.kill()
            popen.wait()


def test_a_killed_reaper_is_replaced_by_one_that_knows_everything(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    mine = Reaper()
    mine.guard_directory(first)
    killed = mine.pid
    assert killed is not None
    process = find_process(killed)
    assert process is not None
    os.kill(killed, signal.SIGKILL)
    assert eventually(lambda: is_gone(process))
    mine.guard_directory(second)
    assert mine.pid != killed
    mine.close()
    assert not first.exists()
    assert not second.exists()


def _tell_reapers(directory: Path, answers: multiprocessing.Queue[int | None]) -> None:
    answers.put(reaper.pid)
    reaper.guard_directory(directory)
    answers.put(reaper.pid)
    reaper.close()


def test_forked_python_gets_a_reaper_of_its_own(tmp_path: Path) -> None:
    directory = create_directory("test")
    try:
        context = multiprocessing.get_context("fork")
        answers: multiprocessing.Queue[int | None] = context.Queue()
        worker = context.Process(target=_tell_reapers, args=(tmp_path / "x", answers))
        worker.start()
        inherited, own = answers.get(timeout=10), answers.get(timeout=10)
        worker.join(10)
        assert inherited is None
        assert own not in (None, reaper.pid)
        assert directory.exists()
    finally:
        remove_directory(directory)
