"""End child processes and remove their directories once their parent is gone, however it went.

One small helper process per parent reads from a pipe which children and directories are guarded.
When the parent ends, by SIGKILL too, the kernel closes the pipe; the helper reads to its end,
kills the families still guarded, removes the directories and ends itself.

Why not ``PR_SET_PDEATHSIG``? It fires when the *thread* that forked ends, not the process, so a
child started from a worker thread would die with that thread; the kernel clears it when the child
changes its user, as PostgreSQL's has to under root; and it removes no directory.

A child is named by its pid and its start time, so a number in use again is never hit. A guarded
child that had ended before its parent is not touched, nor is what it left behind.

The pipe must be held by the parent alone. It is closed on exec, and in processes forked by Python
(``multiprocessing``) right after the fork. A fork by C code that never calls exec keeps it open:
the helper then waits for that process as well.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterable
from pathlib import Path

from windrow.errors import StartFailed

Line = list[str | int]
"""A verb, a key and the facts, as ``reaper_program`` reads them."""

_PROGRAM = Path(__file__).with_name("reaper_program.py")


class Reaper:
    """The parent's end: what is guarded now, and the helper that knows it."""

    def __init__(self) -> None:
        self._guarded: dict[str, Line] = {}
        self._lock = threading.Lock()
        self._helper: _Helper | None = None

    @property
    def pid(self) -> int | None:
        """The helper's pid, once something was guarded."""
        return self._helper.pid if self._helper else None

    def guard_group(self, pid: int, start_time: int) -> None:
        """Kill this process and its family when we end."""
        self._guard(["group", f"group {pid}", pid, start_time])

    def release_group(self, pid: int) -> None:
        """Leave it alone from now on."""
        self._release(f"group {pid}")

    def guard_directory(self, path: Path) -> None:
        """Remove this directory when we end; it need not exist yet."""
        self._guard(["directory", f"directory {path}", str(path)])

    def release_directory(self, path: Path) -> None:
        """Leave it alone from now on."""
        self._release(f"directory {path}")

    def close(self) -> None:
        """Let the helper do its work now and wait for it."""
        with self._lock:
            helper, self._helper = self._helper, None
            self._guarded.clear()
        if helper is not None:
            helper.dismiss()

    def _guard(self, line: Line) -> None:
        with self._lock:
            self._guarded[str(line[1])] = line
            self._tell(line)

    def _release(self, key: str) -> None:
        with self._lock:
            if self._guarded.pop(key, None) is not None:
                self._tell(["release", key])

    def _tell(self, line: Line) -> None:
        if self._helper is None:
            self._helper = _Helper()
        try:
            self._helper.tell([line])
        except BrokenPipeError:
            # Somebody killed the helper. Its successor has to learn everything.
            self._helper.forget()
            self._helper = _Helper()
            self._helper.tell(self._guarded.values())

    def before_fork(self) -> None:
        """Let no thread be amid a line while another one forks."""
        self._lock.acquire()

    def after_fork_in_parent(self) -> None:
        """Go on."""
        self._lock.release()

    def after_fork_in_child(self) -> None:
        """Forget the parent's helper: it watches the parent alone."""
        if self._helper is not None:
            self._helper.forget()
        self._helper = None
        self._guarded.clear()
        self._lock.release()


class _Helper:
    """The helper process, by the two pipes that lead to it."""

    def __init__(self) -> None:
        read_end, self._lines = os.pipe()
        self._answer, write_end = os.pipe()
        launcher = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_PROGRAM)],
            stdin=read_end,
            stdout=write_end,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )
        os.close(read_end)
        os.close(write_end)
        greeting = os.read(self._answer, 32)
        launcher.wait()
        if not greeting:
            self.forget()
            raise StartFailed("reaper", f"{sys.executable} ended with {launcher.returncode}")
        self.pid = int(greeting)

    def tell(self, lines: Iterable[Line]) -> None:
        data = "".join(json.dumps(line) + "\n" for line in lines).encode()
        while data:
            data = data[os.write(self._lines, data) :]

    def dismiss(self) -> None:
        """End the lines, which is what it waits for, and wait until it has done its work."""
        os.close(self._lines)
        os.read(self._answer, 1)
        os.close(self._answer)

    def forget(self) -> None:
        os.close(self._lines)
        os.close(self._answer)


reaper = Reaper()
atexit.register(reaper.close)
os.register_at_fork(
    before=reaper.before_fork,
    after_in_parent=reaper.after_fork_in_parent,
    after_in_child=reaper.after_fork_in_child,
)
