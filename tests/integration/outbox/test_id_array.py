"""Ids as a parameter that the driver need not look into."""

from __future__ import annotations

import psycopg
import pytest

from tests.fixtures.relaying import OutboxDatabase
from windrow.outbox.errors import DatabaseFailed
from windrow.outbox.stores.id_array import Ids
from windrow.outbox.stores.postgres import PostgresStore
from windrow.outbox.stores.session import DURABLE_COMMIT, Session


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


def test_a_purge_goes_on_after_its_connection_was_lost(outbox: OutboxDatabase) -> None:
    """What was prepared is gone with the connection, and is prepared anew."""
    outbox.write("t", [("k", "1"), ("k", "2")])
    with PostgresStore(outbox.dsn, outbox.table) as store, outbox.connect() as other:
        assert store.purge([1]) == 1
        (backend,) = store._purging.run("SELECT pg_backend_pid()", {}).fetchone() or (0,)
        other.execute("SELECT pg_terminate_backend(%s, 10000)", [backend])
        with pytest.raises(DatabaseFailed):
            store.purge([2])
        assert store.purge([2]) == 1
    assert outbox.count() == 0


@pytest.mark.parametrize("pooler", [False, True])
def test_a_name_with_signs_of_the_driver_is_not_taken_for_a_parameter(
    outbox: OutboxDatabase, pooler: bool
) -> None:
    session = Session(outbox.dsn, DURABLE_COMMIT, pooler=pooler)
    with outbox.connect() as connection:
        connection.execute('CREATE TABLE "100% $1" AS SELECT 7::int8 AS id')
    query = 'DELETE FROM "100%% $1" WHERE id = ANY (%(ids)s)'
    assert [session.run_with_ids(query, ids) for ids in ([], [6, 7], [7])] == [0, 1, 0]
    session.close()


def test_a_statement_that_fails_is_told_with_its_reason(outbox: OutboxDatabase) -> None:
    session = Session(outbox.dsn, DURABLE_COMMIT)
    with pytest.raises(DatabaseFailed, match='relation "gone" does not exist') as told:
        session.run_with_ids("DELETE FROM gone WHERE id = ANY (%(ids)s)", [1])
    assert isinstance(told.value.__cause__, psycopg.errors.UndefinedTable)
    session.close()
