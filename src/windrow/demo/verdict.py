"""Does an event exist exactly if its data does? Pure: counts in, verdict out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Verdict:
    """How many orders were committed and rolled back, and what is wrong with the outcome."""

    committed: int
    rolled_back: int
    lost: int
    """Committed orders that are not there, or have no event."""
    doubled: int
    """Events beyond the first of an order."""
    orphaned: int
    """Orders or events whose transaction was not committed."""

    @property
    def holds(self) -> bool:
        """Whether something was committed, and the events are exactly those of the orders."""
        return self.committed > 0 and not (self.lost or self.doubled or self.orphaned)


def judge(
    committed: Collection[str],
    rolled_back: Collection[str],
    orders: Collection[str],
    events: Collection[str],
) -> Verdict:
    """Compare what the writer did with what the database holds.

    Args:
        committed: Orders whose transaction was committed, by the writer's own account.
        rolled_back: Orders whose transaction was rolled back.
        orders: Orders found in the database.
        events: The order of each event found in the outbox.
    """
    counted = Counter(events)
    return Verdict(
        committed=len(committed),
        rolled_back=len(rolled_back),
        lost=sum(order not in orders or order not in counted for order in committed),
        doubled=sum(count - 1 for count in counted.values()),
        orphaned=len((set(orders) | set(counted)) - set(committed)),
    )
