"""Which row of an outbox has which index, and who may change that?

A source gives rows their index by the mark that takes them: in one synchronous transaction the rows
get the name of their batch, and the batch is written down with its first index and the ids in their
order. So a replay finds the same rows under the same indices, with any checkpoint or none, and a
transaction that commits late gets the next index, whatever its ids are.

Marks and purges hold the epoch's row, as those of a relay do: whoever took over last changes the
outbox, and nobody else. All state is in the database. A statement of unknown outcome is therefore
harmless: what it did is seen by the next look.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from windrow.outbox.errors import Fenced, WrongSchema
from windrow.outbox.queries import load_queries
from windrow.outbox.stores.session import DURABLE_COMMIT, PLAN, Session
from windrow.outbox.stores.statements import QUERIES as OUTBOX_QUERIES
from windrow.outbox.stores.statements import build_statements
from windrow.outbox.table import WINDROW, Columns, Table, found, quote
from windrow.relay.batch_machine import new_batch_uuid
from windrow.spark.outbox.errors import DividedOutbox

QUERIES: Final = load_queries("windrow.spark.outbox", "source.sql")

LEADER_PREFIX: Final = "source "
"""With this begin the names of leaders that are sources."""

LEASE_TTL: Final = 60.0
"""For how long a relay that stands by leaves the outbox to a source that is not heard of."""
RENEWING: Final = 0.3
"""Of the lease, after which it is renewed."""

RELAY_RIGHT: Final = 2.5
"""For how long what a relay has sent may still be on its way, if no lease says so."""


@dataclass(frozen=True, slots=True)
class Indices:
    """What has an index now: from ``first`` up to and without ``end``."""

    incarnation: str
    first: int
    end: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Cover:
    """Which part of a range of indices there is; ``None`` if nothing of it."""

    incarnation: str
    first: int | None
    end: int | None

    def holds(self, start: int, end: int) -> bool:
        """Whether all of a range is there."""
        if self.first is None or self.end is None:
            return False
        return self.first <= start and end <= self.end


class Ledger:
    """The indices of one outbox, over one connection; made when needed, made anew when lost.

    Until ``take_over`` it only looks and reads, and anybody may.
    """

    def __init__(
        self,
        dsn: str,
        table: Table,
        *,
        columns: Columns = WINDROW,
        lease_ttl: float = LEASE_TTL,
        connect_timeout: float = 5.0,
    ) -> None:
        self.table = table
        self.epoch: int | None = None
        self._columns = columns
        self._lease_ttl = lease_ttl
        self._renewal_due = 0.0
        self._leader = ""
        self._session = Session(dsn, PLAN | DURABLE_COMMIT, connect_timeout=connect_timeout)
        self._queries: dict[str, str] = {}

    # -- who leads -------------------------------------------------------------------------------

    def take_over(self, name: str) -> float:
        """Lead, and fence whoever led before; rows that have an index keep it.

        Args:
            name: What to be called where people look who leads.

        Returns:
            For how many seconds nothing may be marked, since what a relay has sent may still be on
            its way.

        Raises:
            DividedOutbox: Several relays share it.
            DatabaseFailed: It may have been done, or not; do it again.
        """
        queries = self._prepared()
        self._leader = f"{LEADER_PREFIX}{name} {new_batch_uuid().hex[:8]}"
        parameters: dict[str, Any] = {"leader": self._leader, "ttl": self._lease_ttl}
        with self._session.transaction() as run:
            lease = run(queries["lock_lease"], {}).fetchone()
            raised = run(queries["raise_epoch"], parameters).fetchone()
            if lease is None or raised is None:
                raise WrongSchema(str(self.table), "has no fence for shard 0")
            epoch, predecessor, shards, unsettled = raised
            if shards > 1 or unsettled:
                raise DividedOutbox(str(self.table), max(shards, unsettled))
            run(queries["take_lease"], parameters | {"epoch": epoch})
            run(queries["reclaim"], {})
        self.epoch = epoch
        self._renewal_due = time.monotonic() + self._lease_ttl * RENEWING
        if predecessor is None or predecessor.startswith(LEADER_PREFIX):
            return 0.0
        return max(float(lease[0]), RELAY_RIGHT)

    def renew(self) -> None:
        """Be heard of, if that is due; a relay that stands by goes on doing so."""
        now = time.monotonic()
        if self.epoch is not None and now >= self._renewal_due:
            parameters = {"leader": self._leader, "ttl": self._lease_ttl}
            self._session.run(self._prepared()["renew_lease"], parameters)
            self._renewal_due = now + self._lease_ttl * RENEWING

    def resign(self) -> None:
        """Leave the outbox to whoever wants it; what has an index keeps it."""
        if self.epoch is not None:
            self.epoch = None
            self._session.run(self._prepared()["resign"], {"leader": self._leader})

    # -- what has an index -----------------------------------------------------------------------

    def look(self) -> Indices:
        """What has an index now.

        Raises:
            Fenced: This one led, and another one has taken over.
        """
        row = self._session.run(self._prepared()["look"], {}).fetchone()
        if row is None or row[3] is None:
            raise WrongSchema(str(self.table), "has lost what its indices are counted by")
        indices = Indices(*row)
        if self.epoch is not None and indices.epoch != self.epoch:
            raise Fenced(str(self.table), self.epoch)
        return indices

    def mark(self, limit: int) -> int:
        """Give the earliest visible rows without an index the next ones; returns how many got one.

        Raises:
            Fenced: Another one has taken over; nothing was changed.
            DatabaseFailed: It may have been done, or not; ``look`` tells.
        """
        parameters = {"epoch": self.epoch, "limit": limit, "name": new_batch_uuid()}
        row = self._session.run(self._prepared()["mark"], parameters).fetchone()
        if row is None:
            self.look()  # nothing to mark, or nothing that this one may
            return 0
        first, end = row
        return int(end) - int(first)

    def purge(self, settled: int) -> int:
        """Remove the rows of all batches that end at or before an index; returns how many.

        Raises:
            Fenced: Another one has taken over; nothing was changed.
            DatabaseFailed: It may have been done, or not; do it again.
        """
        parameters = {"epoch": self.epoch, "settled": settled}
        count = self._session.run(self._prepared()["purge"], parameters).rowcount
        if not count:
            self.look()
        return count

    def waiting(self, limit: int | None = None) -> int:
        """How many visible rows have no index yet, counted up to a limit."""
        row = self._session.run(self._prepared()["waiting"], {"limit": limit}).fetchone()
        return int(row[0]) if row else 0

    # -- rows ------------------------------------------------------------------------------------

    def read(self, start: int, end: int, part: int = 0, parts: int = 1) -> list[Sequence[Any]]:
        """The rows of a range in order: index, whether it is gone, the fields, microseconds.

        Args:
            start: The first index.
            end: The index after the last.
            part: Which of several parts, by the hash of the key; rows that are gone are in each.
            parts: How many parts there are.
        """
        parameters = {"start": start, "end": end, "shard": part, "shards": parts}
        rows: list[Sequence[Any]]
        rows = self._session.run(self._prepared()["read"], parameters).fetchall()
        rows.sort(key=lambda row: int(row[0]))
        return rows

    def cover(self, start: int, end: int) -> Cover:
        """Which part of a range there is at this moment."""
        parameters = {"start": start, "end": end}
        row = self._session.run(self._prepared()["covered"], parameters).fetchone()
        if row is None:
            raise WrongSchema(str(self.table), "has lost what its indices are counted by")
        return Cover(*row)

    def close(self) -> None:
        """Close the connection; does nothing the second time."""
        self._session.close()

    def _prepared(self) -> dict[str, str]:
        """The statements that fit the table, which is looked at once.

        Raises:
            Unreachable: The database gives no answer.
            WrongSchema: The table or a companion is missing.
        """
        if not self._queries:
            names = {"outbox": self.table.sql, "batch": self.table.companion("_batch")}
            row = self._session.run(QUERIES["is_present"], names).fetchone()
            if row is None or not row[0]:
                raise WrongSchema(str(self.table), "does not exist", "windrow init")
            if not row[1]:
                raise WrongSchema(str(self.table), "has no place for the indices of its rows")
            rows = self._session.run(OUTBOX_QUERIES["columns"], {"outbox": self.table.sql})
            present = frozenset(row[0] for row in rows)
            columns = found(self._columns, present)
            if missing := columns.used - present:
                raise WrongSchema(str(self.table), f"has no column {quote(min(missing))}")
            self._queries = build_statements(self.table, columns, queries=QUERIES)
        return self._queries
