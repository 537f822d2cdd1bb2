"""How much memory does the driver hold: its JVM and this process?"""

from __future__ import annotations

import os
from pathlib import Path

from windrow.extras import require

_PAGE = os.sysconf("SC_PAGE_SIZE")


def resident_bytes() -> int:
    """Of this process and of the JVM after a collection of its garbage."""
    context = require("pyspark").SparkContext
    context._jvm.System.gc()
    return sum(_resident(pid) for pid in (os.getpid(), context._gateway.proc.pid))


def _resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
