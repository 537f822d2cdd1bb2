"""The outbox's tables over time: which migrations there are, which are applied, and what is off.

A migration is a numbered SQL file. Each is safe while the previous release is running: it adds
what may be absent and takes nothing away. The list of applied ones is kept beside the outbox.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any

from windrow.outbox.table import Table, quote

if TYPE_CHECKING:
    import psycopg

COMPANIONS = ("epoch", "lease", "dead", "hold", "audit")


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of the schema."""

    number: int
    name: str
    sql: str

    def statement(self, table: Table) -> str:
        """The SQL for that table, names quoted."""
        names = {name: table.companion(f"_{name}") for name in COMPANIONS}
        return self.sql.format(outbox=table.sql, **names)


def migrations() -> list[Migration]:
    """All steps, in order."""
    files = resources.files("windrow.outbox.migrations").iterdir()
    found = [
        Migration(int(match[1]), match[2], file.read_text(encoding="utf-8"))
        for file in files
        if (match := re.fullmatch(r"(\d{4})_(\w+)\.sql", file.name))
    ]
    return sorted(found, key=lambda migration: migration.number)


def applied(connection: psycopg.Connection[Any], table: Table) -> set[int]:
    """The numbers of the steps this outbox has had."""
    name = table.companion("_migrations")
    row = connection.execute("SELECT to_regclass(%s) IS NULL", (name,)).fetchone()
    if row is not None and row[0]:
        return set()
    return {row[0] for row in connection.execute(f"SELECT number FROM {name}")}


def migrate(connection: psycopg.Connection[Any], table: Table) -> list[Migration]:
    """Apply what is missing, in one transaction; returns the steps taken.

    Safe to run twice and from two places at once: the second waits, and finds nothing to do.
    """
    journal = table.companion("_migrations")
    with connection.transaction():
        connection.execute(
            "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (f"windrow migrate {table}",)
        )
        # An ALTER that waits for a long transaction makes every writer wait behind it.
        connection.execute("SET LOCAL lock_timeout = '5s'")
        if table.schema is not None:
            connection.execute(f"CREATE SCHEMA IF NOT EXISTS {quote(table.schema)}")
        connection.execute(
            f"CREATE TABLE IF NOT EXISTS {journal} (number INTEGER PRIMARY KEY, name TEXT NOT NULL,"
            " applied_at TIMESTAMP WITH TIME ZONE NOT NULL DEFAULT now())"
        )
        done = applied(connection, table)
        missing = [step for step in migrations() if step.number not in done]
        for step in missing:
            connection.execute(step.statement(table))
            connection.execute(
                f"INSERT INTO {journal} (number, name) VALUES (%s, %s)", (step.number, step.name)
            )
    return missing
