"""No election: this process leads because somebody said there is only one.

Should there be two, by mistake, the later one leads: it raises the epoch, and the earlier one finds
that out at its next pulse and ends. What the earlier one has sent by then must have arrived before
the later one sends anything, so the later one waits that long, unless its predecessor has said
good-bye.
"""

from __future__ import annotations

from typing import Any

from windrow.clock import Clock, SystemClock
from windrow.outbox.errors import Fenced, WrongSchema
from windrow.outbox.queries import load_queries
from windrow.outbox.stores.session import Session
from windrow.outbox.table import Table, in_format
from windrow.relay.election.errors import AloneAmongShards
from windrow.relay.election.leading import Leading

RENEWING, WAITING = 0.4, 0.04
"""Pulses in parts of the right."""


class SingleElection:
    """Leads from the first pulse on, for as long as nobody else says so too."""

    def __init__(
        self,
        session: Session,
        table: Table,
        name: str,
        *,
        shard: int = 0,
        right: float = 2.5,
        waits: bool = True,
        clock: Clock | None = None,
    ) -> None:
        """Stand for one shard of one outbox.

        Args:
            session: A connection of its own.
            table: The outbox.
            name: What to be called in the epoch's row.
            shard: Which shard.
            right: How long a pulse is good for, in seconds.
            waits: Whether to wait for the right of a predecessor to run out; not needed where the
                target is fenced.
            clock: Whose time the right is counted in.
        """
        self._session, self._table = session, table
        self._clock = clock or SystemClock()
        self._right, self._waits = right, waits
        self._parameters: dict[str, Any] = {"shard": shard, "name": name}
        raw = load_queries("windrow.relay.election", "single.sql")
        epoch_table = in_format(table.companion("_epoch"))
        self._queries = {name: query.format(epoch=epoch_table) for name, query in raw.items()}
        self._epoch: int | None = None
        self._free_at = 0.0
        self.pulse_interval = right * RENEWING

    def pulse(self) -> Leading | None:
        """Take the lead once, and see that nobody has taken it since.

        Raises:
            Fenced: Somebody has: there are two relays where there was to be one.
            Failed: The database gave no answer.
        """
        asked_at = self._clock.monotonic()
        if self._epoch is None:
            self._epoch = self._raise_epoch()
        elif not self._leads_still():
            raise Fenced(str(self._table), self._epoch)
        is_free = asked_at >= self._free_at
        self.pulse_interval = self._right * (RENEWING if is_free else WAITING)
        return Leading(self._epoch, asked_at + self._right) if is_free else None

    def _raise_epoch(self) -> int:
        row = self._run("raise").fetchone()
        if row is None:
            shard = self._parameters["shard"]
            raise WrongSchema(str(self._table), f"has no fence for shard {shard}")
        epoch, self._parameters["raised_at"], predecessor, shards, unsettled = row
        if shards > 1 or unsettled:
            raise AloneAmongShards(str(self._table), max(shards, unsettled))
        if predecessor is not None and self._waits:
            # It may have pulsed just before, and its right is counted from then.
            self._free_at = self._clock.monotonic() + self._right
        return int(epoch)

    def _leads_still(self) -> bool:
        row = self._run("look").fetchone()
        return row is not None and bool(row[0] == self._parameters["raised_at"])

    def resign(self) -> None:
        """Say good-bye, so that a successor need not wait; the next pulse would begin anew.

        One that has been succeeded changes nothing, and its next pulse says so.
        """
        if self._epoch is not None and self._run("resign").rowcount:
            self._epoch = None

    def _run(self, query: str) -> Any:
        return self._session.run(self._queries[query], self._parameters)

    def close(self) -> None:
        """Close the connection."""
        self._session.close()
