"""An outbox of MySQL or SQLite over time: which steps there are, and which it has had.

As in PostgreSQL a step is a numbered file, may be run again, and takes nothing away.
"""

from __future__ import annotations

import re
from importlib import resources
from typing import Any
from uuid import uuid4

from windrow.outbox.dialects.connecting import run, transaction
from windrow.outbox.dialects.names import COMPANIONS, MYSQL, Dialect
from windrow.outbox.errors import Blocked, WrongSchema
from windrow.outbox.health import Finding, init_option
from windrow.outbox.schema import LOCK_TIMEOUT, Migration
from windrow.outbox.table import WINDROW, Table, quote_text

_COMMENT = re.compile(r"^--.*\n?", re.MULTILINE)
COLUMNS = frozenset(WINDROW.used)
MOMENT_TYPE = {"mysql": "DATETIME(6)", "sqlite": "TEXT"}


def migrations(dialect: Dialect) -> list[Migration]:
    """All steps, in order."""
    files = resources.files("windrow.outbox.dialects").joinpath(dialect.system).iterdir()
    found = [
        Migration(int(match[1]), match[2], file.read_text(encoding="utf-8"))
        for file in files
        if (match := re.fullmatch(r"(\d{4})_(\w+)\.sql", file.name))
    ]
    return sorted(found, key=lambda step: step.number)


def script(dialect: Dialect, table: Table) -> str:
    """All steps as SQL for a person to run; what is there already stays as it is."""
    statements = [_prologue(dialect, table)]
    for step in migrations(dialect):
        statements += [*_statements(dialect, step, table), _entry(dialect, step, table)]
    statements.append(_incarnation(dialect, table))
    return "\n\n".join(f"{statement};" for statement in statements)


def migrate(
    connection: Any, dialect: Dialect, table: Table, *, lock_timeout: float = LOCK_TIMEOUT
) -> list[Migration]:
    """Apply what is missing; returns the steps taken. Safe to run twice, and from two places.

    Args:
        connection: Of PyMySQL or sqlite3, in autocommit; it may create tables.
        dialect: Whose it is.
        table: The outbox.
        lock_timeout: How long to wait for somebody else who does the same.

    Raises:
        Blocked: Somebody else did the same for longer than that. Nothing was changed.
    """
    if dialect is MYSQL:  # where a CREATE TABLE commits by itself, so only a lock keeps others out
        lock = f"windrow migrate {table}"[-64:]
        if run(connection, "SELECT GET_LOCK(%s, %s)", (lock, lock_timeout)) != [(1,)]:
            raise Blocked(str(table), lock_timeout, ("another migration",))
        try:
            return _apply(connection, dialect, table)
        finally:
            run(connection, "SELECT RELEASE_LOCK(%s)", (lock,))
    run(connection, "PRAGMA journal_mode = WAL")
    with transaction(connection, dialect):
        return _apply(connection, dialect, table)


def _apply(connection: Any, dialect: Dialect, table: Table) -> list[Migration]:
    run(connection, _prologue(dialect, table))
    missing = pending(connection, dialect, table)
    for step in missing:
        for statement in [*_statements(dialect, step, table), _entry(dialect, step, table)]:
            run(connection, statement)
    run(connection, _incarnation(dialect, table))
    return missing


def pending(connection: Any, dialect: Dialect, table: Table) -> list[Migration]:
    """The steps that this outbox has not had, in order."""
    done: set[int] = set()
    if columns_of(connection, dialect, table, "_migrations"):
        journal = dialect.table(table, "_migrations")
        done = {row[0] for row in run(connection, f"SELECT number FROM {journal}")}
    return [step for step in migrations(dialect) if step.number not in done]


def require_outbox(connection: Any, dialect: Dialect, table: Table) -> None:
    """Refuse to go on where there is no outbox, or one that lacks something.

    Raises:
        WrongSchema: The table does not exist, or is not up to date.
    """
    present = columns_of(connection, dialect, table)
    if not present:
        raise WrongSchema(str(table), "does not exist", "windrow init")
    missing = COLUMNS - present
    if missing:
        raise WrongSchema(str(table), f"has no column {min(missing)}", "windrow check")
    for companion in COMPANIONS:
        if not columns_of(connection, dialect, table, f"_{companion}"):
            raise WrongSchema(f"{table}_{companion}", "does not exist", "windrow init")


def check(connection: Any, dialect: Dialect, table: Table) -> list[Finding]:
    """What is off with that outbox."""
    present = columns_of(connection, dialect, table)
    init = f"windrow init{init_option(table)}"
    if not present:
        return [Finding("problem", f"table {table}", "does not exist", init)]
    findings = [
        Finding("problem", f"column {name}", "is missing", f"put it back, as in: {init} --print")
        for name in sorted(COLUMNS - present)
    ]
    findings += [
        Finding("problem", f"table {table}_{companion}", "is missing", init)
        for companion in COMPANIONS
        if not columns_of(connection, dialect, table, f"_{companion}")
    ]
    missing = pending(connection, dialect, table)
    if missing:
        names = ", ".join(f"{step.number:04} {step.name}" for step in missing)
        text = f"{len(missing)} steps have not been applied: {names}"
        command = f"windrow migrate{init_option(table)}"
        findings.append(Finding("problem", "migrations", text, command))
    return findings + (_on_server(connection, table) if dialect is MYSQL else _on_file(connection))


def _on_server(connection: Any, table: Table) -> list[Finding]:
    query = (
        "SELECT engine FROM information_schema.tables"
        " WHERE table_schema = COALESCE(%s, DATABASE()) AND table_name = %s"
    )
    ((engine,),) = run(connection, query, (table.schema, table.name))
    if engine == "InnoDB":
        return []
    text = f"is kept by {engine}: without transactions an event can exist without its data"
    alter = f"ALTER TABLE {MYSQL.table(table)} ENGINE = InnoDB"
    return [Finding("problem", f"table {table}", text, alter)]


def _on_file(connection: Any) -> list[Finding]:
    ((mode,),) = run(connection, "PRAGMA journal_mode")
    if mode == "wal":
        return []
    text = f"is {mode}: whoever reads makes writers wait, and so the other way round"
    return [Finding("advice", "journal_mode", text, "PRAGMA journal_mode = WAL")]


def columns_of(connection: Any, dialect: Dialect, table: Table, suffix: str = "") -> set[str]:
    """The columns of the outbox or of a table beside it; none if it does not exist."""
    name = table.name + suffix
    if dialect is MYSQL:
        query = (
            "SELECT column_name FROM information_schema.columns"
            " WHERE table_schema = COALESCE(%s, DATABASE()) AND table_name = %s"
        )
        return {row[0].lower() for row in run(connection, query, (table.schema, name))}
    query = "SELECT name FROM pragma_table_info(?, ?)"
    return {row[0].lower() for row in run(connection, query, (name, table.schema or "main"))}


def _prologue(dialect: Dialect, table: Table) -> str:
    moment: str = MOMENT_TYPE[dialect.system]
    return (
        f"CREATE TABLE IF NOT EXISTS {dialect.table(table, '_migrations')} (\n"
        "  number     INTEGER NOT NULL PRIMARY KEY,\n"
        "  name       VARCHAR(100) NOT NULL,\n"
        f"  applied_at {moment} NOT NULL DEFAULT ({dialect.now})\n"
        ")"
    )


def _statements(dialect: Dialect, step: Migration, table: Table) -> list[str]:
    names = {name: dialect.table(table, f"_{name}") for name in COMPANIONS}
    sql = _COMMENT.sub("", step.sql).format(
        outbox=dialect.table(table),
        unqualified=dialect.quote(table.name),
        due_index=dialect.table(table, "_due"),
        topics_index=dialect.table(table, "_topics"),
        **names,
    )
    return [statement.strip() for statement in sql.split(";\n") if statement.strip()]


def _entry(dialect: Dialect, step: Migration, table: Table) -> str:
    values = f"({step.number}, {quote_text(step.name)})"
    return _insert_if_absent(dialect, table, "_migrations", "(number, name)", values)


def _incarnation(dialect: Dialect, table: Table) -> str:
    values = f"(0, {quote_text(str(uuid4()))})"
    return _insert_if_absent(dialect, table, "_source", "(shard, incarnation)", values)


def _insert_if_absent(
    dialect: Dialect, table: Table, suffix: str, columns: str, values: str
) -> str:
    verb = "INSERT IGNORE" if dialect is MYSQL else "INSERT OR IGNORE"
    return f"{verb} INTO {dialect.table(table, suffix)} {columns} VALUES {values}"
