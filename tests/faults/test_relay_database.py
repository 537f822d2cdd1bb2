"""Kill the database under a relay, slow it down, fail over to a standby, and count."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.relay_bench import (
    RelayBench,
    RelayProcess,
    make_outbox,
    relay_bench,
    through,
)
from tests.faults.standby import StandbyServer, either
from tests.fixtures.relaying import OutboxDatabase
from tests.fixtures.services import start_service
from windrow.embedded import Link, PostgresServer
from windrow.testing import FaultLog, FaultPart, Moment

POINTS = {
    "barrier": ["relay.marked", "relay.acknowledged", "relay.purged"],
    "transactional": ["relay.batch-marked", "relay.batch-produced", "relay.batch-published"],
}
modes = pytest.mark.parametrize("mode", ["barrier", "transactional"])
PATIENT = {"relay.election.lease_ttl": "8s", "relay.delivery_timeout": "4s"}
"""Nobody else is there to take over, and no record is given up because the machine is busy."""
LAZY = {"wal_writer_delay": "10s"}
"""What is committed lazily is lost for certain when the server is killed."""
SLOW = {"commit_delay": 50_000, "commit_siblings": 0}
"""Each durable commit takes 50 ms more."""


@pytest.fixture
def server(pytestconfig: pytest.Config) -> Iterator[PostgresServer]:
    def start() -> PostgresServer:
        return PostgresServer.start(settings=LAZY | {"max_wal_senders": 4})

    with start_service(pytestconfig, "PostgreSQL (embedded)", start) as server:
        yield server


@pytest.mark.parametrize(
    ("mode", "reader"), [("barrier", "mark"), ("barrier", "diff"), ("transactional", "mark")]
)
def test_a_killed_database_costs_no_record_and_no_order_and_doubles_nothing(
    mode: str,
    reader: str,
    faults: FaultLog,
    server: PostgresServer,
    kafka: str,
    topic: str,
    tmp_path: Path,
    pytestconfig: pytest.Config,
) -> None:
    """The relay lives, so it knows what was acknowledged, and purges that when it can."""
    part = faults.part(f"relay {mode}")
    outbox = make_outbox(server)
    settings = {"relay.mode": mode, "relay.reader": reader, **PATIENT}
    with relay_bench(outbox, kafka, topic, tmp_path, **settings) as bench:
        bench.start_writers()
        bench.start_relay()
        for moment in part.kill_times(50 if pytestconfig.getoption("soak") else 2, POINTS[mode]):
            leader = bench.leader()
            kill_at(part, server, bench, leader, moment)
            server.restart()
            bench.wait_for_progress("the relay goes on")
        bench.settle(part)


def kill_at(
    part: FaultPart,
    server: PostgresServer,
    bench: RelayBench,
    leader: RelayProcess,
    moment: Moment,
) -> None:
    """Kill the server while the relay is at that point, or at any moment of its work."""
    points, point = leader.points, moment.point or ""
    part.inject(
        "kill",
        server,
        server.kill,
        work=bench.progress,
        at=moment,
        reach=lambda: points.reach(point),
    )
    points.release(point)


@modes
def test_a_database_whose_commits_are_slow_is_only_slow(
    mode: str,
    faults: FaultLog,
    server: PostgresServer,
    kafka: str,
    topic: str,
    tmp_path: Path,
) -> None:
    import psycopg

    part = faults.part(f"relay {mode}")
    outbox = make_outbox(server)
    with (
        Link.start(("127.0.0.1", server.port)) as link,
        relay_bench(outbox, kafka, topic, tmp_path, **PATIENT, **{"relay.mode": mode}) as bench,
    ):
        bench.start_writers()
        relay = bench.start_relay(**{"database.dsn": through(outbox.dsn, link.port)})

        def slow_down() -> None:
            with psycopg.connect(server.dsn(), autocommit=True) as connection:
                for name, value in SLOW.items():
                    connection.execute(f"ALTER SYSTEM SET {name} = {value}")
                connection.execute("SELECT pg_reload_conf()")
            link.delay(0.025)

        part.inject("slow", relay, slow_down, work=bench.progress)
        for _ in range(10):
            bench.wait_for_progress("it goes on, slowly")
        bench.settle(part)
        assert bench.leader() is relay


@modes
def test_a_fail_over_to_a_synchronous_standby_costs_no_record_and_no_order(
    mode: str, faults: FaultLog, server: PostgresServer, kafka: str, topic: str, tmp_path: Path
) -> None:
    part = faults.part(f"relay {mode}")
    database = make_outbox(server).dsn.rpartition("/")[2]
    with StandbyServer.follow(server) as standby:
        outbox = OutboxDatabase(either(server, standby, database))
        with relay_bench(
            outbox, kafka, topic, tmp_path, **PATIENT, **{"relay.mode": mode}
        ) as bench:
            bench.start_writers()
            bench.start_relay()
            part.inject("kill", server, server.kill, work=bench.progress)
            standby.promote()
            bench.wait_for_progress("the relay goes on at the standby")
            bench.settle(part)
