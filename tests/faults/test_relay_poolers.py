"""A transaction pooler between relay and database: it may die, or hide that the database did."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.faults.relay_bench import make_outbox, relay_bench, through
from tests.fixtures.services import start_service
from windrow.embedded import PostgresServer
from windrow.embedded.pgbouncer import PgBouncer
from windrow.outbox.marked import Marked
from windrow.outbox.stores.postgres import PostgresStore
from windrow.outbox.stores.session import LAZY_COMMIT, PLAN
from windrow.testing import FaultLog

PATIENT = {"relay.election.lease_ttl": "8s", "relay.delivery_timeout": "4s"}
LAZY = {"wal_writer_delay": "10s"}
"""What is committed lazily is lost for certain when the server is killed."""


@pytest.fixture(scope="module")
def server(pytestconfig: pytest.Config) -> Iterator[PostgresServer]:
    def start() -> PostgresServer:
        return PostgresServer.start(settings=LAZY)

    with start_service(pytestconfig, "PostgreSQL (embedded)", start) as server:
        yield server


@pytest.fixture(scope="module")
def pooler(pytestconfig: pytest.Config, server: PostgresServer) -> Iterator[PgBouncer]:
    def start() -> PgBouncer:
        return PgBouncer.start(server, settings={"server_login_retry": 1})

    with start_service(pytestconfig, "PgBouncer", start) as pooler:
        yield pooler


@pytest.mark.parametrize("mode", ["barrier", "transactional"])
def test_a_pooler_and_a_database_that_die_cost_no_record_and_no_order(
    mode: str,
    faults: FaultLog,
    server: PostgresServer,
    pooler: PgBouncer,
    kafka: str,
    topic: str,
    tmp_path: Path,
    pytestconfig: pytest.Config,
) -> None:
    part = faults.part(f"relay {mode}")
    outbox = make_outbox(server)
    settings = {"relay.mode": mode, "relay.pooler": "true", **PATIENT}
    with relay_bench(outbox, kafka, topic, tmp_path, **settings) as bench:
        bench.start_writers()
        bench.start_relay(**{"database.dsn": through(outbox.dsn, pooler.port)})
        for _ in range(20 if pytestconfig.getoption("soak") else 1):
            for victim in (pooler, server):
                part.inject("kill", victim, victim.kill, work=bench.progress)
                victim.restart()
                bench.wait_for_progress("the relay goes on")
        bench.settle(part)


def read_across_a_crash(store: PostgresStore, server: PostgresServer) -> list[list[Marked]]:
    """What one leader reads before and after the server is killed, which nobody tells it."""
    leader = uuid4()
    store.raise_epoch("relay")
    before = store.read(leader, 10)
    server.kill()
    server.restart()
    return [before, store.read(leader, 10)]


def test_marks_behind_a_pooler_outlive_a_crash_that_the_pooler_hides(
    server: PostgresServer, pooler: PgBouncer
) -> None:
    """Read a second time, they would be sent behind their own successors."""
    outbox = make_outbox(server)
    outbox.write("topic", [("key", "1"), ("key", "2")])
    with PostgresStore(through(outbox.dsn, pooler.port), outbox.table, pooler=True) as store:
        before, after = read_across_a_crash(store, server)
    assert [len(before), len(after)] == [2, 0]


def test_marks_made_lazily_behind_a_pooler_would_be_read_twice(
    server: PostgresServer, pooler: PgBouncer
) -> None:
    """The naive version of the above, which marks as it would without a pooler."""
    outbox = make_outbox(server)
    outbox.write("topic", [("key", "1"), ("key", "2")])
    with PostgresStore(through(outbox.dsn, pooler.port), outbox.table, pooler=True) as store:
        store._reading = store._new_session(PLAN | LAZY_COMMIT)
        before, after = read_across_a_crash(store, server)
    assert before == after != []
