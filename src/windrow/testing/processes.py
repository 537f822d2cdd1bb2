"""Whether a process is there to suffer a fault."""

from __future__ import annotations

from typing import Protocol

from windrow.embedded.groups import Process, find_process

STOPPED = "Tt"
ENDED = "ZXx"


class HasPid(Protocol):
    """A process of ours: ``subprocess.Popen``, or a service of ``windrow.embedded``."""

    @property
    def pid(self) -> int:
        """Its process id."""


def pid_of(process: HasPid | int) -> int:
    """The pid of a process, given as such or as an object that has one."""
    return process if isinstance(process, int) else process.pid


def find_living(pid: int) -> Process | None:
    """The process as it is now; None if there is none, or only its exit status is left of it."""
    process = find_process(pid)
    return None if process is None or process.state in ENDED else process


def is_dead(before: Process) -> bool:
    """Whether that very process, not another of its pid, has ended."""
    now = find_living(before.pid)
    return now is None or now.start_time != before.start_time


def is_paused(before: Process) -> bool:
    """Whether that very process exists and stands still."""
    now = find_living(before.pid)
    return now is not None and now.start_time == before.start_time and now.state in STOPPED
