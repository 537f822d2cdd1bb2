"""Ids as a parameter that the driver need not look into."""

from __future__ import annotations

import pytest

from tests.fixtures.relaying import OutboxDatabase
from windrow.outbox.stores.id_array import Ids
from windrow.outbox.stores.postgres import PostgresStore


@pytest.mark.parametrize("ids", [[], [1], [-1, 0, 70_000, 2**63 - 1, -(2**63)], [*range(5_000)]])
def test_ids_arrive_as_they_are(outbox: OutboxDatabase, ids: list[int]) -> None:
    with PostgresStore(outbox.dsn, outbox.table) as store:
        query = "SELECT %(ids)s, pg_typeof(%(ids)s)::text"
        assert store._purging.run(query, {"ids": Ids(ids)}).fetchone() == (ids, "bigint[]")


def test_one_statement_purges_small_ids_and_large_ones(outbox: OutboxDatabase) -> None:
    """A list is of the smallest type that holds it: each size would be a statement of its own."""
    with outbox.connect() as connection:
        for number in (1, 70_000, 2**40):
            connection.execute("INSERT INTO outbox (id, kafka_topic) VALUES (%s, 't')", [number])
    prepared = "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE 'DELETE%%'"
    with PostgresStore(outbox.dsn, outbox.table) as store:
        assert [store.purge([number]) for number in (1, 70_000, 2**40)] == [1, 1, 1]
        assert store._purging.run(prepared, {}).fetchone() == (1,)
    assert outbox.count() == 0
