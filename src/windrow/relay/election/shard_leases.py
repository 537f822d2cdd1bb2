"""Leases for the shards of an outbox: one row each, no more of them than is this relay's part.

While the outbox is not shared it is one lease, renewed by one statement, and nothing else is asked.
Otherwise a relay says every half second or so that it is alive; whoever holds more than its part
hands the rest over, shard by shard, and whoever holds less takes what is free.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from windrow.clock import Clock, SystemClock
from windrow.errors import WindrowError
from windrow.outbox.stores.session import Session
from windrow.outbox.table import Table
from windrow.relay.election.leading import Leading
from windrow.relay.election.plan import (
    Census,
    Plan,
    proposal_due,
    quota,
    surplus_shards,
    wanted_shards,
)
from windrow.relay.election.plan_table import PlanTable
from windrow.relay.election.postgres_lease import RENEWING, STANDING, PostgresLease

ANNOUNCING = 0.2
"""How often to say that one is alive, in parts of the lease; more often while there is room."""
ALIVE = 0.6
"""For how long one counts as alive, in parts of the lease: who is dead is missed, and the part of
the others has grown, by the time that its leases have run out."""
LOOKING = 0.4
"""How often somebody who cannot lead looks whether the plan has changed."""


@dataclass
class Held:
    """A lease that is ours, and the right that it gave last."""

    lease: PostgresLease
    right: Leading
    renew_at: float
    is_asked_back: bool = False


class ShardLeases:
    """Stands for as many shards of one outbox as are this relay's part.

    Args:
        session: A connection for the leases alone.
        table: The outbox.
        name: What the relay is called.
        wanted: The number of shards to propose; None to follow the others.
        lease_ttl: How long a lease is good for.
        clock: Whose time the right is counted in.
    """

    def __init__(
        self,
        session: Session,
        table: Table,
        name: str,
        *,
        wanted: int | None = None,
        lease_ttl: float = 2.5,
        clock: Clock | None = None,
    ) -> None:
        self._session, self._lease_ttl = session, lease_ttl
        self._clock = clock or SystemClock()
        ttl = lease_ttl * ALIVE
        self._table = PlanTable(session, table, name, wanted=wanted, ttl=ttl)
        self._new_lease = partial(
            PostgresLease, session, table, name, lease_ttl=lease_ttl, clock=self._clock
        )
        self._census = Census(Plan())
        self._look_at = -1.0
        self._held: dict[int, Held] = {}
        self._contenders: dict[int, PostgresLease] = {}
        self.trouble: WindrowError | None = None
        self.pulse_interval = lease_ttl * STANDING

    @property
    def plan_table(self) -> PlanTable:
        """The plan that the leases are for."""
        return self._table

    def pulse_shards(self) -> dict[int, Leading]:
        """Renew what is held, take what is free and this relay's part; returns what is led."""
        now = self._clock.monotonic()
        is_shared = self._table.wanted is not None or self._census.plan.shards > 1
        if now >= self._look_at and (is_shared or not self._held):
            self._look(now, is_shared=is_shared)
        self._renew(now)
        self._stand(now)
        self._pace(is_shared)
        return {
            shard: replace(held.right, is_asked_back=held.is_asked_back)
            for shard, held in self._held.items()
        }

    def _look(self, now: float, *, is_shared: bool) -> None:
        """See how the outbox is divided, and divide it if that is asked for and agreed on."""
        census = self._table.announce() if is_shared else self._table.look()
        shards = proposal_due(census, self._table.wanted)
        if shards is not None:
            self._table.divide(census.plan, shards)
        if shards is not None or (census.plan.shards > 1 and not is_shared):
            census, is_shared = self._table.announce(), True
        self._on_census(census)
        is_short = len(self._held) < quota(census.plan, census.members)
        share = STANDING if is_short else ANNOUNCING
        self._look_at = now + self._lease_ttl * (share if is_shared else LOOKING)

    def _on_census(self, census: Census) -> None:
        self._census = census
        for held in self._held.values():
            if held.lease.plan.generation != census.plan.generation:
                held.is_asked_back = True  # it cannot be renewed
        ours = [shard for shard, held in self._held.items() if not held.is_asked_back]
        for shard in surplus_shards(census, ours):
            self._held[shard].is_asked_back = True

    def _renew(self, now: float) -> None:
        for shard, held in list(self._held.items()):
            if now >= held.renew_at and self._is_current(held):
                self._renew_one(shard, held, now)
            if not self._is_current(held) and now >= held.right.valid_until:
                del self._held[shard]

    def _renew_one(self, shard: int, held: Held, now: float) -> None:
        right = held.lease.pulse()
        if right is not None:
            held.right = replace(right, plan=self._census.plan)
            held.renew_at = now + self._lease_ttl * RENEWING
            return
        # Somebody else has it, or the plan is another. In that case there is time to hand over.
        self._look(now, is_shared=self._census.plan.shards > 1)
        if self._is_current(held):
            del self._held[shard]

    def _is_current(self, held: Held) -> bool:
        return held.lease.plan.generation == self._census.plan.generation

    def _stand(self, now: float) -> None:
        plan = self._census.plan
        if plan.shards == 1:
            wanted = [] if self._held else [0]
        else:
            wanted = wanted_shards(self._census, self._held)
        for shard in wanted:
            lease = self._contender(shard, plan)
            right = lease.pulse()
            if right is not None:
                right = replace(right, plan=plan)
                self._held[shard] = Held(lease, right, now + self._lease_ttl * RENEWING)

    def _contender(self, shard: int, plan: Plan) -> PostgresLease:
        """The same from one pulse to the next, so that a lease whose answer got lost is ours."""
        known = self._contenders.get(shard)
        if known is None or known.plan.generation != plan.generation:
            known = self._contenders[shard] = self._new_lease(shard=shard, plan=plan)
        return known

    def _pace(self, is_shared: bool) -> None:
        census = self._census
        is_short = len(self._held) < min(census.plan.shards, quota(census.plan, census.members))
        share = STANDING if is_short else ANNOUNCING if is_shared else RENEWING
        self.pulse_interval = self._lease_ttl * share

    def resign_shard(self, shard: int) -> None:
        """Let one lease expire now, if it is still ours."""
        held = self._held.pop(shard, None)
        if held is not None:
            held.lease.resign()

    def resign(self) -> None:
        """Let all leases expire now, and count as gone."""
        for shard in list(self._held):
            self._held[shard].lease.resign()
            del self._held[shard]
        self._table.depart()

    def close(self) -> None:
        """Close the connection; the leases run out by themselves."""
        self._session.close()
