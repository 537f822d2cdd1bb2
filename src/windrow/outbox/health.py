"""What is wrong with an outbox, and what to do about it? Pure: facts in, findings out."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from windrow.outbox.schema import COMPANIONS, Migration
from windrow.outbox.table import Table, quote, quote_text

Level = Literal["problem", "advice", "note"]

OLD_TRANSACTION = 300.0
"""Seconds after which an open transaction is in the way of every mark."""
OLD_HORIZON = 1_000_000
"""Transactions after which a standby or a slot in use is in the way as well."""

FILLFACTOR = 45
MAX_FILLFACTOR = 50
"""Two versions of a row have to fit on its page, or each mark also writes to the index."""
VACUUM = {"autovacuum_vacuum_scale_factor": "0", "autovacuum_vacuum_threshold": "5000"}

GOHARVEST_COLUMNS = {
    "id": "BIGSERIAL PRIMARY KEY",
    "create_time": "TIMESTAMPTZ NOT NULL DEFAULT now()",
    "kafka_topic": "VARCHAR(249)",
    "kafka_key": "VARCHAR",
    "kafka_value": "VARCHAR",
    "kafka_header_keys": "TEXT[] NOT NULL DEFAULT '{}'",
    "kafka_header_values": "TEXT[] NOT NULL DEFAULT '{}'",
    "leader_id": "UUID",
}
"""What every outbox has, and how to get back one that was dropped."""
EXTENSION_COLUMNS = (
    "kafka_value_bytes",
    "kafka_partition",
    "kafka_timestamp",
    "attempts",
    "not_before",
    "last_error",
)
EXTENSION_MIGRATION = 2
COMPANION_MIGRATION = 3
LONGEST_TOPIC = 249


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the outbox."""

    type: str
    length: int | None = None


@dataclass(frozen=True, slots=True)
class Sequence:
    """Where ids come from."""

    name: str
    cache: int = 1
    increment: int = 1
    cycles: bool = False


@dataclass(frozen=True, slots=True)
class Index:
    """An index of the outbox, and every column it depends on."""

    name: str
    is_whole: bool
    first: str
    columns: frozenset[str]


@dataclass(frozen=True, slots=True)
class Holder:
    """Somebody who keeps dead rows, or the log, from being removed."""

    kind: Literal["transaction", "prepared", "slot", "standby", "decoder"]
    name: str
    state: str
    is_active: bool
    transactions: int
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """What was read from the database, and not yet judged."""

    exists: bool
    companions: frozenset[str] = frozenset()
    applied: frozenset[int] = frozenset()
    is_permanent: bool = True
    options: Mapping[str, str] = field(default_factory=dict)
    columns: Mapping[str, Column] = field(default_factory=dict)
    sequence: Sequence | None = None
    indexes: tuple[Index, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    holders: tuple[Holder, ...] = ()
    sees_others: bool = True


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is off, and the command or statement to run next."""

    level: Level
    subject: str
    text: str
    next: str


def judge(table: Table, facts: Facts, steps: list[Migration]) -> list[Finding]:
    """All that is off, what matters most first.

    Args:
        table: The outbox.
        facts: What was read about it.
        steps: Every migration there is.
    """
    if not facts.exists:
        text = "does not exist"
        return [Finding("problem", f"table {table}", text, f"windrow init{init_option(table)}")]
    findings = [
        *_on_migrations(table, facts, steps),
        *_on_columns(table, facts),
        *_on_companions(table, facts),
        *_on_sequence(table, facts),
        *_on_storage(table, facts),
        *_on_indexes(table, facts),
        *_on_settings(facts),
        *_on_horizon(facts),
    ]
    order: tuple[Level, ...] = ("problem", "advice", "note")
    return sorted(findings, key=lambda finding: order.index(finding.level))


def _on_migrations(table: Table, facts: Facts, steps: list[Migration]) -> Iterator[Finding]:
    missing = [step for step in steps if step.number not in facts.applied]
    if missing:
        names = ", ".join(f"{step.number:04} {step.name}" for step in missing)
        text = f"{len(missing)} steps have not been applied: {names}"
        # An outbox that was to stay as it is lacks all the steps that touch it, and no other.
        is_left_alone = (
            all(step.touches_outbox for step in missing)
            and EXTENSION_MIGRATION not in facts.applied
        )
        level: Level = "advice" if is_left_alone else "problem"
        yield Finding(level, "migrations", text, f"windrow migrate{init_option(table)}")


def _on_columns(table: Table, facts: Facts) -> Iterator[Finding]:
    for name, definition in GOHARVEST_COLUMNS.items():
        if name not in facts.columns:
            alter = f"ALTER TABLE {table.sql} ADD COLUMN {name} {definition}"
            yield Finding("problem", f"column {name}", "is missing", alter)
    if EXTENSION_MIGRATION in facts.applied:
        for name in EXTENSION_COLUMNS:
            if name not in facts.columns:
                remedy = _again(table, EXTENSION_MIGRATION)
                yield Finding("problem", f"column {name}", "is missing", remedy)
    kind = facts.columns.get("id")
    if kind is not None and kind.type != "bigint":
        text = f"is {kind.type}: it runs out, and cannot be read by ranges"
        alter = f"ALTER TABLE {table.sql} ALTER COLUMN id TYPE bigint"
        yield Finding("problem", "column id", text, alter)
    for name, column in facts.columns.items():
        is_enough = name == "kafka_topic" and (column.length or 0) >= LONGEST_TOPIC
        if column.length is not None and name.startswith("kafka_") and not is_enough:
            text = f"takes {column.length} characters; a longer one fails the writer's transaction"
            alter = f"ALTER TABLE {table.sql} ALTER COLUMN {quote(name)} TYPE varchar"
            yield Finding("note", f"column {name}", text, alter)


def _on_companions(table: Table, facts: Facts) -> Iterator[Finding]:
    if COMPANION_MIGRATION in facts.applied:
        for name in COMPANIONS:
            if name not in facts.companions:
                subject = f"table {table}_{name}"
                yield Finding("problem", subject, "is missing", _again(table, COMPANION_MIGRATION))


def _again(table: Table, step: int) -> str:
    journal = table.companion("_migrations")
    return f"DELETE FROM {journal} WHERE number = {step}; then: windrow migrate{init_option(table)}"


def init_option(table: Table) -> str:
    """How a command is told of that table; nothing if it is the usual one."""
    return "" if table == Table() else f" --table {shlex.quote(table.written)}"


def _on_sequence(table: Table, facts: Facts) -> Iterator[Finding]:
    sequence = facts.sequence
    if sequence is None:
        if "id" in facts.columns:
            text = "no sequence gives the ids, so their order is whatever the writers make it"
            alter = f"ALTER TABLE {table.sql} ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY"
            yield Finding("problem", "sequence", text, alter)
        return
    subject = f"sequence {sequence.name}"
    if sequence.cache != 1:
        text = (
            f"hands out {sequence.cache} ids at a time, so a later transaction can get a smaller"
            " id and records of one key leave in the wrong order"
        )
        yield Finding("problem", subject, text, f"ALTER SEQUENCE {sequence.name} CACHE 1")
    if sequence.increment < 1:
        text = f"counts by {sequence.increment}, so the latest record would leave first"
        yield Finding("problem", subject, text, f"ALTER SEQUENCE {sequence.name} INCREMENT BY 1")
    if sequence.cycles:
        text = "begins anew when it ends, so the latest record would leave first"
        yield Finding("problem", subject, text, f"ALTER SEQUENCE {sequence.name} NO CYCLE")


def _on_storage(table: Table, facts: Facts) -> Iterator[Finding]:
    if not facts.is_permanent:
        text = "is unlogged or temporary: a crash of the server empties it"
        yield Finding("problem", f"table {table}", text, f"ALTER TABLE {table.sql} SET LOGGED")
    if EXTENSION_MIGRATION not in facts.applied:
        return  # the step sets all of these
    if facts.options.get("autovacuum_enabled") in ("false", "off", "0"):
        text = "is switched off for the table: dead rows pile up, and every read walks over them"
        alter = f"ALTER TABLE {table.sql} RESET (autovacuum_enabled)"
        yield Finding("problem", "autovacuum", text, alter)
    fillfactor = int(facts.options.get("fillfactor", 100))
    if fillfactor > MAX_FILLFACTOR:
        text = f"is {fillfactor}: the marked version of a row finds no room on its page"
        alter = f"ALTER TABLE {table.sql} SET (fillfactor = {FILLFACTOR})"
        yield Finding("advice", "fillfactor", text, alter)
    wrong = {name: value for name, value in VACUUM.items() if facts.options.get(name) != value}
    if wrong:
        now = ", ".join(f"{name} = {facts.options.get(name, 'default')}" for name in wrong)
        text = f"{now}: a share of a table that is nearly empty says nothing"
        settings = ", ".join(f"{name} = {value}" for name, value in wrong.items())
        yield Finding("advice", "autovacuum", text, f"ALTER TABLE {table.sql} SET ({settings})")


def _on_indexes(table: Table, facts: Facts) -> Iterator[Finding]:
    if not any(index.is_whole and index.first == "id" for index in facts.indexes):
        text = "there is none that begins with id, so every read sorts the whole table"
        alter = f"CREATE UNIQUE INDEX CONCURRENTLY ON {table.sql} (id)"
        yield Finding("problem", "index", text, alter)
    for index in facts.indexes:
        if "leader_id" in index.columns:
            text = "is on leader_id: each mark has to write to it, and no read uses it"
            yield Finding("advice", f"index {index.name}", text, f"DROP INDEX {index.name}")


def _on_settings(facts: Facts) -> Iterator[Finding]:
    if facts.settings.get("autovacuum") == "off":
        text = "is switched off on the server: dead rows pile up, and every read walks over them"
        yield Finding("problem", "autovacuum", text, "ALTER SYSTEM SET autovacuum = on")
    if facts.settings.get("wal_level") == "logical":
        text = "is logical: a mark logs the whole row, about eight times as much as at replica"
        advice = "take the reader diff, or set wal_level = replica if nobody decodes"
        yield Finding("note", "wal_level", text, advice)


def _on_horizon(facts: Facts) -> Iterator[Finding]:
    for holder in facts.holders:
        level = _level_of(holder)
        if level is not None:
            yield Finding(level, _name_of(holder), _harm_of(holder), _end_of(holder))
    if not facts.sees_others:
        text = "this role is not shown them, so an old transaction would not be found"
        yield Finding("note", "other sessions", text, "GRANT pg_read_all_stats TO CURRENT_USER")


def _level_of(holder: Holder) -> Level | None:
    if holder.kind in ("transaction", "prepared"):
        return "problem" if (holder.seconds or 0) >= OLD_TRANSACTION else None
    if holder.kind == "decoder":
        return None if holder.is_active else "advice"
    if not holder.is_active:
        return "problem"
    return "advice" if holder.transactions >= OLD_HORIZON else None


def _name_of(holder: Holder) -> str:
    match holder.kind:
        case "transaction":
            return f"transaction of pid {holder.name}"
        case "prepared":
            return f"prepared transaction {holder.name}"
        case "slot" | "decoder":
            return f"replication slot {holder.name}"
        case "standby":
            return f"standby {holder.name}"


def _harm_of(holder: Holder) -> str:
    if holder.kind == "decoder":
        return "is read by nobody: the log that it keeps grows until the disk is full"
    age = f"{holder.transactions} transactions"
    if holder.seconds is not None:
        age = f"{holder.seconds:.0f} s and {age}"
    state = f", {holder.state}" if holder.state else ""
    return f"has held the horizon for {age}{state}: rows purged since cannot be removed"


def _end_of(holder: Holder) -> str:
    match holder.kind:
        case "transaction":
            return f"SELECT pg_terminate_backend({holder.name})"
        case "prepared":
            return f"COMMIT PREPARED or ROLLBACK PREPARED {quote_text(holder.name)}"
        case "slot" | "decoder":
            return f"SELECT pg_drop_replication_slot({quote_text(holder.name)})"
        case "standby":
            return "set hot_standby_feedback = off there, or end its long queries"
