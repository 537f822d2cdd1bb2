from __future__ import annotations

from windrow.embedded.databases import dsn_of
from windrow.embedded.mariadb import connect_arguments
from windrow.embedded.postgres import Setting, format_settings


def test_another_database_of_the_same_server_keeps_everything_else() -> None:
    socket = "postgresql://postgres@/postgres?host=%2Ftmp%2Fx&port=5433"
    assert dsn_of(socket, "a/b") == "postgresql://postgres@/a%2Fb?host=%2Ftmp%2Fx&port=5433"
    tcp = "postgresql://me:secret@127.0.0.1:5433/postgres"
    assert dsn_of(tcp, "test") == "postgresql://me:secret@127.0.0.1:5433/test"


def test_settings_are_quoted_so_that_no_value_can_end_its_line() -> None:
    settings: dict[str, Setting] = {
        "fsync": False,
        "port": 5433,
        "synchronous_standby_names": "FIRST 1 ('a\\b')",
    }
    assert format_settings(settings) == (
        "fsync = 'off'\nport = '5433'\nsynchronous_standby_names = 'FIRST 1 (''a\\\\b'')'\n"
    )


def test_a_mariadb_url_gives_what_the_driver_asks_for() -> None:
    assert connect_arguments("mysql://me:p%40ss@127.0.0.1:3307/test") == {
        "host": "127.0.0.1",
        "port": 3307,
        "user": "me",
        "password": "p@ss",
        "database": "test",
    }
