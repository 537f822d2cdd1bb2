"""How a writer wakes a relay that sleeps. Pure: a table in, SQL out."""

from __future__ import annotations

import hashlib

from windrow.outbox.table import Table


def channel_of(table: Table) -> str:
    """The channel that rings for this outbox; outboxes of one name share it, which does no harm."""
    digest = hashlib.sha256(table.name.encode()).hexdigest()[:16]
    return f"windrow_{digest}"


def ring_statement(table: Table) -> str:
    """Ring, when the transaction commits, if a relay has said that it sleeps."""
    return (
        f"SELECT pg_notify('{channel_of(table)}', '') IS NULL WHERE EXISTS"
        f" (SELECT FROM {table.companion('_doorbell')} WHERE asleep_until > now())"
    )
