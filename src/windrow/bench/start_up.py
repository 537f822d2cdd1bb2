"""Part ``cli``: how long ``windrow --help`` takes, from nothing to the prompt."""

from __future__ import annotations

import subprocess
import sys
import time

from windrow.bench.measurement import Figure, at_most
from windrow.bench.parts import Progress

_HELP = [
    sys.executable,
    "-c",
    "from windrow.cli.main import main; raise SystemExit(main())",
    "--help",
]


def measure(quick: bool, progress: Progress) -> list[Figure]:
    """Start it again and again."""
    repeats = 5 if quick else 21
    _start_once()  # the first one reads from the disk and compiles
    values: list[float] = []
    for n in range(repeats):
        progress(n / repeats, "starting windrow --help")
        values.append(_start_once())
    return [Figure("windrow --help start-up", "ms", tuple(values), at_most(400))]


def _start_once() -> float:
    began = time.perf_counter()
    subprocess.run(_HELP, stdout=subprocess.DEVNULL, check=True)
    return (time.perf_counter() - began) * 1000
