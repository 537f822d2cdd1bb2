"""The rows that a competing relay holds, and until when. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum

from windrow.relay.competing.contract import Claim


class RowState(Enum):
    """How far a held row has come."""

    QUEUED = "queued"
    SENDING = "sending"
    ANSWERED = "answered"


class Lease:
    """What was leased by one statement: the rows of it still held, and when it ends at the latest.

    It is counted from before the statement was sent, so it ends here before it does elsewhere.
    """

    __slots__ = ("ids", "until")

    def __init__(self, until: float) -> None:
        self.until = until
        self.ids: set[int] = set()


class HeldRow:
    """One row, its lease, and how far it has come."""

    __slots__ = ("claim", "is_lost", "lease", "state")

    def __init__(self, claim: Claim, lease: Lease) -> None:
        self.claim, self.lease = claim, lease
        self.state = RowState.QUEUED
        self.is_lost = False


class HeldRows:
    """All the rows that are held, with their leases."""

    def __init__(self) -> None:
        self._rows: dict[int, HeldRow] = {}
        self._leases: list[Lease] = []

    def __len__(self) -> int:
        return len(self._rows)

    def get(self, row: int) -> HeldRow | None:
        """That row, if it is held."""
        return self._rows.get(row)

    def lease(self, until: float) -> Lease:
        """A new lease, with no row yet."""
        lease = Lease(until)
        self._leases.append(lease)
        return lease

    def add(self, claim: Claim, lease: Lease) -> HeldRow | None:
        """Hold a row; returns it unless it was held already.

        It may be: a lease of ours ended, and the row came back to us. Then whatever is under way
        goes on under the new lease, and is not begun a second time.
        """
        known = self._rows.get(claim.id)
        if known is None:
            known = self._rows[claim.id] = HeldRow(claim, lease)
            lease.ids.add(claim.id)
            return known
        known.claim, known.is_lost = claim, False
        self._move(known, lease)
        return None

    def drop(self, row: int) -> None:
        """Hold it no longer."""
        held = self._rows.pop(row, None)
        if held is not None:
            held.lease.ids.discard(row)

    def renew(self, rows: Iterable[int], until: float) -> None:
        """They are held until then."""
        lease = self.lease(until)
        for row in rows:
            held = self._rows.get(row)
            if held is not None:
                self._move(held, lease)

    def to_renew(self, before: float) -> tuple[int, ...]:
        """The rows whose leases end before that time, but for those that are lost anyway."""
        self._leases = [lease for lease in self._leases if lease.ids]
        return tuple(
            row
            for lease in self._leases
            if lease.until <= before
            for row in lease.ids
            if not self._rows[row].is_lost
        )

    def next_end(self) -> float | None:
        """When the first lease ends that still holds something."""
        return min((lease.until for lease in self._leases if self._matters(lease)), default=None)

    def in_state(self, state: RowState) -> list[int]:
        """The rows that have come so far, in the order of their claims."""
        return [row for row, held in self._rows.items() if held.state is state]

    def claims(self) -> Iterator[Claim]:
        """All of them."""
        return (held.claim for held in self._rows.values())

    def clear(self) -> None:
        """Hold nothing."""
        self._rows.clear()
        self._leases.clear()

    def _matters(self, lease: Lease) -> bool:
        return any(not self._rows[row].is_lost for row in lease.ids)

    def _move(self, held: HeldRow, lease: Lease) -> None:
        held.lease.ids.discard(held.claim.id)
        held.lease = lease
        lease.ids.add(held.claim.id)
