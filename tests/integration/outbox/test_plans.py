"""How PostgreSQL performs the statements of a relay."""

from __future__ import annotations

import pytest

from tests.fixtures.relaying import OutboxDatabase
from windrow.outbox.stores.postgres import PostgresStore
from windrow.outbox.stores.postgres_batches import PostgresBatches


@pytest.fixture
def backlog(outbox: OutboxDatabase) -> OutboxDatabase:
    outbox.write("t", [(f"k{n}", "v") for n in range(100)])
    return outbox


def test_no_statement_of_a_relay_is_compiled(backlog: OutboxDatabase) -> None:
    """With a backlog every read looks dear enough, and would take longer to compile than to run."""
    with PostgresBatches(backlog.dsn, backlog.table) as store:
        for session in (store._reading, store._purging, store._looking):
            assert session.run("SHOW jit", {}).fetchone() == ("off",)


def test_while_no_lane_is_buried_a_sweep_reads_no_record(backlog: OutboxDatabase) -> None:
    with PostgresStore(backlog.dsn, backlog.table) as store:
        store.raise_epoch("relay")
        query = f"EXPLAIN (ANALYZE, COSTS OFF) {store._queries['bury_lanes']}"

        def scan() -> str:
            lines = [line for (line,) in store._purging.run(query, store._fence()).fetchall()]
            (found,) = (line for line in lines if "Scan" in line and "on outbox " in line)
            return str(found)

        assert "never executed" in scan()
        store.hold("k7", [], "buried", "tried")
        assert "never executed" not in scan()
    assert backlog.count("kafka_key = 'k7'") == 0
