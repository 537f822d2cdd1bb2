"""The machine that a figure was measured on: without it a figure says nothing."""

from __future__ import annotations

import os
import platform
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Hardware:
    """The machine, and how busy it was when measuring began."""

    cpu: str
    cores: int
    memory_gib: float
    kernel: str
    python: str
    load: float

    @classmethod
    def here(cls) -> Hardware:
        """This machine, now."""
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return cls(
            cpu=_cpu_model(),
            cores=len(os.sched_getaffinity(0)),
            memory_gib=round(memory / 2**30, 1),
            kernel=platform.release(),
            python=platform.python_version(),
            load=round(os.getloadavg()[0], 2),
        )

    @property
    def kind(self) -> str:
        """What it has in common with machines on which a figure should come out the same."""
        return f"{self.cpu}, {self.cores} cores"

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)

    def __str__(self) -> str:
        return (
            f"{self.kind}, {self.memory_gib:g} GiB, Linux {self.kernel},"
            f" Python {self.python}, load {self.load:g} at the start"
        )


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.machine()  # some architectures do not name the model
