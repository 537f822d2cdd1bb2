"""Did every hero arrive, once and in order? Asked of ``windrow verify``, a process of its own.

It is told where the service's table is and where the end of the road, and reads nothing else: what
the demo itself believes to have happened plays no part.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from windrow.demo.errors import NoVerdict

COMMAND = "windrow verify"
TIMEOUT = 120.0
JUDGED = (0, 1)
"""How ``windrow verify`` ends when it has come to a verdict."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was written against what arrived at one end of the road."""

    end: str
    written: int
    delivered: int
    lost: int
    doubled: int
    misordered: int
    unexpected: int
    is_clean: bool

    def __str__(self) -> str:
        return (
            f"written {self.written}, delivered {self.delivered}, lost {self.lost},"
            f" doubled {self.doubled}, misordered {self.misordered}"
            + (f", unexpected {self.unexpected}" if self.unexpected else "")
            + f": {'clean' if self.is_clean else 'BROKEN'}"
        )


def ask_verdict(end: str, arguments: Sequence[str], directory: Path) -> Verdict:
    """Have it counted, and take the word of who counted.

    Args:
        end: Which end of the road it is.
        arguments: Of ``windrow verify``: what to hold against what.
        directory: Where the configuration lies.

    Raises:
        NoVerdict: It failed before there was one.
    """
    argv = [sys.executable, "-m", "windrow", "verify", *arguments, "--json"]
    try:
        run = subprocess.run(
            argv,
            cwd=directory,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
        )
    except subprocess.TimeoutExpired as error:
        raise NoVerdict(COMMAND, f"none within {TIMEOUT:g} s") from error
    if run.returncode not in JUDGED or not run.stdout:
        raise NoVerdict(COMMAND, run.stderr.strip() or f"it ended with {run.returncode}")
    return read_verdict(end, run.stdout, run.returncode)


def read_verdict(end: str, printed: str, status: int) -> Verdict:
    """What ``windrow verify`` printed; clean only if it also ended as such.

    Raises:
        NoVerdict: It is none.
    """
    try:
        told = json.loads(printed)
        missing = told["missing"]
        return Verdict(
            end=end,
            written=told["written"],
            delivered=told["written"] - missing,
            lost=missing,
            doubled=told["doubled"],
            misordered=told["misordered"],
            unexpected=told["unexpected"],
            is_clean=told["clean"] is True and status == 0,
        )
    except (ValueError, KeyError, TypeError) as error:
        raise NoVerdict(COMMAND, f"not a verdict: {error!r}") from error
