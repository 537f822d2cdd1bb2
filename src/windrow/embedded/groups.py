"""Which processes belong to a child, and signals that reach all of them.

A process group alone does not hold a service together: every PostgreSQL backend opens a session,
and with it a group, of its own. A child's *family* is therefore its group, its session and
whatever descends from one of them.

This file imports the standard library only, since the reaper loads it by its path.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Iterable
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP, Signals
from typing import NamedTuple

_ENDED = "ZX"
_STOPPED = "TtZX"
_IPC_RMID = 0


class Process(NamedTuple):
    """One line of the kernel's table of processes."""

    pid: int
    parent: int
    group: int
    session: int
    state: str
    start_time: int
    """In ticks since the machine started: with the pid it names one process for good."""


def parse_stat(text: str) -> Process:
    """Read the content of ``/proc/<pid>/stat``."""
    # The program's name stands in brackets and may itself hold brackets and blanks.
    pid, _, rest = text.partition(" (")
    fields = rest.rpartition(")")[2].split()
    return Process(
        int(pid), int(fields[1]), int(fields[2]), int(fields[3]), fields[0], int(fields[19])
    )


def find_process(pid: int) -> Process | None:
    """The process of that number, which may have ended and not been waited for."""
    try:
        return parse_stat(Path(f"/proc/{pid}/stat").read_text(errors="replace"))
    except (FileNotFoundError, ProcessLookupError):
        return None


def all_processes() -> list[Process]:
    """Every process that can be seen from here."""
    found = (find_process(int(name)) for name in os.listdir("/proc") if name.isdigit())
    return [process for process in found if process is not None]


def family_of(leader: int, processes: Iterable[Process]) -> list[Process]:
    """The leader, its group, its session and all that descend from them, leaving out the ended."""
    processes = list(processes)
    family = {p.pid for p in processes if leader in (p.pid, p.group, p.session)}
    grown = True
    while grown:
        children = {p.pid for p in processes if p.parent in family} - family
        family |= children
        grown = bool(children)
    return [p for p in processes if p.pid in family and p.state not in _ENDED]


def living_family(leader: int) -> list[Process]:
    """The family as it is now."""
    return family_of(leader, all_processes())


def pause_family(leader: int) -> list[Process]:
    """SIGSTOP every member, those born meanwhile included; return them."""
    paused: dict[int, Process] = {}
    while born := [p for p in living_family(leader) if p.pid not in paused]:
        for process in born:
            # A process with a signal waiting for it cannot fork, so this comes to an end.
            send(process, SIGSTOP)
            paused[process.pid] = process
    _wait_for(paused.values(), _STOPPED, patience=1.0)
    return list(paused.values())


def resume_family(leader: int) -> None:
    """SIGCONT every member."""
    for process in living_family(leader):
        send(process, SIGCONT)


def kill_family(leader: int, patience: float = 10.0) -> None:
    """SIGKILL every member and wait until all have ended.

    They are stopped first, so that none lives on to see another one gone.
    """
    members = pause_family(leader)
    for process in members:
        send(process, SIGKILL)
    _wait_for(members, _ENDED, patience)
    _remove_shared_memory({process.pid for process in members})


def send(process: Process, signal: Signals) -> None:
    """Signal a process unless it is gone, or its number now belongs to another."""
    now = find_process(process.pid)
    if now is not None and now.start_time == process.start_time:
        try:
            os.kill(process.pid, signal)
        except ProcessLookupError:
            return  # ended since the look at it: there is nothing left to signal


def _wait_for(processes: Iterable[Process], states: str, patience: float) -> None:
    deadline = time.monotonic() + patience
    for process in processes:
        while time.monotonic() < deadline:
            now = find_process(process.pid)
            if now is None or now.start_time != process.start_time or now.state in states:
                break
            time.sleep(0.002)  # of a process that is not our child nobody tells us


def _remove_shared_memory(creators: set[int]) -> None:
    """Remove what killed processes could not: System V segments outlive whoever made them.

    PostgreSQL makes one for each server, and the machine has room for a limited number.
    """
    try:
        lines = Path("/proc/sysvipc/shm").read_text().splitlines()[1:]
    except FileNotFoundError:
        return  # a kernel without System V memory
    for fields in map(str.split, lines):
        segment, creator, attached = int(fields[1]), int(fields[4]), int(fields[6])
        if creator in creators and attached == 0:
            ctypes.CDLL(None).shmctl(segment, _IPC_RMID, None)
