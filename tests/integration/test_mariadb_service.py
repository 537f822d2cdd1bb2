"""MariaDB, used for real, killed, and gone afterwards."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pymysql
import pytest

from tests.fixtures.processes import is_gone
from tests.fixtures.services import start_service
from windrow.embedded.groups import living_family
from windrow.embedded.mariadb import MariaDB, connect_arguments
from windrow.embedded.process import groups_below


@pytest.fixture
def own_mariadb(request: pytest.FixtureRequest) -> Iterator[MariaDB]:
    """A MariaDB of the test's own, to be killed."""
    with start_service(request.config, "MariaDB", MariaDB.start) as server:
        yield server


def connect(url: str, **more: Any) -> pymysql.Connection[pymysql.cursors.Cursor]:
    connection: pymysql.Connection[pymysql.cursors.Cursor] = pymysql.connect(
        **connect_arguments(url), **more
    )
    return connection


def run(connection: pymysql.Connection[Any], statement: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return list(cursor.fetchall())


@pytest.mark.proves("real-services")
def test_rows_locked_by_one_are_skipped_by_the_other(mariadb_database: str) -> None:
    take = "SELECT id FROM outbox ORDER BY id LIMIT 2 FOR UPDATE SKIP LOCKED"
    with connect(mariadb_database) as one, connect(mariadb_database) as two:
        run(one, "CREATE TABLE outbox (id int PRIMARY KEY) ENGINE=InnoDB")
        run(one, "INSERT INTO outbox VALUES (1), (2), (3)")
        one.commit()
        assert run(one, take) == [(1,), (2,)]
        assert run(two, take) == [(3,)]
        one.rollback()
        two.rollback()
        assert run(two, take) == [(1,), (2,)]


@pytest.mark.parametrize("attempt", [1, 2])
def test_each_test_has_an_empty_database_of_its_own(mariadb_database: str, attempt: int) -> None:
    with connect(mariadb_database) as connection:
        assert run(connection, "SHOW TABLES") == []
        run(connection, "CREATE TABLE only_here (id int)")


def test_committed_rows_survive_kill_9_and_others_do_not(own_mariadb: MariaDB) -> None:
    url = own_mariadb.url("test_kill")
    with connect(own_mariadb.url()) as connection:
        run(connection, "CREATE DATABASE test_kill")
    connection = connect(url)
    run(connection, "CREATE TABLE kept (id int PRIMARY KEY) ENGINE=InnoDB")
    run(connection, "INSERT INTO kept VALUES (1)")
    connection.commit()
    run(connection, "INSERT INTO kept VALUES (2)")
    own_mariadb.kill()
    connection.close()
    assert not own_mariadb.is_alive()
    own_mariadb.restart()
    assert own_mariadb.url("test_kill") == url
    with connect(url) as after:
        assert run(after, "SELECT id FROM kept") == [(1,)]


def test_paused_mariadb_answers_only_after_it_is_resumed(own_mariadb: MariaDB) -> None:
    with connect(own_mariadb.url()) as connection:
        own_mariadb.pause()
        with pytest.raises(pymysql.err.OperationalError, match="timed out"):
            connect(own_mariadb.url(), read_timeout=1)
        own_mariadb.resume()
        assert run(connection, "SELECT 6 * 7") == [(42,)]


def test_port_asks_for_a_password_which_the_url_holds(own_mariadb: MariaDB) -> None:
    without = {**connect_arguments(own_mariadb.url()), "password": ""}
    with pytest.raises(pymysql.err.OperationalError, match="Access denied"):
        pymysql.connect(**without)


def test_temporary_tables_go_with_the_directory(own_mariadb: MariaDB) -> None:
    with connect(own_mariadb.url()) as connection:
        assert run(connection, "SELECT @@tmpdir") == [(str(own_mariadb.directory),)]


@pytest.mark.proves("real-services")
def test_stopped_mariadb_is_gone_with_its_group_and_directory(own_mariadb: MariaDB) -> None:
    family, directory = living_family(own_mariadb.pid), own_mariadb.directory
    assert own_mariadb.pid in groups_below(os.getpid())
    assert directory.stat().st_mode & 0o777 == 0o700
    own_mariadb.stop()
    own_mariadb.stop()
    assert family
    assert all(is_gone(process) for process in family)
    assert not groups_below(os.getpid()) & {process.group for process in family}
    assert not directory.exists()
