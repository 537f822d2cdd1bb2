"""Run ``windrow`` with a calendar that is wrong: ``python -m windrow.chaos.skewed_clock 3600 …``.

The calendar alone is moved, as a machine that has never heard of NTP does it: waiting and deadlines
go by the monotonic clock, which has no opinion on the date.
"""

from __future__ import annotations

import runpy
import sys
import time


def skew(seconds: float) -> None:
    """Move this process's calendar; modules that ask for the time later see it moved."""
    honest, honest_ns = time.time, time.time_ns
    time.time = lambda: honest() + seconds
    time.time_ns = lambda: honest_ns() + round(seconds * 1e9)


if __name__ == "__main__":
    skew(float(sys.argv.pop(1)))
    # By its name, and only now: it may keep the function it finds.
    runpy.run_module("windrow", run_name="__main__", alter_sys=True)
