"""Which rights does each part need? Pure: a table and three names in, SQL out.

The writer adds records and reads back their ids. The relay reads, marks and removes them, and keeps
its own books. The reader sees how things stand, and no payload.
"""

from __future__ import annotations

from dataclasses import dataclass

from windrow.outbox.table import Table, quote, quote_text

_STATUS_COLUMNS = (
    "id, create_time, kafka_topic, kafka_key, leader_id, attempts, not_before, last_error"
)
_DEAD_COLUMNS = "dead_id, id, create_time, kafka_topic, kafka_key, attempts, last_error, buried_at"


@dataclass(frozen=True, slots=True)
class Roles:
    """The roles to grant to; services and people are then made members of them."""

    writer: str = "windrow_writer"
    relay: str = "windrow_relay"
    reader: str = "windrow_reader"


def grants(table: Table, roles: Roles | None = None) -> list[str]:
    """The statements that make the roles and give each what it needs; they may be run again."""
    roles = roles or Roles()
    writer, relay, reader = quote(roles.writer), quote(roles.relay), quote(roles.reader)
    everyone = f"{writer}, {relay}, {reader}"
    epoch, lease, hold = (table.companion(f"_{name}") for name in ("epoch", "lease", "hold"))
    dead, audit, journal = (table.companion(f"_{name}") for name in ("dead", "audit", "migrations"))
    member, doorbell = table.companion("_member"), table.companion("_doorbell")
    source, batch = table.companion("_source"), table.companion("_batch")
    return [
        *(_create(role) for role in (roles.writer, roles.relay, roles.reader)),
        _on_schema(table, everyone),
        f"GRANT INSERT ON {table.sql} TO {writer};",
        # An INSERT that returns the id reads that column.
        f"GRANT SELECT (id) ON {table.sql} TO {writer};",
        _on_sequence(table.sql, "id", writer),
        f"GRANT SELECT, UPDATE, DELETE ON {table.sql} TO {relay};",
        # To see whether a relay sleeps.
        f"GRANT SELECT ON {doorbell} TO {writer};",
        f"GRANT SELECT, INSERT, UPDATE ON {epoch}, {lease}, {doorbell}, {source} TO {relay};",
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON {hold}, {dead}, {member}, {batch} TO {relay};",
        _on_sequence(dead, "dead_id", relay),
        f"GRANT SELECT, INSERT ON {audit} TO {relay};",
        f"GRANT SELECT ON {journal} TO {relay};",
        f"GRANT SELECT ({_STATUS_COLUMNS}) ON {table.sql} TO {reader};",
        f"GRANT SELECT ({_DEAD_COLUMNS}) ON {dead} TO {reader};",
        f"GRANT SELECT ON {epoch}, {lease}, {member}, {hold}, {audit}, {journal} TO {reader};",
        f"GRANT SELECT ON {source}, {batch} TO {reader};",
    ]


def _create(role: str) -> str:
    """Roles belong to the whole server: it may be there for another database."""
    return _do(
        f"BEGIN CREATE ROLE {quote(role)} NOLOGIN;"
        " EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END"
    )


def _on_schema(table: Table, roles: str) -> str:
    if table.schema is not None:
        return f"GRANT USAGE ON SCHEMA {quote(table.schema)} TO {roles};"
    grant = f"format('GRANT USAGE ON SCHEMA %I TO %s', current_schema(), {quote_text(roles)})"
    return _do(f"BEGIN EXECUTE {grant}; END")


def _on_sequence(table: str, column: str, role: str) -> str:
    """By what the column owns; an identity column has one too, and asks for no right to it."""
    sequence = f"pg_get_serial_sequence({quote_text(table)}, {quote_text(column)})"
    grant = f"format('GRANT USAGE ON SEQUENCE %s TO %s', {sequence}, {quote_text(role)})"
    return _do(f"BEGIN IF {sequence} IS NOT NULL THEN EXECUTE {grant}; END IF; END")


def _do(body: str) -> str:
    tag = "$windrow$"
    while tag in body:
        tag = f"{tag[:-1]}_$"
    return f"DO {tag} {body} {tag};"
