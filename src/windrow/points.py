"""Named places at which a process can be struck, so that a test can strike right there.

A process passes its points by; one whose environment names a directory in ``WINDROW_POINTS`` looks
there for the file ``<point>.wanted``, which says what happens to whoever comes by:

- nothing (an empty file): everybody waits for as long as the file is there;
- ``{"act": "wait"}``, ``"raise"`` or ``"exit"``: only the ``nth`` to come waits, fails with
  `StruckDown` or is gone at once as by SIGKILL, and so do those behind it, ``times`` in all.

Passers-by are counted over all processes, so what is to happen once happens once, in whichever
process comes first. Whoever is struck leaves a line in ``<point>.reached`` that tells who it was.
Without the variable a point costs a call of an empty function, and is on no path that is walked per
record.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from windrow.errors import Failed

VARIABLE = "WINDROW_POINTS"
PATIENCE = 60.0

Act = Literal["wait", "raise", "exit"]


class StruckDown(Failed):
    """A test wanted this process to fail here."""

    def __init__(self, point: str, number: int) -> None:
        super().__init__(point, number)
        self.point, self.number = point, number

    def __str__(self) -> str:
        return f"struck down at {self.point}, as passer-by number {self.number}: a test wanted that"


@dataclass(frozen=True, slots=True)
class Strike:
    """What happens to whoever comes by: from the ``nth`` on, ``times`` in all; 0 is for ever."""

    act: Act
    nth: int = 1
    times: int = 1

    def hits(self, number: int) -> bool:
        """Whether the passer-by of that number, the first being 1, is struck."""
        return number >= self.nth and (not self.times or number < self.nth + self.times)


@dataclass(frozen=True, slots=True)
class Struck:
    """Who was struck.

    Attributes:
        pid: The process.
        program: What it runs, without the interpreter: ``-m pyspark.daemon pyspark.worker``.
        number: It was so many that came by.
    """

    pid: int
    program: str
    number: int = 0


class Points:
    """Both sides of the points of some processes: their own, and that of whoever strikes them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def pass_by(self, point: str) -> None:
        """The process's side: go on, unless somebody wants something else to happen here.

        Raises:
            StruckDown: That is what was wanted.
        """
        wanted = self._file(point, "wanted")
        try:
            content = wanted.read_bytes()
        except FileNotFoundError:
            return
        if not content:
            self._leave_word(point, 0)
            _wait_until(lambda: not wanted.exists(), f"{point} is released")
            return
        strike, number = Strike(**json.loads(content)), self._take_number(point)
        if strike.hits(number):
            self._leave_word(point, number)
            self._be_struck(point, strike.act, number)

    def reach(self, point: str) -> None:
        """The other side: have everybody wait there; returns when the first one does."""
        self._forget(point)
        self._file(point, "wanted").touch()
        self.wait_for(point)

    def want(self, point: str, strike: Strike) -> None:
        """The other side: strike whoever comes by, counting from now."""
        self._forget(point)
        # Under another name first: an empty file would mean something else.
        draft = self._file(point, "draft")
        draft.write_text(json.dumps(asdict(strike)))
        draft.rename(self._file(point, "wanted"))

    def wait_for(self, point: str, patience: float = PATIENCE) -> None:
        """The other side: return when somebody was struck there, or waits there."""
        _wait_until(lambda: bool(self.struck(point)), f"{point} is reached", patience)

    def release(self, point: str) -> None:
        """The other side: let everybody go on."""
        self._file(point, "wanted").unlink(missing_ok=True)

    def passed(self, point: str) -> int:
        """The other side: how many came by since the point was last wanted."""
        passed = self._file(point, "passed")
        return passed.stat().st_size if passed.exists() else 0

    def struck(self, point: str) -> list[Struck]:
        """The other side: who was struck there since it was last wanted, in order."""
        try:
            lines = self._file(point, "reached").read_text().splitlines()
        except FileNotFoundError:
            return []
        return [Struck(**json.loads(line)) for line in lines]

    def _be_struck(self, point: str, act: Act, number: int) -> None:
        wanted = self._file(point, "wanted")
        match act:
            case "wait":
                _wait_until(lambda: not wanted.exists(), f"{point} is released")
            case "raise":
                raise StruckDown(point, number)
            case "exit":
                os.kill(os.getpid(), signal.SIGKILL)

    def _take_number(self, point: str) -> int:
        """How many came by, this one included; no two are given the same number."""
        with self._file(point, "passed").open("ab", buffering=0) as passed:
            passed.write(b".")
            # The end of what this write appended, not of what others did since.
            return passed.tell()

    def _leave_word(self, point: str, number: int) -> None:
        struck = Struck(os.getpid(), " ".join(sys.orig_argv[1:]), number)
        with self._file(point, "reached").open("ab", buffering=0) as reached:
            reached.write(f"{json.dumps(asdict(struck))}\n".encode())

    def _forget(self, point: str) -> None:
        for kind in ("wanted", "passed", "reached"):
            self._file(point, kind).unlink(missing_ok=True)

    def _file(self, point: str, kind: str) -> Path:
        return self.directory / f"{point}.{kind}"


def _wait_until(condition: Callable[[], bool], what: str, patience: float = PATIENCE) -> None:
    deadline = time.monotonic() + patience
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {patience:g} s: {what}")
        time.sleep(0.001)


def _ignore(point: str) -> None:
    """Nobody wants anything of this process."""


pass_by: Callable[[str], None] = (
    Points(Path(os.environ[VARIABLE])).pass_by if os.environ.get(VARIABLE) else _ignore
)
"""Pass a point of this process by."""
