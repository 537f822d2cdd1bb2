"""A child process that never outlives its parent.

The child waits for a line before it becomes the program asked for. By then the reaper knows it, so
there is no moment at which the parent can be killed and leave it behind.
"""

from __future__ import annotations

import glob
import os
import pwd
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from signal import SIGTERM, Signals

from windrow.embedded.errors import NotRunning
from windrow.embedded.groups import (
    all_processes,
    family_of,
    find_process,
    kill_family,
    living_family,
    pause_family,
    resume_family,
)
from windrow.embedded.reaper import reaper
from windrow.errors import NotInstalled, StartFailed

_AWAIT_LINE = 'read -r line && exec "$@" </dev/null'
_TAIL_BYTES = 65536


class Child:
    """A child process in a process group of its own, ended with its parent whatever happens."""

    def __init__(self, name: str, popen: subprocess.Popen[bytes], log: Path) -> None:
        self.name, self.pid, self.log = name, popen.pid, log
        self._popen = popen
        # Held while signalling: once waited for, the pid may belong to a stranger.
        self._lock = threading.RLock()

    @classmethod
    def start(
        cls,
        name: str,
        argv: Sequence[str],
        *,
        cwd: Path,
        log: Path,
        env: Mapping[str, str] | None = None,
        user: str | None = None,
    ) -> Child:
        """Start ``argv``; its output is added to the end of ``log``.

        Args:
            name: What to call it in errors.
            argv: The program by its full path, and its arguments.
            cwd: Where it runs.
            log: Takes standard output and standard error.
            env: Added to our own environment.
            user: Whom to run it as, if we are root; see ``unprivileged_user``.
        """
        with log.open("ab") as output:
            popen = subprocess.Popen(
                ["/bin/sh", "-c", _AWAIT_LINE, name, *argv],
                cwd=cwd,
                env={**os.environ, **(env or {})},
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                user=user,
                group=None if user is None else pwd.getpwnam(user).pw_gid,
                extra_groups=None if user is None else [],
            )
        child = cls(name, popen, log)
        child._guard_and_let_go()
        return child

    def _guard_and_let_go(self) -> None:
        process = find_process(self.pid)
        assert process is not None, "not waited for, so it is in the table"
        reaper.guard_group(self.pid, process.start_time)
        assert self._popen.stdin is not None
        try:
            with self._popen.stdin as pipe:
                pipe.write(b"\n")
        except BrokenPipeError:
            return  # it has ended already; wait_until says so

    def is_alive(self) -> bool:
        """Whether the process itself runs; what it started may outlive it until ``kill``."""
        with self._lock:
            return self._popen.returncode is None and self._peek() is None

    def _peek(self) -> os.waitid_result | None:
        """How it ended, without waiting for it: its pid stays reserved until ``kill``."""
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)

    def stop(self, timeout: float = 10.0, signal: Signals = SIGTERM) -> None:
        """Ask it to end, wait so long, then kill what is left of it. Does nothing the second time.

        Args:
            timeout: Seconds it may take.
            signal: What asks it to end; sent to the process itself, not to its group.
        """
        with self._lock:
            if self.is_alive():
                os.kill(self.pid, signal)
                resume_family(self.pid)  # a paused process would never take the signal
        deadline = time.monotonic() + timeout
        while self.is_alive() and time.monotonic() < deadline:
            time.sleep(0.01)  # a look reaps it: to wait in one call would not end in time
        self.kill()

    def kill(self) -> None:
        """SIGKILL the whole family and wait for its end. Does nothing the second time."""
        with self._lock:
            if self._popen.returncode is None:
                kill_family(self.pid)
                self._popen.wait()
                reaper.release_group(self.pid)

    def wait(self, timeout: float) -> int:
        """Wait for it to end by itself and return its exit status, negative for a signal.

        Raises:
            TimeoutError: It did not end within so many seconds; it goes on.
        """
        deadline = time.monotonic() + timeout
        while self.is_alive():
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.name} did not end within {timeout:g} s")
            time.sleep(0.01)  # a look reaps it: to wait in one call would not end in time
        self.kill()
        return self._popen.returncode

    def pause(self) -> None:
        """SIGSTOP the whole family; returns when it stands still.

        Raises:
            NotRunning: It has ended.
        """
        with self._lock:
            self._check_alive()
            pause_family(self.pid)

    def resume(self) -> None:
        """SIGCONT the whole family.

        Raises:
            NotRunning: It has ended.
        """
        with self._lock:
            self._check_alive()
            resume_family(self.pid)

    def _check_alive(self) -> None:
        if not self.is_alive():
            raise NotRunning(self.name, self.pid)

    def wait_until(self, ready: Callable[[], bool], deadline: float, what: str) -> None:
        """Ask ``ready`` again and again until it says yes.

        Args:
            ready: Whether it has come up; must not raise for "not yet".
            deadline: Seconds to allow, from now.
            what: What is waited for, as the end of "did not … within 30 s": "listen on port 9092".

        Raises:
            StartFailed: The process ended, or time ran out; the tail of its log is in the error.
        """
        end = time.monotonic() + deadline
        while not ready():
            if not self.is_alive():
                raise StartFailed(self.name, self._how_it_ended(), self.log_tail())
            if time.monotonic() > end:
                reason = f"it did not {what} within {deadline:g} s"
                raise StartFailed(self.name, reason, self.log_tail())
            time.sleep(0.02)

    def _how_it_ended(self) -> str:
        with self._lock:
            end = None if self._popen.returncode is not None else self._peek()
        if end is None:
            return "it was stopped meanwhile"
        if end.si_code == os.CLD_EXITED:
            return f"it ended with exit status {end.si_status}"
        return f"it was ended by {Signals(end.si_status).name}"

    def log_tail(self, lines: int = 20) -> str:
        """The last lines it wrote."""
        with self.log.open("rb") as log:
            log.seek(max(0, self.log.stat().st_size - _TAIL_BYTES))
            written = log.read().decode(errors="replace").splitlines()
        return "\n".join(written[-lines:])


def run_program(
    name: str,
    argv: Sequence[str],
    *,
    cwd: Path,
    log: Path,
    env: Mapping[str, str] | None = None,
    user: str | None = None,
    timeout: float = 60.0,
) -> None:
    """Run a program that prepares a service, to its end.

    Raises:
        StartFailed: It failed or took longer than ``timeout`` seconds.
    """
    child = Child.start(name, argv, cwd=cwd, log=log, env=env, user=user)
    try:
        status = child.wait(timeout)
    except TimeoutError as error:
        raise StartFailed(name, str(error), child.log_tail()) from error
    finally:
        child.kill()
    if status != 0:
        raise StartFailed(name, f"it ended with exit status {status}", child.log_tail())


def kill_process(pid: int) -> None:
    """SIGKILL any process and what it started, and wait for their end.

    Raises:
        NotRunning: There is no such process.
    """
    _check_running(pid)
    kill_family(pid)


def pause_process(pid: int) -> None:
    """SIGSTOP any process and what it started.

    Raises:
        NotRunning: There is no such process.
    """
    _check_running(pid)
    pause_family(pid)


def resume_process(pid: int) -> None:
    """SIGCONT any process and what it started.

    Raises:
        NotRunning: There is no such process.
    """
    _check_running(pid)
    resume_family(pid)


def _check_running(pid: int) -> None:
    if not living_family(pid):
        raise NotRunning("process", pid)


def groups_below(pid: int) -> set[int]:
    """The process groups of all that this process started, its own group left out."""
    processes = all_processes()
    family = family_of(pid, processes)
    own = {p.group for p in family if p.pid == pid}
    return {p.group for p in family} - own


def unprivileged_user(*preferred: str) -> str | None:
    """Whom to run a server as that refuses to run as root: nobody in particular, if not root.

    Returns:
        None if we are not root; else the first of ``preferred`` that exists, or ``nobody``.
    """
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    return next((name for name in preferred if name in known), "nobody")


def find_program(name: str, package: str, *also: str) -> Path:
    """Where a program of the machine is.

    Args:
        name: The program.
        package: The Debian package that brings it.
        also: Directories to look in besides ``PATH``; with wildcards the highest version wins.

    Raises:
        NotInstalled: It is nowhere; the error says what to install.
    """
    found = shutil.which(name)
    if found is not None:
        return Path(found)
    for pattern in also:
        for directory in sorted(glob.glob(pattern), key=_by_version, reverse=True):
            found = shutil.which(name, path=directory)
            if found is not None:
                return Path(found)
    raise NotInstalled(name, package)


def _by_version(path: str) -> list[tuple[int, str]]:
    return [(int(digits or 0), text) for text, digits in re.findall(r"(\D*)(\d*)", path)]
