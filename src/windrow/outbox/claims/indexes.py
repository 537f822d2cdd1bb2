"""The indexes by which competing relays find their rows in PostgreSQL.

They are no step of the schema: an outbox that is led has no use for them, and its writers would pay
for them with every record. So they are made when an outbox begins to be shared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from windrow.outbox.health import Finding
from windrow.outbox.stores.statements import CLAIM_INDEXES
from windrow.outbox.table import Table, quote

if TYPE_CHECKING:
    import psycopg

PRESENT = (
    "SELECT relname::text FROM pg_class JOIN pg_index ON pg_index.indexrelid = pg_class.oid"
    " WHERE pg_index.indrelid = to_regclass(%(outbox)s) AND pg_index.indisvalid"
)
_DEFINITIONS = {
    "untried": "(id) WHERE not_before IS NULL",
    "topics": "(kafka_topic, id) WHERE not_before IS NULL",
    "again": "(not_before, id) WHERE not_before IS NOT NULL",
}


def index_statements(table: Table) -> list[str]:
    """The SQL that makes them; what is there stays."""
    # An index lies in the schema of its table, and is named without it.
    return [
        f"CREATE INDEX IF NOT EXISTS {quote(f'{table.name}_{name}')}"
        f" ON {table.sql} {_DEFINITIONS[name]}"
        for name in CLAIM_INDEXES
    ]


def missing_indexes(present: set[str], table: Table) -> list[str]:
    """Those that the outbox does not have."""
    return [name for kind in CLAIM_INDEXES if (name := f"{table.name}_{kind}") not in present]


def make_indexes(connection: psycopg.Connection[Any], table: Table) -> None:
    """Make what is missing, as the owner of the table, in one transaction."""
    with connection.transaction():
        for statement in index_statements(table):
            connection.execute(statement)


def check_indexes(connection: psycopg.Connection[Any], table: Table) -> list[Finding]:
    """What a competing relay would miss."""
    rows = connection.execute(PRESENT, {"outbox": table.sql}).fetchall()
    missing = missing_indexes({row[0] for row in rows}, table)
    text = "is missing: each claim would walk over all rows that wait"
    by_name = dict(zip(missing_indexes(set(), table), index_statements(table), strict=True))
    return [Finding("problem", f"index {name}", text, by_name[name]) for name in missing]
