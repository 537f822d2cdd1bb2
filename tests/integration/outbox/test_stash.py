"""Records through every sort of connection into a real table, and what becomes of them."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from tests.fixtures.relaying import OutboxDatabase
from tests.integration.outbox.kinds import engine_on
from tests.integration.outbox.writers import (
    HOWS,
    RECORDS,
    WRITERS,
    as_row,
    empty,
    stored,
    stored_ids,
)
from windrow.outbox import Outbox, Record


@pytest.mark.proves("outbox-atomic")
@pytest.mark.parametrize("writer", WRITERS)
def test_after_the_commit_the_outbox_holds_exactly_the_records(
    shared_outbox: OutboxDatabase, writer: str
) -> None:
    for how in HOWS:
        ids = WRITERS[writer](shared_outbox.dsn, RECORDS, how)
        assert stored(shared_outbox) == [as_row(record) for record in RECORDS], how
        assert ids == ([] if how == "collected" else stored_ids(shared_outbox)), how
        empty(shared_outbox)


@pytest.mark.proves("outbox-atomic")
@pytest.mark.parametrize("writer", WRITERS)
def test_a_rollback_leaves_nothing(shared_outbox: OutboxDatabase, writer: str) -> None:
    for how in HOWS:
        WRITERS[writer](shared_outbox.dsn, RECORDS, how, undo=True)
        assert stored(shared_outbox) == [], how


@pytest.mark.parametrize(
    "writer", ["sync psycopg, transaction block", "async asyncpg", "sync DB-API, qmark"]
)
def test_ids_of_many_records_are_in_the_order_of_the_records(
    outbox: OutboxDatabase, writer: str
) -> None:
    count = 2_500
    records = [Record("orders", f"k{n % 7}", str(n), {"n": str(n)}) for n in range(count)]
    ids = WRITERS[writer](outbox.dsn, records, "many")
    assert ids == sorted(ids)
    assert [row[2] for row in stored(outbox)] == [str(n) for n in range(count)]
    assert ids == stored_ids(outbox)


def test_a_thousand_records_are_one_statement(outbox: OutboxDatabase) -> None:
    statements: list[str] = []
    engine = engine_on(outbox.dsn)

    @sa.event.listens_for(engine, "before_cursor_execute")
    def count(connection: Any, cursor: Any, statement: str, *rest: Any) -> None:
        statements.append(statement)

    with engine.begin() as connection:
        Outbox().stash_many(connection, [Record("orders", "k", "v")] * 1_000)
        assert len(statements) == 1
        Outbox().stash_many(connection, (Record("orders", "k", "v") for _ in range(2_001)))
        assert len(statements) == 1 + 3
        assert Outbox().stash_many(connection, []) == []
        assert len(statements) == 4
    assert outbox.count() == 3_001


def test_a_prepared_stash_is_prepared_on_the_server(outbox: OutboxDatabase) -> None:
    with outbox.connect() as connection, connection.transaction():
        Outbox().stash(connection, RECORDS[0])
        prepared = Outbox().prepare(connection)
        ids = [prepared.stash(RECORDS[0]) for _ in range(3)]
        names = connection.execute("SELECT statement FROM pg_prepared_statements").fetchall()
    assert ids == sorted(ids)
    assert [name[0].split(" (")[0] for name in names] == ['INSERT INTO "outbox"']
