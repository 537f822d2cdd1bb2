"""The database of a run: one server for all scenarios, and in it a database for each."""

from __future__ import annotations

import secrets
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Protocol

from windrow.chaos.options import Database
from windrow.embedded.directory import create_directory, remove_directory
from windrow.embedded.mariadb import MariaDB, connect_arguments
from windrow.embedded.postgres import PostgresServer
from windrow.extras import require


class Server(Protocol):
    """What holds outboxes, and can be struck."""

    def create(self) -> str:
        """An empty database; returns its address."""

    def kill(self) -> None:
        """Have it be gone for everybody."""

    def restart(self) -> None:
        """Have it be back, with all that was committed."""

    def stop(self) -> None:
        """End it, and remove its data."""


def start_server(database: Database) -> Server:
    """Bring one up.

    Raises:
        MissingExtra: A driver, or the embedded PostgreSQL, is not installed.
        NotInstalled: There is no MariaDB on this machine.
        StartFailed: It did not come up.
    """
    match database:
        case "postgres":
            require("psycopg")
            return _Postgres(PostgresServer.start())
        case "mariadb":
            require("pymysql")
            return _MariaDB(MariaDB.start())
        case "sqlite":
            return _SQLite(create_directory("chaos-sqlite"))


class _Postgres:
    def __init__(self, server: PostgresServer) -> None:
        self._server = server

    def create(self) -> str:
        return self._server.create_database(f"chaos_{secrets.token_hex(4)}")

    def kill(self) -> None:
        self._server.kill()

    def restart(self) -> None:
        self._server.restart()

    def stop(self) -> None:
        self._server.stop()


class _MariaDB:
    def __init__(self, server: MariaDB) -> None:
        self._server = server

    def create(self) -> str:
        name = f"chaos_{secrets.token_hex(4)}"
        arguments = connect_arguments(self._server.url())
        with (
            closing(require("pymysql").connect(**arguments)) as connection,
            closing(connection.cursor()) as cursor,
        ):
            cursor.execute(f"CREATE DATABASE {name}")
        return self._server.url(name)

    def kill(self) -> None:
        self._server.kill()

    def restart(self) -> None:
        self._server.restart()

    def stop(self) -> None:
        self._server.stop()


class _SQLite:
    """A file has no process to kill: somebody holds it and lets nobody write."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._path: Path | None = None
        self._holder: sqlite3.Connection | None = None

    def create(self) -> str:
        self._path = self._directory / f"{secrets.token_hex(4)}.db"
        return f"sqlite:///{self._path}"

    def kill(self) -> None:
        assert self._path is not None, "there is one to hold"
        self._holder = sqlite3.connect(self._path, timeout=30.0, isolation_level=None)
        self._holder.execute("BEGIN IMMEDIATE")

    def restart(self) -> None:
        if self._holder is not None:
            self._holder.rollback()
            self._holder.close()
            self._holder = None

    def stop(self) -> None:
        self.restart()
        remove_directory(self._directory)
