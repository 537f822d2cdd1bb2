"""A process that changes a local store as fast as it can, and says what was acknowledged."""

from __future__ import annotations

import asyncio
import sys

from windrow.coordination.local import LocalStore
from windrow.coordination.store import Compare, Put

SLOTS = 7


async def main(directory: str) -> None:
    """Count on, and write each number to the counter and to one of several slots, together."""
    store = LocalStore(directory, compact_at=3_000)
    counter = next((kv for kv in (await store.load("counter")).kvs), None)
    number, revision = (int(counter.value), counter.mod_revision) if counter else (0, 0)
    while True:
        number += 1
        value = str(number).encode()
        ops = [Put("counter", value), Put(f"slot/{number % SLOTS}", value * 20)]
        result = await store.txn([Compare.mod_revision("counter", revision)], ops)
        assert result.succeeded
        revision = result.revision
        print(number, revision, flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
