"""The frame of the fault tests on a real service, before there is anything of ours to kill."""

from __future__ import annotations

import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import psycopg
import pytest

from tests.faults.postgres_writer import AFTER_COMMIT, BEFORE_COMMIT
from tests.fixtures.services import start_service
from windrow.embedded.postgres import PostgresServer
from windrow.points import Points
from windrow.testing import FaultLog, FaultPart, Moment, NotDelivered
from windrow.verify import LedgerFile

KILLS, KILLS_IN_SOAK = 6, 100
# Once would do, but that the server may write its log to the disk unasked, every ten seconds.
KILLS_OF_CONTROL = 3


@pytest.fixture(scope="module")
def server(pytestconfig: pytest.Config) -> Iterator[PostgresServer]:
    """A server to be killed, where nothing but a commit brings the log to the disk."""

    def start() -> PostgresServer:
        return PostgresServer.start(settings={"wal_writer_delay": "10s"})

    with start_service(pytestconfig, "PostgreSQL (killed)", start) as server:
        yield server


@pytest.fixture
def arrivals(server: PostgresServer) -> str:
    """The URI of a database with an empty table, on a server that is up."""
    if not server.is_alive():
        server.restart()
    dsn = server.create_database(f"test_{secrets.token_hex(6)}")
    with psycopg.connect(dsn) as connection:
        connection.execute("CREATE TABLE arrived (n bigserial, key text, id bigint)")
    return dsn


class Writing:
    """The writer as the test sees it."""

    def __init__(self, process: subprocess.Popen[bytes], directory: Path) -> None:
        self.process, self.directory = process, directory
        self.points = Points(directory)
        self.ledger = LedgerFile(directory / "ledger")

    def stop(self) -> None:
        (self.directory / "stop").touch()
        assert self.process.wait(30) == 0


@contextmanager
def running_writer(dsn: str, directory: Path, wrong: str = "") -> Iterator[Writing]:
    module = "tests.faults.postgres_writer"
    with subprocess.Popen(
        [sys.executable, "-m", module, dsn, str(directory), wrong],
        cwd=Path(__file__).parents[2],
    ) as process:
        try:
            yield Writing(process, directory)
        finally:
            process.kill()


def kill_and_restart(
    part: FaultPart, server: PostgresServer, writing: Writing, moment: Moment
) -> None:
    point = moment.point or ""
    part.inject(
        "kill",
        server,
        server.kill,
        work=writing.ledger.progress,
        at=moment,
        reach=lambda: writing.points.reach(point),
    )
    writing.points.release(point)
    server.restart()


def read_rows(dsn: str) -> Iterator[tuple[str, int]]:
    """What a consumer sees, in the order in which it was written."""
    with psycopg.connect(dsn) as connection:
        yield from connection.execute("SELECT key, id FROM arrived ORDER BY n")


@pytest.mark.proves("postgres-durable", "counting-honest")
def test_committed_rows_survive_the_kill_of_the_server_once_each(
    faults: FaultLog,
    server: PostgresServer,
    arrivals: str,
    tmp_path: Path,
    pytestconfig: pytest.Config,
) -> None:
    part = faults.part("postgres")
    count = KILLS_IN_SOAK if pytestconfig.getoption("soak") else KILLS
    with running_writer(arrivals, tmp_path) as writing:
        for moment in part.kill_times(count, [BEFORE_COMMIT, AFTER_COMMIT]):
            kill_and_restart(part, server, writing, moment)
        writing.stop()
    verdict = part.settle(writing.ledger.path, read_rows(arrivals))
    assert verdict.written > count
    assert part.totals.injected == count


@pytest.mark.proves("counting-honest")
@pytest.mark.parametrize(
    ("wrong", "point", "trouble"),
    [
        ("hasty", BEFORE_COMMIT, "lost"),
        ("careless", AFTER_COMMIT, "lost"),
        ("retrying", AFTER_COMMIT, "doubled"),
    ],
)
def test_a_writer_that_does_it_wrong_is_found_out(
    wrong: str, point: str, trouble: str, server: PostgresServer, arrivals: str, tmp_path: Path
) -> None:
    """The control: the same kill and the same counting, of something that does not hold."""
    part = FaultLog(Random(0)).part("control")
    with running_writer(arrivals, tmp_path, wrong) as writing:
        for _ in range(KILLS_OF_CONTROL):
            kill_and_restart(part, server, writing, Moment(point))
        writing.stop()
    with pytest.raises(NotDelivered) as failure:
        part.settle(writing.ledger.path, read_rows(arrivals))
    assert set(failure.value.tally.examples) == {trouble}
