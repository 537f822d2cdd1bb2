"""Which parts can be measured, and measuring one.

A part is a module with ``measure(quick, progress)``, imported only when it is asked for: the parts
need different extras.
"""

from __future__ import annotations

import difflib
import importlib
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from windrow.bench.errors import TooSlow, UnknownPart
from windrow.bench.hardware import Hardware
from windrow.bench.measurement import Figure, Measurement

PARTS = {
    "cli": "windrow.bench.start_up",
    "competing": "windrow.bench.competing",
    "graph": "windrow.bench.graph",
    "journal": "windrow.bench.journal",
    "relay": "windrow.bench.relay",
    "verify": "windrow.bench.verifying",
}
"""The parts by name, each with its module."""

QUICK_LIMIT = 45.0
"""Seconds that a part may take with ``--quick``."""

Progress = Callable[[float, str], None]
"""Told how much of a part is done, from 0 to 1, and what comes next."""

Measure = Callable[[bool, Progress], list[Figure]]


def find_measure(part: str) -> Measure:
    """The function that measures a part.

    Raises:
        UnknownPart: There is no such part; the error names the nearest.
    """
    module = PARTS.get(part)
    if module is None:
        nearest = difflib.get_close_matches(part, PARTS, n=1)
        raise UnknownPart(part, tuple(PARTS), nearest[0] if nearest else None)
    measure: Measure = importlib.import_module(module).measure
    return measure


def run_part(part: str, *, quick: bool, progress: Progress) -> list[Measurement]:
    """Measure one part on this machine.

    Raises:
        UnknownPart: There is no such part.
        TooSlow: It was to be quick, and was not; it was broken off.
    """
    measure = find_measure(part)
    command = f"windrow bench {part}{' --quick' if quick else ''}"
    hardware = Hardware.here()
    if quick:
        with _time_limit(part, QUICK_LIMIT):
            figures = measure(quick, progress)
    else:
        figures = measure(quick, progress)
    return [Measurement(figure, command, hardware) for figure in figures]


@contextmanager
def _time_limit(part: str, seconds: float) -> Iterator[None]:
    """Break off after so long, with an exception, so that whatever was started is ended."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals reach the main thread only
        return

    def give_up(_signal: int, _frame: FrameType | None) -> None:
        raise TooSlow(part, seconds)

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
