"""Leadership as a row with an expiry, in the outbox's own database.

One statement takes the lease, renews it or finds it taken, by the database's clock alone; a new
holder raises the shard's epoch in the same transaction, so that nobody ever leads unfenced.
"""

from __future__ import annotations

import secrets
from typing import Any

from windrow.clock import Clock, SystemClock
from windrow.outbox.queries import load_queries
from windrow.outbox.stores.session import ANSWER_TIMEOUT, DURABLE_COMMIT, Session
from windrow.outbox.table import Table, in_format
from windrow.relay.election.leading import Leading
from windrow.relay.election.plan import WHOLE, Plan

RENEWING, STANDING = 0.4, 0.12
"""Pulses in parts of the lease: a leader renews in time, a standby looks often enough that a
hand-over takes a fraction of a second."""

LEASE_SESSION = DURABLE_COMMIT | {
    # Somebody else's transaction on the row must not keep a leader from seeing its right run out.
    "lock_timeout": "1000",
}


class PostgresLease:
    """Stands for one shard of one outbox; a namesake elsewhere is another contender."""

    def __init__(
        self,
        session: Session,
        table: Table,
        name: str,
        *,
        shard: int = 0,
        plan: Plan = WHOLE,
        lease_ttl: float = 2.5,
        clock: Clock | None = None,
    ) -> None:
        self._session = session
        self._clock = clock or SystemClock()
        self._lease_ttl = lease_ttl
        self.shard, self.plan = shard, plan
        self._parameters: dict[str, Any] = {
            "shard": shard,
            "generation": plan.generation,
            "name": name,
            "holder": f"{name} {secrets.token_hex(4)}",
            "ttl": lease_ttl,
        }
        names = {name: in_format(table.companion(f"_{name}")) for name in ("lease", "epoch")}
        raw = load_queries("windrow.relay.election", "postgres_lease.sql")
        self._queries = {name: query.format(**names) for name, query in raw.items()}
        self.pulse_interval = lease_ttl * STANDING

    def pulse(self) -> Leading | None:
        """Take or renew the lease; None while another holds it."""
        asked_at = self._clock.monotonic()
        row = self._session.run(self._queries["stand"], self._parameters).fetchone()
        self.pulse_interval = self._lease_ttl * (STANDING if row is None else RENEWING)
        if row is None:
            return None
        return Leading(row[0], asked_at + self._lease_ttl, shard=self.shard, plan=self.plan)

    def resign(self) -> None:
        """Let the lease expire now, if it is still ours."""
        self._session.run(self._queries["resign"], self._parameters)

    def close(self) -> None:
        """Close the connection; the lease runs out by itself."""
        self._session.close()


def lease_session(
    dsn: str,
    *,
    connect_timeout: float = 5.0,
    answer_timeout: float = ANSWER_TIMEOUT,
    pooler: bool = False,
) -> Session:
    """A connection for the lease alone: work on the others must not hold a renewal up."""
    return Session(
        dsn,
        LEASE_SESSION,
        connect_timeout=connect_timeout,
        answer_timeout=answer_timeout,
        pooler=pooler,
    )
