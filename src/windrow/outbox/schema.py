"""The outbox's tables over time: which migrations there are, and which are applied.

A migration is a numbered SQL file. Each is safe while the previous release is running: it adds
what may be absent and takes nothing away, and it may be run again. The list of applied ones is kept
beside the outbox.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any

from windrow.extras import require
from windrow.outbox.errors import Blocked, WrongSchema
from windrow.outbox.queries import load_queries
from windrow.outbox.table import Table, quote, quote_text

if TYPE_CHECKING:
    import psycopg

COMPANIONS = (
    "epoch",
    "lease",
    "member",
    "doorbell",
    "source",
    "batch",
    "dead",
    "hold",
    "audit",
)
LOCK_TIMEOUT = 5.0
"""How long a migration waits for the table: every writer waits behind it for as long."""


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of the schema."""

    number: int
    name: str
    sql: str

    @property
    def touches_outbox(self) -> bool:
        """Whether it changes the outbox itself, and not only the tables beside it."""
        return "{outbox}" in self.sql

    def statement(self, table: Table) -> str:
        """The SQL for that table, names quoted."""
        names = {name: table.companion(f"_{name}") for name in COMPANIONS}
        return self.sql.format(outbox=table.sql, **names)

    def entry(self, table: Table) -> str:
        """The SQL that writes it down as applied."""
        journal = table.companion("_migrations")
        return (
            f"INSERT INTO {journal} (number, name) VALUES ({self.number}, {quote_text(self.name)})"
            " ON CONFLICT DO NOTHING;"
        )


def migrations(*, companions_only: bool = False) -> list[Migration]:
    """All steps, in order; or those that leave the outbox itself as it is."""
    files = resources.files("windrow.outbox.migrations").iterdir()
    found = [
        Migration(int(match[1]), match[2], file.read_text(encoding="utf-8"))
        for file in files
        if (match := re.fullmatch(r"(\d{4})_(\w+)\.sql", file.name))
    ]
    kept = [step for step in found if not (companions_only and step.touches_outbox)]
    return sorted(kept, key=lambda migration: migration.number)


def prologue(table: Table) -> str:
    """The SQL that comes before the steps: a schema, and where the steps are written down."""
    schema = "" if table.schema is None else f"CREATE SCHEMA IF NOT EXISTS {quote(table.schema)};\n"
    return (
        f"{schema}CREATE TABLE IF NOT EXISTS {table.companion('_migrations')} (\n"
        "  number     INTEGER PRIMARY KEY,\n"
        "  name       TEXT NOT NULL,\n"
        "  applied_at TIMESTAMP WITH TIME ZONE NOT NULL DEFAULT now()\n"
        ");"
    )


def script(table: Table, *, companions_only: bool = False) -> str:
    """All steps as SQL for a person to run; what is there already stays as it is."""
    steps = migrations(companions_only=companions_only)
    parts = [f"{step.statement(table).strip()}\n{step.entry(table)}" for step in steps]
    return "\n\n".join(["BEGIN;", prologue(table), *parts, "COMMIT;"])


def applied(connection: psycopg.Connection[Any], table: Table) -> set[int]:
    """The numbers of the steps this outbox has had."""
    name = table.companion("_migrations")
    row = connection.execute("SELECT to_regclass(%s) IS NULL", (name,)).fetchone()
    if row is not None and row[0]:
        return set()
    return {row[0] for row in connection.execute(f"SELECT number FROM {name}")}


def pending(
    connection: psycopg.Connection[Any], table: Table, *, companions_only: bool = False
) -> list[Migration]:
    """The steps that this outbox has not had, in order."""
    done = applied(connection, table)
    steps = migrations(companions_only=companions_only)
    return [step for step in steps if step.number not in done]


def require_outbox(connection: psycopg.Connection[Any], table: Table) -> None:
    """Refuse to go on where there is no outbox: the name may be a slip of the pen.

    Raises:
        WrongSchema: The table does not exist.
    """
    row = connection.execute("SELECT to_regclass(%s) IS NULL", (table.sql,)).fetchone()
    if row is not None and row[0]:
        raise WrongSchema(str(table), "does not exist", "windrow init")


def migrate(
    connection: psycopg.Connection[Any],
    table: Table,
    *,
    companions_only: bool = False,
    lock_timeout: float = LOCK_TIMEOUT,
) -> list[Migration]:
    """Apply what is missing, in one transaction; returns the steps taken.

    Safe to run twice and from two places at once: the second waits, and finds nothing to do.

    Args:
        connection: Of a role that owns the table, or may create it; autocommit.
        table: The outbox.
        companions_only: Leave the outbox itself as it is, as goharvest or Debezium made it.
        lock_timeout: How long to wait for the table.

    Raises:
        Blocked: Somebody held the table for longer than that. Nothing was changed.
    """
    try:
        with connection.transaction():
            connection.execute(
                "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))",
                (f"windrow migrate {table}",),
            )
            # An ALTER that waits for a long transaction makes every writer wait behind it.
            connection.execute(f"SET LOCAL lock_timeout = {round(lock_timeout * 1000)}")
            connection.execute(prologue(table))
            missing = pending(connection, table, companions_only=companions_only)
            for step in missing:
                connection.execute(step.statement(table))
                connection.execute(step.entry(table))
    except require("psycopg").errors.LockNotAvailable as error:
        raise Blocked(str(table), lock_timeout, _holders(connection, table)) from error
    return missing


def _holders(connection: psycopg.Connection[Any], table: Table) -> tuple[str, ...]:
    """Who has the outbox or a companion in use at this moment, as sentences."""
    query = load_queries("windrow.outbox", "facts.sql")["holders"]
    suffixes = ["", *(f"_{name}" for name in (*COMPANIONS, "migrations"))]
    names = [table.companion(suffix) for suffix in suffixes]
    rows = connection.execute(query, {"tables": names}).fetchall()
    return tuple(
        f"pid {pid} ({application or 'unnamed'}, {state}, for {seconds:.0f} s)"
        for pid, application, state, seconds in rows
    )
