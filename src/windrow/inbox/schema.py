"""The inbox's tables over time: which steps there are, and which are applied."""

from __future__ import annotations

import re
from importlib import resources
from typing import TYPE_CHECKING, Any

from windrow.inbox.statements import LONGEST_CONSUMER, LONGEST_ID, System
from windrow.outbox.dialects.names import MYSQL, SQLITE, Dialect
from windrow.outbox.schema import Migration, applied, prologue
from windrow.outbox.table import Table, quote

if TYPE_CHECKING:
    import psycopg

DIALECTS: dict[str, Dialect] = {"mysql": MYSQL, "sqlite": SQLITE}


def migrations() -> list[Migration]:
    """All steps in PostgreSQL, in order."""
    files = resources.files("windrow.inbox.migrations").iterdir()
    found = [
        Migration(int(match[1]), match[2], file.read_text(encoding="utf-8"))
        for file in files
        if (match := re.fullmatch(r"(\d{4})_(\w+)\.sql", file.name))
    ]
    return sorted(found, key=lambda step: step.number)


def schema_sql(table: str | Table = "inbox", system: System = "postgresql") -> str:
    """All of it as SQL for a person or a migration to run; what is there already stays.

    Args:
        table: ``inbox`` or ``schema.inbox``.
        system: The database. In MySQL and SQLite there is the inbox alone, and no place for the
            answers of an HTTP receiver.
    """
    inbox = Table.parse(table) if isinstance(table, str) else table
    if system in DIALECTS:
        return ";\n".join([*plain_schema(DIALECTS[system], inbox), ""])
    steps = [f"{_statement(step, inbox).strip()}\n{step.entry(inbox)}" for step in migrations()]
    return "\n\n".join(["BEGIN;", prologue(inbox), *steps, "COMMIT;"])


def migrate(connection: psycopg.Connection[Any], table: Table) -> list[Migration]:
    """Apply what is missing, in one transaction; returns the steps taken.

    Safe to run twice and from two places at once: the second waits, and finds nothing to do.

    Args:
        connection: Of a role that may create the tables; autocommit.
        table: The inbox.
    """
    with connection.transaction():
        connection.execute(
            "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (f"windrow inbox {table}",)
        )
        connection.execute(prologue(table))
        done = applied(connection, table)
        missing = [step for step in migrations() if step.number not in done]
        for step in missing:
            connection.execute(_statement(step, table))
            connection.execute(step.entry(table))
    return missing


def plain_schema(dialect: Dialect, table: Table) -> list[str]:
    """The statements for MySQL and SQLite; what is there already stays."""
    inbox, index = dialect.table(table), dialect.quote(f"{table.name}_claimed_at")
    if dialect is MYSQL:
        # Bytes: a collation would take ids for the same that differ in case or trailing spaces.
        return [
            f"CREATE TABLE IF NOT EXISTS {inbox} ("
            f"consumer VARBINARY({LONGEST_CONSUMER}) NOT NULL,"
            f" message_id VARBINARY({LONGEST_ID}) NOT NULL,"
            f" claimed_at DATETIME(6) NOT NULL, PRIMARY KEY (consumer, message_id),"
            f" INDEX {index} (claimed_at)) ENGINE=InnoDB"
        ]
    return [
        f"CREATE TABLE IF NOT EXISTS {inbox} (consumer TEXT NOT NULL, message_id TEXT NOT NULL,"
        " claimed_at TEXT NOT NULL, PRIMARY KEY (consumer, message_id))",
        f"CREATE INDEX IF NOT EXISTS {index} ON {dialect.quote(table.name)} (claimed_at)",
    ]


def _statement(step: Migration, table: Table) -> str:
    return step.sql.format(
        inbox=table.sql,
        inbox_index=quote(f"{table.name}_claimed"),
        answers=table.companion("_answers"),
        answers_index=quote(f"{table.name}_answered"),
    )
