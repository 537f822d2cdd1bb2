"""An outbox in PostgreSQL is led by one ordered relay, or shared by competing ones; never both."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from uuid import uuid4

import pytest

from tests.fixtures.relaying import OutboxDatabase
from windrow.outbox.claims import Burial, Topics
from windrow.outbox.claims.postgres import PostgresClaims
from windrow.outbox.errors import (
    Fenced,
    LedByOthers,
    NoLongerShared,
    PostgresOnly,
    SharedByOthers,
    WrongSchema,
)
from windrow.outbox.grants import Roles, grants
from windrow.outbox.stores.postgres import PostgresStore
from windrow.outbox.stores.session import Session
from windrow.relay.batch_machine import new_batch_uuid
from windrow.relay.election.postgres_lease import lease_session

ALL = Topics()
LEASE = 600.0
TAKE_LEASE = (
    "UPDATE outbox_lease SET holder = 'relay-7', expires_at = now() + interval '1 hour'"
    " WHERE shard = 0"
)
END_LEASE = "UPDATE outbox_lease SET holder = '', expires_at = '-infinity' WHERE shard = 0"


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def claims_on(outbox: OutboxDatabase, stack: ExitStack) -> PostgresClaims:
    claims = PostgresClaims(outbox.dsn, outbox.table)
    stack.callback(claims.close)
    return claims


def store_on(outbox: OutboxDatabase, stack: ExitStack) -> PostgresStore:
    store = PostgresStore(outbox.dsn, outbox.table)
    stack.callback(store.close)
    return store


def run(outbox: OutboxDatabase, statement: str) -> None:
    with outbox.connect() as connection:
        connection.execute(statement)


def test_ordered_relay_does_not_open_an_outbox_that_others_share(
    outbox: OutboxDatabase, stack: ExitStack
) -> None:
    outbox.write("t", [("k", "v")])
    claims = claims_on(outbox, stack)
    claims.open()
    store = store_on(outbox, stack)
    with pytest.raises(SharedByOthers) as refused:
        store.open()
    statement = str(refused.value).partition("then run: ")[2]
    run(outbox, statement)
    store.open()
    with pytest.raises(NoLongerShared, match="no longer shared"):
        claims.claim(uuid4(), 1, LEASE, ALL)
    assert outbox.count("leader_id IS NOT NULL") == 0


def test_competing_relay_does_not_share_an_outbox_that_is_led(
    outbox: OutboxDatabase, stack: ExitStack
) -> None:
    run(outbox, TAKE_LEASE)
    claims = claims_on(outbox, stack)
    with pytest.raises(LedByOthers, match=r"the ordered relay 'relay-7' leads it; stop it first"):
        claims.open()
    store_on(outbox, stack).open()
    run(outbox, END_LEASE)
    claims.open()


def test_leader_that_runs_without_a_lease_is_fenced_and_reads_nothing_more(
    outbox: OutboxDatabase, stack: ExitStack
) -> None:
    outbox.write("t", [("a", "1"), ("b", "2"), ("c", "3")])
    store, leader = store_on(outbox, stack), uuid4()
    store.open()
    store.raise_epoch("single")
    assert len(store.read(leader, 2)) == 2
    claims = claims_on(outbox, stack)
    claims.open()
    assert store.read(leader, 9) == []
    with pytest.raises(Fenced):
        store.check_fence()
    # Elected anew, it may raise the epoch, and still finds nothing to take.
    store.raise_epoch("single")
    assert store.read(leader, 9) == []
    assert len(claims.claim(uuid4(), 9, LEASE, ALL)) == 3


def test_row_that_somebody_marks_by_other_means_is_never_due(
    outbox: OutboxDatabase, stack: ExitStack
) -> None:
    claims = claims_on(outbox, stack)
    claims.open()
    outbox.write("t", [("a", "1")])
    run(outbox, "UPDATE outbox SET leader_id = gen_random_uuid()")
    assert claims.claim(uuid4(), 9, LEASE, ALL) == []


def test_batch_in_doubt_is_settled_before_the_outbox_is_shared(
    outbox: OutboxDatabase, stack: ExitStack
) -> None:
    outbox.write("t", [("a", "1")])
    run(outbox, f"UPDATE outbox SET leader_id = '{new_batch_uuid()}'")
    claims = claims_on(outbox, stack)
    with pytest.raises(LedByOthers, match="in doubt; start that once more"):
        claims.open()
    assert outbox.count("leader_id IS NOT NULL") == 1
    run(outbox, "UPDATE outbox SET leader_id = NULL")
    claims.open()


def test_all_who_begin_to_share_at_once_do(outbox: OutboxDatabase, stack: ExitStack) -> None:
    many = [claims_on(outbox, stack) for _ in range(6)]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(PostgresClaims.open, many))
    with outbox.connect() as connection:
        row = connection.execute("SELECT epoch FROM outbox_epoch WHERE shard = 0").fetchone()
    assert row == (1,)


@pytest.mark.parametrize(
    ("what", "name", "due"),
    [("relay", "", []), ("topic", "a", ["b"]), ("key", "2", ["a"]), ("topic", "x", ["a", "b"])],
)
def test_what_a_person_has_paused_is_not_claimed(
    outbox: OutboxDatabase, stack: ExitStack, what: str, name: str, due: list[str]
) -> None:
    claims = claims_on(outbox, stack)
    claims.open()
    outbox.write("a", [("1", "v")])
    outbox.write("b", [("2", "v")])
    run(outbox, f"INSERT INTO outbox_hold VALUES ('{what}', '{name}', 'paused')")
    assert [claim.topic for claim in claims.claim(uuid4(), 9, LEASE, ALL)] == due
    run(outbox, f"DELETE FROM outbox_hold WHERE name = '{name}'")
    assert len(claims.claim(uuid4(), 9, LEASE, ALL)) == 2 - len(due)


@pytest.mark.parametrize(
    ("query", "index"),
    [("claim", "untried"), ("claim_wanted", "topics"), ("claim_others", "topics")],
)
def test_rows_that_wait_or_are_not_wanted_are_not_looked_at(
    outbox: OutboxDatabase, stack: ExitStack, query: str, index: str
) -> None:
    claims = claims_on(outbox, stack)
    claims.open()
    unwanted = "down" if query == "claim_others" else "t"
    with outbox.connect() as connection:
        connection.execute(
            "INSERT INTO outbox (kafka_topic, not_before, leader_id)"
            " SELECT 't', now() + interval '1 hour', CASE n % 2 WHEN 0 THEN gen_random_uuid() END"
            " FROM generate_series(1, 5000) AS n"
        )
        if query != "claim":
            connection.execute(
                "INSERT INTO outbox (kafka_topic) SELECT 'down' FROM generate_series(1, 5000)"
            )
        connection.execute("INSERT INTO outbox (kafka_topic) VALUES ('u')")
        connection.execute("SET enable_seqscan = off; SET enable_bitmapscan = off")
        asked = {"limit": 10, "token": uuid4(), "lease": LEASE, "topics": [unwanted]}
        plan = connection.execute(
            f"EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) {claims._queries[query]}",
            {**asked, "suspected": 5, "suspects": 1},
        ).fetchall()
    text = "\n".join(line for (line,) in plan)
    assert f"using outbox_{index}" in text
    assert "using outbox_again" in text
    assert max(map(int, re.findall(r"Rows Removed by Filter: (\d+)", text)), default=0) < 10


def test_indexes_are_made_with_the_first_who_shares_and_go_with_the_last(
    outbox: OutboxDatabase, stack: ExitStack
) -> None:
    def indexes() -> int:
        with outbox.connect() as connection:
            rows = connection.execute("SELECT FROM pg_indexes WHERE tablename = 'outbox'")
            return len(rows.fetchall())

    assert indexes() == 1
    claims_on(outbox, stack).open()
    assert indexes() == 4
    with pytest.raises(SharedByOthers) as refused:
        store_on(outbox, stack).open()
    run(outbox, str(refused.value).partition("then run: ")[2])
    assert indexes() == 1


def test_role_that_does_not_own_the_table_says_who_has_to_make_the_indexes(
    outbox: OutboxDatabase, stack: ExitStack
) -> None:
    role = f"relay_{uuid4().hex}"
    roles = Roles(f"w{role}", role, f"r{role}")
    with outbox.connect() as connection:
        for statement in grants(outbox.table, roles):
            connection.execute(statement)
    claims = PostgresClaims(f"{outbox.dsn}&options=-c%20role%3D{role}", outbox.table)
    stack.callback(claims.close)
    try:
        with pytest.raises(WrongSchema, match=r"no index outbox_untried.*windrow init"):
            claims.open()
        assert outbox.count() == 0
        claims_on(outbox, stack).open()
        claims.open()
        outbox.write("t", [("k", "v")])
        token = uuid4()
        (claim,) = claims.claim(token, 1, LEASE, ALL)
        assert claims.finish(token, [], [], [Burial(claim.id, "no")]) == set()
    finally:
        with outbox.connect() as connection:
            for name in (roles.writer, roles.relay, roles.reader):
                connection.execute(f"DROP OWNED BY {name}")
                connection.execute(f"DROP ROLE {name}")


def test_outbox_that_lacks_its_companions_or_steps_is_named(
    outbox: OutboxDatabase, stack: ExitStack
) -> None:
    run(outbox, "DELETE FROM outbox_source")
    with pytest.raises(WrongSchema, match="has no incarnation"):
        claims_on(outbox, stack).open()
    run(outbox, "DROP TABLE outbox_source")
    with pytest.raises(WrongSchema, match=r'no companion "outbox_source"; run: windrow migrate'):
        claims_on(outbox, stack).open()


@pytest.mark.parametrize("dsn", ["mysql://me:q7secret@host/db", "sqlite:///file"])
def test_session_refuses_other_databases_before_the_driver_quotes_the_password(dsn: str) -> None:
    with pytest.raises(PostgresOnly, match="is for an outbox in PostgreSQL") as refused:
        Session(dsn, {})
    assert "q7secret" not in str(refused.value)
    with pytest.raises(PostgresOnly):
        lease_session(dsn)
