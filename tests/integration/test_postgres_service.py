"""Both PostgreSQLs, used for real, killed, and gone afterwards."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import LiteralString

import psycopg
import pytest

from tests.fixtures.databases import Postgres
from tests.fixtures.processes import is_gone
from tests.fixtures.services import start_service
from windrow.embedded.groups import living_family
from windrow.embedded.postgres import PostgresServer, Setting
from windrow.embedded.postgres_binaries import (
    binaries_for,
    debian_binaries,
    embedded_binaries,
    server_version,
)
from windrow.embedded.process import groups_below, unprivileged_user
from windrow.errors import StartFailed

FLAVOURS = {"embedded": embedded_binaries, "Debian": debian_binaries}


@pytest.fixture(params=FLAVOURS)
def server(request: pytest.FixtureRequest) -> Iterator[PostgresServer]:
    """A server of the test's own, to be killed."""

    def start() -> PostgresServer:
        return PostgresServer.start(binaries=FLAVOURS[request.param]())

    with start_service(request.config, f"PostgreSQL ({request.param})", start) as server:
        yield server


def value_of(dsn: str, query: LiteralString) -> object:
    with psycopg.connect(dsn) as connection:
        row = connection.execute(query).fetchone()
    assert row is not None
    return row[0]


def segments_of(pids: set[int]) -> list[str]:
    lines = Path("/proc/sysvipc/shm").read_text().splitlines()[1:]
    return [line for line in lines if int(line.split()[4]) in pids]


@pytest.mark.proves("real-services")
def test_both_flavours_answer_sql_with_fsync_on(
    postgres_server: Postgres, debian_postgres_server: PostgresServer
) -> None:
    for server in (postgres_server, debian_postgres_server):
        assert value_of(server.dsn(), "SELECT 6 * 7") == 42
        assert value_of(server.dsn(), "SHOW fsync") == "on"
        assert value_of(server.dsn(), "SHOW synchronous_commit") == "on"
    assert value_of(debian_postgres_server.dsn(), "SHOW wal_level") == "logical"


def test_committed_rows_survive_kill_9_and_others_do_not(server: PostgresServer) -> None:
    port = server.port
    with closing(psycopg.connect(server.dsn())) as connection:
        connection.execute("CREATE TABLE kept (id int)")
        connection.execute("INSERT INTO kept SELECT generate_series(1, 1000)")
        connection.commit()
        connection.execute("INSERT INTO kept VALUES (1001)")
        server.kill()
    assert not server.is_alive()
    server.restart()
    assert server.port == port
    assert value_of(server.dsn(), "SELECT max(id) FROM kept") == 1000


def test_kill_ends_every_backend_and_leaves_no_shared_memory(server: PostgresServer) -> None:
    with closing(psycopg.connect(server.dsn())):
        family = living_family(server.pid)
        assert len({process.session for process in family}) > 3
        assert segments_of({server.pid})
        server.kill()
    assert all(is_gone(process) for process in family)
    assert not segments_of({process.pid for process in family})


@pytest.mark.proves("real-services")
def test_stopped_server_is_gone_with_its_group_and_directory() -> None:
    before = groups_below(os.getpid())
    with PostgresServer.start() as server:
        family, directory = living_family(server.pid), server.directory
        assert server.pid in groups_below(os.getpid())
        assert directory.stat().st_mode & 0o777 == 0o700
    server.stop()
    assert all(is_gone(process) for process in family)
    assert groups_below(os.getpid()) == before
    assert not directory.exists()


def test_stop_is_clean_although_a_client_is_connected(server: PostgresServer) -> None:
    """A restart after a clean stop recovers nothing; one after a kill does."""
    with closing(psycopg.connect(server.dsn())):
        server.restart()
    assert "automatic recovery" not in server.log.read_text()
    server.kill()
    server.restart()
    assert "automatic recovery" in server.log.read_text()


def test_paused_server_answers_only_after_it_is_resumed(server: PostgresServer) -> None:
    with ThreadPoolExecutor(max_workers=1) as pool:
        server.pause()
        answer = pool.submit(value_of, server.dsn(), "SELECT 6 * 7")
        with pytest.raises(TimeoutError):
            answer.result(timeout=0.3)
        server.resume()
        assert answer.result(timeout=10) == 42


def test_port_asks_for_a_password_which_the_dsn_holds(server: PostgresServer) -> None:
    with_password = server.dsn(port=server.port)
    assert value_of(with_password, "SELECT inet_server_addr()::text") == "127.0.0.1/32"
    without = f"postgresql://postgres@127.0.0.1:{server.port}/postgres"
    with pytest.raises(psycopg.OperationalError, match="no password supplied"):
        psycopg.connect(without, passfile="/dev/null")


def test_server_listens_on_loopback_alone(server: PostgresServer) -> None:
    assert value_of(server.dsn(), "SHOW listen_addresses") == "127.0.0.1"


def test_settings_reach_the_server_and_can_be_altered_later() -> None:
    settings: dict[str, Setting] = {"wal_level": "logical", "cluster_name": "it's", "fsync": False}
    with PostgresServer.start(settings=settings) as server:
        assert value_of(server.dsn(), "SHOW wal_level") == "logical"
        assert value_of(server.dsn(), "SHOW cluster_name") == "it's"
        assert value_of(server.dsn(), "SHOW fsync") == "off"
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET cluster_name = 'altered'")
        server.restart()
        assert value_of(server.dsn(), "SHOW cluster_name") == "altered"


def test_wrong_setting_fails_to_start_with_the_servers_own_words() -> None:
    before = groups_below(os.getpid())
    with pytest.raises(StartFailed, match='unrecognized configuration parameter "wal_levle"'):
        PostgresServer.start(settings={"wal_levle": "logical"})
    assert groups_below(os.getpid()) == before


def test_clone_has_what_its_template_had_and_neither_sees_the_others_changes(
    postgres_server: Postgres,
) -> None:
    names = ["clone_template", "clone_one", "clone_two"]
    try:
        template = postgres_server.create_database(names[0], template="template0")
        with psycopg.connect(template) as connection:
            connection.execute("CREATE TABLE t (id int)")
            connection.execute("INSERT INTO t VALUES (1)")
        one, two = (postgres_server.create_database(name, names[0]) for name in names[1:])
        with psycopg.connect(one) as connection:
            connection.execute("INSERT INTO t VALUES (2)")
        assert value_of(one, "SELECT count(*) FROM t") == 2
        assert value_of(two, "SELECT count(*) FROM t") == 1
        assert value_of(template, "SELECT count(*) FROM t") == 1
    finally:
        for name in names:
            postgres_server.drop_database(name)


@pytest.mark.parametrize("attempt", [1, 2])
def test_each_test_has_an_empty_database_of_its_own(database: str, attempt: int) -> None:
    with psycopg.connect(database) as connection:
        connection.execute("CREATE TABLE only_here (id int)")


def test_database_is_dropped_under_a_client_that_stays_connected(
    postgres_server: Postgres,
) -> None:
    dsn = postgres_server.create_database("dropped")
    with psycopg.connect(dsn) as connection:
        postgres_server.drop_database("dropped")
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs PostgreSQL as somebody else")
def test_binaries_closed_to_the_servers_user_are_copied(tmp_path: Path) -> None:
    """As in a virtual environment below root's home directory."""
    closed = tmp_path / "closed"
    binaries = embedded_binaries()
    package = binaries.parents[1]
    ignore = shutil.ignore_patterns("include", "pginstall")
    shutil.copytree(package, closed / package.name, ignore=ignore)
    shutil.copytree(package.with_name(package.name + ".libs"), closed / (package.name + ".libs"))
    closed.chmod(stat.S_IRWXU)
    with PostgresServer.start(binaries=closed / binaries.relative_to(package.parent)) as server:
        assert server.binaries.is_relative_to(server.directory)
        assert value_of(server.dsn(), "SELECT 1") == 1


def test_binaries_open_to_all_are_used_where_they_are(tmp_path: Path) -> None:
    binaries = debian_binaries()
    assert binaries_for(unprivileged_user("postgres"), binaries, tmp_path) == binaries
    assert server_version(binaries).split(".")[0] == binaries.parent.name
