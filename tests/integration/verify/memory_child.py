"""Compare made-up records in a process of its own, and tell what memory it took.

Run as ``python -m tests.integration.verify.memory_child RECORDS KEYS MEMORY``.
"""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from windrow.verify import compare
from windrow.verify.columns.batches import make_batch

BATCH = 50_000


class MadeUp:
    """So many records, without the one in the middle if it is to be missing."""

    def __init__(self, records: int, keys: int, *, lacks_one: bool = False) -> None:
        self.records, self.keys, self.lacks_one = records, keys, lacks_one

    def batches(self) -> Iterator[pa.RecordBatch]:
        for begin in range(0, self.records, BATCH):
            ids = np.arange(begin, min(begin + BATCH, self.records))
            if self.lacks_one:
                ids = ids[ids != self.records // 2]
            yield make_batch("made up", begin, pa.array(ids % self.keys), pa.array(ids))


def peak() -> float:
    """MiB, the most so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    records, keys, memory = map(int, sys.argv[1:])
    compare(MadeUp(10_000, 10), MadeUp(10_000, 10), memory=memory)  # loads and starts everything
    before = peak()
    found = compare(MadeUp(records, keys), MadeUp(records, keys, lacks_one=True), memory=memory)
    print(json.dumps({**found.to_json(), "before": before, "peak": peak()}))


if __name__ == "__main__":
    main()
