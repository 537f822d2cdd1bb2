"""Reading and changing the plan in the outbox database; what it means is in ``plan.py``."""

from __future__ import annotations

import secrets
from typing import Any

from windrow.outbox.errors import DatabaseFailed
from windrow.outbox.queries import load_queries
from windrow.outbox.stores.session import Session
from windrow.outbox.table import Table, in_format
from windrow.relay.election.errors import PlanNotReady
from windrow.relay.election.plan import Census, Plan

COMPANIONS = ("epoch", "lease", "member")


class PlanTable:
    """The plan of one outbox, as one relay sees and changes it.

    Args:
        session: A connection of one thread.
        table: The outbox.
        name: What the relay is called.
        wanted: The number of shards it asks for; None to follow the others.
        ttl: How long it counts as alive after it was last heard of.
    """

    def __init__(
        self,
        session: Session,
        table: Table,
        name: str,
        *,
        wanted: int | None = None,
        ttl: float = 2.5,
    ) -> None:
        self._session, self._table, self._name = session, table, name
        self.outbox, self.wanted = str(table), wanted
        self.member = f"{name} {secrets.token_hex(4)}"
        self._ttl = ttl
        self._is_announced = False
        names = {name: in_format(table.companion(f"_{name}")) for name in COMPANIONS}
        raw = load_queries("windrow.relay.election", "plan.sql")
        self._queries = {name: query.format(**names) for name, query in raw.items()}

    def look(self) -> Census:
        """See how the outbox is divided, and nothing else."""
        return self._census("look", {})

    def announce(self) -> Census:
        """Count as alive, and see how the outbox is divided and who else is there."""
        self._is_announced = True
        parameters = {"member": self.member, "wanted": self.wanted, "ttl": self._ttl}
        return self._census("announce", parameters)

    def _census(self, query: str, parameters: dict[str, Any]) -> Census:
        row = self._session.run(self._queries[query], parameters).fetchone()
        if row is None:
            raise DatabaseFailed(f"{self._table.companion('_epoch')} has no row for shard 0")
        generation, shards, unsettled, members, proposals, free = row
        plan = Plan(generation, shards, unsettled)
        return Census(plan, members, frozenset(proposals), tuple(free))

    def depart(self) -> None:
        """Count as gone from now on."""
        if self._is_announced:
            self._session.run(self._queries["depart"], {"member": self.member})
            self._is_announced = False

    def divide(self, plan: Plan, shards: int) -> bool:
        """Begin a generation of that many shards; false if somebody else has changed the plan.

        Every leader of the old shards is fenced when this returns.
        """
        parameters = {
            "generation": plan.generation,
            "unsettled": plan.shards,
            "shards": shards,
        }
        with self._session.transaction() as run:
            for query in ("lock_leases", "lock_plan"):
                run(self._queries[query], {})
            if run(self._queries["is_current"], parameters).rowcount == 0:
                return False
            for query in ("add_epochs", "add_leases", "divide", "end_leases"):
                run(self._queries[query], parameters)
        return True

    def raise_epoch(self, shard: int, plan: Plan) -> int:
        """Fence whoever led this shard of this plan; returns the epoch that now holds.

        Raises:
            PlanNotReady: The plan is another, or not settled yet.
        """
        parameters = {"shard": shard, "name": self._name, "generation": plan.generation}
        row = self._session.run(self._queries["raise"], parameters).fetchone()
        if row is None:
            raise PlanNotReady(str(self._table), shard, plan.generation)
        return int(row[0])

    def is_over(self) -> bool:
        """Whether no lease of an earlier generation runs on."""
        row = self._session.run(self._queries["is_over"], {}).fetchone()
        return row is not None and bool(row[0])

    def settle(self, plan: Plan, epoch: int) -> bool:
        """Let every shard be led; false if this relay does not lead shard 0 any more."""
        parameters = {"generation": plan.generation, "epoch": epoch, "shards": plan.shards}
        return self._session.run(self._queries["settle"], parameters).rowcount > 0

    def close(self) -> None:
        """Close the connection."""
        self._session.close()
