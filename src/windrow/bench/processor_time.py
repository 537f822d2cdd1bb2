"""How much processor time a process has taken."""

from __future__ import annotations

import os
from pathlib import Path

_TICK = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int, *, with_ended_children: bool = False) -> float:
    """Seconds of processor time of one process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    last = 15 if with_ended_children else 13
    return sum(int(value) for value in fields[11:last]) / _TICK
