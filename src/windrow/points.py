"""Named places at which a process can be made to wait, so that a test can strike right there.

A process passes its points by; one whose environment names a directory in ``WINDROW_POINTS`` stops
at a point for as long as the file ``<point>.wanted`` lies in it. Without the variable a point costs
a call of an empty function, and is on no path that is walked per record.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

VARIABLE = "WINDROW_POINTS"
PATIENCE = 60.0


class Points:
    """Both sides of the points of one process: its own, and that of whoever wants it to wait."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def pass_by(self, point: str) -> None:
        """The process's side: go on, unless somebody wants us to wait here."""
        wanted, reached = self._files(point)
        if wanted.exists():
            reached.touch()
            _wait_until(lambda: not wanted.exists(), f"{point} is released")

    def reach(self, point: str) -> None:
        """The other side: return when the process waits there."""
        wanted, reached = self._files(point)
        reached.unlink(missing_ok=True)
        wanted.touch()
        _wait_until(reached.exists, f"{point} is reached")

    def release(self, point: str) -> None:
        """The other side: let the process go on."""
        wanted, _ = self._files(point)
        wanted.unlink(missing_ok=True)

    def _files(self, point: str) -> tuple[Path, Path]:
        return self.directory / f"{point}.wanted", self.directory / f"{point}.reached"


def _wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {PATIENCE:g} s: {what}")
        time.sleep(0.001)


def _ignore(point: str) -> None:
    """Nobody wants this process to wait anywhere."""


pass_by: Callable[[str], None] = (
    Points(Path(os.environ[VARIABLE])).pass_by if os.environ.get(VARIABLE) else _ignore
)
"""Pass a point of this process by."""
