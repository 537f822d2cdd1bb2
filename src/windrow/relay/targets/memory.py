"""Memory as a target: what was delivered, for tests to look at."""

from __future__ import annotations

import threading
from collections import deque

from windrow.outbox.marked import Marked
from windrow.relay.failure import Failure, FailureKind
from windrow.relay.machine import Lane
from windrow.relay.targets.message import Malformed, headers_of


class MemoryTarget:
    """Keeps every record in the order in which it came, and acknowledges it at once.

    What no target could take is refused as any other would refuse it.
    """

    def __init__(self) -> None:
        self.records: list[Marked] = []
        self.acknowledged: deque[Lane] = deque()
        self.failed: deque[tuple[Lane, Failure]] = deque()
        self._settled = threading.Event()

    def beside(self) -> MemoryTarget:
        """Another that adds to the same records: for another shard."""
        other = MemoryTarget()
        other.records = self.records
        return other

    def open(self) -> None:
        """Nothing has to be connected."""

    def send(self, lanes: list[Lane]) -> None:
        """Keep the heads of these lanes."""
        for lane in lanes:
            try:
                headers_of(lane.head)
            except Malformed as error:
                failure = Failure(FailureKind.PERMANENT, "malformed", str(error))
                self.failed.append((lane, failure))
            else:
                self.records.append(lane.head)
                self.acknowledged.append(lane)
        self._settled.set()

    def poll(self, timeout: float) -> int:
        """Wait for something to have settled."""
        settled = self._settled.wait(timeout)
        self._settled.clear()
        return int(settled)

    def close(self, timeout: float) -> int:
        """Nothing is ever on its way."""
        return 0
