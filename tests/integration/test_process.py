"""Children and their families, with real processes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.fixtures.processes import FAMILY, eventually, is_gone
from windrow.embedded.directory import create_directory, remove_directory
from windrow.embedded.errors import NotRunning
from windrow.embedded.groups import Process, find_process, living_family
from windrow.embedded.process import (
    Child,
    groups_below,
    kill_process,
    pause_process,
    resume_process,
    run_program,
)
from windrow.errors import StartFailed

COUNT = "i=0; while :; do i=$((i + 1)); echo $i > count.new; mv count.new count; done"


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[str], Child]]:
    """Start a shell script as a child; it is gone after the test."""
    children: list[Child] = []

    def start_script(script: str) -> Child:
        argv = ["/bin/sh", "-c", script]
        children.append(Child.start("script", argv, cwd=tmp_path, log=tmp_path / "log"))
        return children[-1]

    yield start_script
    for child in children:
        child.kill()


def start_family(start: Callable[[str], Child], directory: Path) -> tuple[Child, list[Process]]:
    child = start(FAMILY)
    child.wait_until((directory / "inner").exists, 10, "write its child's pid")
    # The inner process is the shell's child before it is a session of its own.
    inner = int((directory / "inner").read_text())
    assert eventually(lambda: os.getsid(inner) == inner)
    return child, living_family(child.pid)


def test_child_leads_a_group_and_session_of_its_own(start: Callable[[str], Child]) -> None:
    child = start("exec sleep 1000")
    process = find_process(child.pid)
    assert process is not None
    assert process.group == process.session == child.pid != os.getpgrp()
    assert child.is_alive()
    assert child.pid in groups_below(os.getpid())


def test_child_has_nothing_to_read_and_no_file_of_ours(
    start: Callable[[str], Child], tmp_path: Path
) -> None:
    secret = os.open(tmp_path, os.O_RDONLY)
    os.set_inheritable(secret, True)
    try:
        child = start("ls -l /proc/self/fd; cat; echo end")
        child.wait_until(lambda: not child.is_alive(), 10, "end")
    finally:
        os.close(secret)
    assert "0 -> /dev/null" in child.log_tail()
    assert child.log_tail().endswith("end")
    assert str(tmp_path) + "\n" not in child.log_tail() + "\n"


def test_child_gets_our_environment_and_what_is_added(tmp_path: Path) -> None:
    child = Child.start(
        "env",
        ["/bin/sh", "-c", "echo $PATH $ADDED"],
        cwd=tmp_path,
        log=tmp_path / "log",
        env={"ADDED": "here"},
    )
    assert child.wait(10) == 0
    assert child.log_tail() == f"{os.environ['PATH']} here"


def test_program_that_ends_at_once_fails_to_start_with_its_last_words(
    start: Callable[[str], Child],
) -> None:
    child = start("seq 100; echo the disk is full >&2; exit 3")
    with pytest.raises(StartFailed, match="exit status 3") as caught:
        child.wait_until(lambda: False, 10, "answer")
    assert caught.value.log_tail.splitlines()[-2:] == ["100", "the disk is full"]
    assert len(caught.value.log_tail.splitlines()) == 20


def test_program_killed_while_it_starts_fails_with_the_signals_name(
    start: Callable[[str], Child],
) -> None:
    child = start("kill -KILL $$")
    with pytest.raises(StartFailed, match="ended by SIGKILL"):
        child.wait_until(lambda: False, 10, "answer")


def test_program_that_never_answers_fails_when_its_time_is_up(
    start: Callable[[str], Child],
) -> None:
    with pytest.raises(StartFailed, match=r"it did not listen on port 1 within 0\.1 s"):
        start("exec sleep 1000").wait_until(lambda: False, 0.1, "listen on port 1")


def test_missing_program_fails_to_start_and_is_named(tmp_path: Path) -> None:
    with pytest.raises(StartFailed, match="/no/such/program"):
        run_program("nothing", ["/no/such/program"], cwd=tmp_path, log=tmp_path / "log")


def test_program_that_takes_too_long_is_killed(tmp_path: Path) -> None:
    before = groups_below(os.getpid())
    with pytest.raises(StartFailed, match="did not end within"):
        run_program("slow", ["/bin/sleep", "999"], cwd=tmp_path, log=tmp_path / "log", timeout=0.1)
    assert groups_below(os.getpid()) == before


def test_stop_lets_the_child_end_in_its_own_way(
    start: Callable[[str], Child], tmp_path: Path
) -> None:
    child = start("trap 'echo bye; exit 0' TERM; touch ready; while :; do sleep 0.01; done")
    child.wait_until((tmp_path / "ready").exists, 10, "get ready")
    child.stop()
    child.stop()
    assert not child.is_alive()
    assert child.log_tail() == "bye"


def test_stop_kills_a_child_that_does_not_listen(
    start: Callable[[str], Child], tmp_path: Path
) -> None:
    child = start("trap '' TERM; touch ready; while :; do sleep 0.01; done")
    child.wait_until((tmp_path / "ready").exists, 10, "get ready")
    began = time.monotonic()
    child.stop(timeout=0.2)
    assert not child.is_alive()
    assert 0.2 <= time.monotonic() - began < 5


def test_stop_reaches_a_paused_child(start: Callable[[str], Child], tmp_path: Path) -> None:
    child = start("trap 'echo bye; exit 0' TERM; touch ready; while :; do sleep 0.01; done")
    child.wait_until((tmp_path / "ready").exists, 10, "get ready")
    child.pause()
    child.stop()
    assert child.log_tail() == "bye"


def test_kill_ends_the_whole_family_in_other_sessions_too(
    start: Callable[[str], Child], tmp_path: Path
) -> None:
    child, family = start_family(start, tmp_path)
    assert len({process.session for process in family}) == 2
    child.kill()
    child.kill()
    assert all(is_gone(process) for process in family)
    assert not groups_below(os.getpid()) & {process.group for process in family}


def test_what_an_ended_child_left_in_its_group_is_killed_with_it(
    start: Callable[[str], Child], tmp_path: Path
) -> None:
    child = start("sleep 1000 & echo $! > inner")
    child.wait_until(lambda: not child.is_alive(), 10, "end")
    orphan = find_process(int((tmp_path / "inner").read_text()))
    assert orphan is not None
    child.kill()
    assert is_gone(orphan)


def test_paused_child_stands_still_until_resumed(
    start: Callable[[str], Child], tmp_path: Path
) -> None:
    def count() -> int:
        return int((tmp_path / "count").read_text())

    child = start(COUNT)
    child.wait_until((tmp_path / "count").exists, 10, "count")
    child.pause()
    stopped_at = count()
    assert not eventually(lambda: count() > stopped_at, patience=0.3)
    child.resume()
    assert eventually(lambda: count() > stopped_at)


def test_any_process_can_be_paused_resumed_and_killed_by_its_pid(
    start: Callable[[str], Child], tmp_path: Path
) -> None:
    child, family = start_family(start, tmp_path)

    def states() -> set[str]:
        return {process.state for process in living_family(child.pid)}

    pause_process(child.pid)
    assert states() == {"T"}
    resume_process(child.pid)
    assert eventually(lambda: "T" not in states())
    kill_process(child.pid)
    assert all(is_gone(process) for process in family)


def test_signals_to_what_is_not_running_are_refused(start: Callable[[str], Child]) -> None:
    child = start("exit 0")
    child.wait(10)
    for act in (child.pause, child.resume):
        with pytest.raises(NotRunning, match=str(child.pid)):
            act()
    with pytest.raises(NotRunning, match=str(child.pid)):
        kill_process(child.pid)


def test_log_is_added_to_and_its_tail_is_the_last_lines(tmp_path: Path) -> None:
    log = tmp_path / "log"
    for word in ("one", "two"):
        argv = ["/bin/echo", word]
        run_program("echo", argv, cwd=tmp_path, log=log)
    child = Child.start("echo", ["/bin/echo", "three"], cwd=tmp_path, log=log)
    child.wait(10)
    assert log.read_text() == "one\ntwo\nthree\n"
    assert child.log_tail(2) == "two\nthree"


def test_directory_is_private_and_removed() -> None:
    path = create_directory("test")
    assert path.stat().st_mode & 0o777 == 0o700
    (path / "file").touch()
    remove_directory(path)
    remove_directory(path)
    assert not path.exists()
