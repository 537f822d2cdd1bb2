"""An outbox on each database that competing relays share, and ways to look at it from outside."""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import psycopg
import pymysql
import pytest

from tests.fixtures.databases import Postgres
from windrow.config import Dsn
from windrow.embedded.databases import dsn_of
from windrow.embedded.mariadb import connect_arguments
from windrow.outbox import Outbox, Record, Table, migrate
from windrow.outbox.claims import ClaimStore, open_claims
from windrow.outbox.dialects.connecting import connected, dialect_of
from windrow.outbox.dialects.names import Dialect
from windrow.outbox.dialects.schema import migrate as migrate_elsewhere

System = Literal["postgresql", "mysql", "sqlite"]
LONG_AGO = "2001-01-01 00:00:00"


@dataclass
class Place:
    """A migrated outbox."""

    dsn: str
    table: Table = field(default_factory=Table)
    stack: ExitStack = field(default_factory=ExitStack)

    @property
    def system(self) -> System:
        return Dsn(self.dsn).system

    @property
    def dialect(self) -> Dialect | None:
        return dialect_of(Dsn(self.dsn))

    def prepare(self) -> None:
        if self.dialect is None:
            with psycopg.connect(self.dsn, autocommit=True) as connection:
                migrate(connection, self.table)
            return
        with connected(Dsn(self.dsn), 5, 10, create=True) as connection:
            migrate_elsewhere(connection, self.dialect, self.table)

    def name(self, suffix: str = "") -> str:
        if self.dialect is None:
            return self.table.companion(suffix)
        return self.dialect.table(self.table, suffix)

    @contextmanager
    def connect(self, *, autocommit: bool = True) -> Iterator[Any]:
        """A connection of somebody else."""
        match self.system:
            case "postgresql":
                connection: Any = psycopg.connect(self.dsn, autocommit=autocommit)
            case "mysql":
                connection = pymysql.connect(
                    **connect_arguments(self.dsn),
                    autocommit=autocommit,
                    init_command="SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
                )
            case "sqlite":
                connection = sqlite3.connect(Dsn(self.dsn).address, timeout=60)
                if autocommit:
                    connection.isolation_level = None
        with closing(connection):
            yield connection

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        """Run a statement that every database understands; ``{outbox}`` and ``{dead}`` in it."""
        text = statement.format(outbox=self.name(), dead=self.name("_dead"))
        with self.connect() as connection, closing(connection.cursor()) as cursor:
            cursor.execute(text)
            if text.startswith("SELECT"):
                return [tuple(row) for row in cursor.fetchall()]
            return []

    def stash(self, *records: Record) -> list[int]:
        with self.connect(autocommit=False) as connection:
            ids = Outbox(self.table).stash_many(connection, records)
            connection.commit()
            return ids

    def fill(self, count: int, topic: str = "t") -> list[int]:
        return self.stash(*(Record(topic, f"k{n}", f"v{n}") for n in range(count)))

    def open(self) -> ClaimStore:
        store = open_claims(self.dsn, self.table)
        store.open()
        self.stack.callback(store.close)
        return store

    def count(self, where: str = "1 = 1") -> int:
        return int(self.sql(f"SELECT count(*) FROM {{outbox}} WHERE {where}")[0][0])

    def state(self, row: int) -> tuple[Any, ...]:
        """What a store may change of a row."""
        (state,) = self.sql(
            f"SELECT leader_id, not_before, attempts, last_error FROM {{outbox}} WHERE id = {row}"
        )
        return (None if state[0] is None else str(state[0]), *state[1:])

    def expire(self, *rows: int) -> None:
        """Let the lease or the delay of these rows be over."""
        listed = ", ".join(map(str, rows))
        self.sql(f"UPDATE {{outbox}} SET not_before = '{LONG_AGO}' WHERE id IN ({listed})")

    def cut(self, store: Any) -> None:
        """Take away the connections of a store under its feet."""
        match self.system:
            case "postgresql":
                self.sql(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )
            case "mysql":
                with self.connect() as connection, connection.cursor() as cursor:
                    cursor.execute(
                        "SELECT id FROM information_schema.processlist"
                        " WHERE db = DATABASE() AND id <> CONNECTION_ID()"
                    )
                    for (number,) in cursor.fetchall():
                        cursor.execute(f"KILL {number}")
            case "sqlite":
                store._session._connection.close()

    @contextmanager
    def locked(self, rows: Sequence[int]) -> Iterator[None]:
        """Somebody else is just about to change these rows, and does not in the end."""
        table = f"{self.name()} {self.dialect.by_id}" if self.dialect else self.name()
        where = f"id IN ({', '.join(map(str, rows))}) AND attempts >= 0"
        with self.connect(autocommit=False) as connection, connection.cursor() as cursor:
            cursor.execute(f"SELECT id FROM {table} WHERE {where} FOR UPDATE")
            yield
            connection.rollback()

    def clear(self) -> None:
        """Close what was opened, and leave nothing behind for the next test."""
        self.stack.close()
        for suffix in ("", "_dead"):
            self.sql(f"DELETE FROM {self.name(suffix)}")


@contextmanager
def new_place(system: str, request: pytest.FixtureRequest) -> Iterator[Place]:
    """An outbox in a database of its own, on the server of this run."""
    name = f"test_{secrets.token_hex(6)}"
    with ExitStack() as stack:
        match system:
            case "postgresql":
                server: Postgres = request.getfixturevalue("postgres_server")
                dsn = server.create_database(name, template="template0")
                stack.callback(server.drop_database, name)
            case "mysql":
                address = request.getfixturevalue("mariadb")
                dsn = dsn_of(address, name)
                admin = stack.enter_context(closing(pymysql.connect(**connect_arguments(address))))
                admin.cursor().execute(f"CREATE DATABASE {name}")
                stack.callback(admin.cursor().execute, f"DROP DATABASE {name}")
            case _:
                directory = request.getfixturevalue("tmp_path_factory").mktemp(name)
                dsn = f"sqlite:///{directory}/a database.db"
        place = Place(dsn)
        place.prepare()
        yield place
