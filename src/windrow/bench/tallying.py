"""How many records per second ``tally`` compares, on one core: a share of part ``verify``."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from windrow.bench.measurement import Figure, at_least
from windrow.bench.parts import Progress
from windrow.verify.ledger import Ledger, LedgerFile
from windrow.verify.tally import Arrival, Entry, tally

KEYS = 1000
BATCH = 100


def measure(quick: bool, progress: Progress) -> list[Figure]:
    """Compare as many records of 1,000 keys, from memory and from a ledger on disk."""
    count, repeats = (100_000, 3) if quick else (1_000_000, 7)
    written = [Entry(f"key-{n % KEYS}", n) for n in range(count)]
    arrived: list[Arrival] = [(entry.key, entry.id) for entry in written]
    with tempfile.TemporaryDirectory(prefix="windrow-bench-") as directory:
        path = Path(directory) / "ledger"
        progress(0.0, "writing a ledger")
        with Ledger(path) as ledger:
            for start in range(0, count, BATCH):
                ledger.maybe(arrived[start : start + BATCH])
                ledger.written(arrived[start : start + BATCH])
        in_memory: list[float] = []
        from_disk: list[float] = []
        for n in range(repeats):
            progress(n / repeats, f"comparing {count:,} records")
            in_memory.append(_rate(written, arrived))
            from_disk.append(_rate(LedgerFile(path), arrived))
    return [
        Figure("records compared by tally", "records/s", tuple(in_memory), at_least(200_000)),
        Figure("records compared by tally, ledger read from disk", "records/s", tuple(from_disk)),
    ]


def _rate(written: Iterable[Entry], arrived: list[Arrival]) -> float:
    began = time.perf_counter()
    verdict = tally(written, arrived)
    rate = len(arrived) / (time.perf_counter() - began)
    assert verdict.is_clean, "a comparison that is wrong is not worth timing"
    return rate
