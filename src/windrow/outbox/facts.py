"""Read what there is to know about an outbox, one query per fact, and have it judged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from windrow.outbox.health import Column, Facts, Finding, Holder, Index, Sequence, judge
from windrow.outbox.queries import load_queries
from windrow.outbox.schema import COMPANIONS, applied, migrations
from windrow.outbox.table import Table

if TYPE_CHECKING:
    import psycopg

QUERIES = load_queries("windrow.outbox", "facts.sql")


def check(connection: psycopg.Connection[Any], table: Table) -> list[Finding]:
    """What is off with that outbox and the server around it, what matters most first."""
    return judge(table, read_facts(connection, table), migrations())


def read_facts(connection: psycopg.Connection[Any], table: Table) -> Facts:
    """The facts, as they are now; changes nothing."""

    def rows(query: str, **parameters: Any) -> list[tuple[Any, ...]]:
        return connection.execute(QUERIES[query], parameters or None).fetchall()

    name_of = {table.companion(f"_{companion}"): companion for companion in COMPANIONS}
    present = {row[0] for row in rows("relations", tables=[table.sql, *name_of])}
    if table.sql not in present:
        return Facts(exists=False)
    ((persistence, options),) = rows("storage", outbox=table.sql)
    columns = {name: Column(kind, n) for name, kind, n in rows("columns", outbox=table.sql)}
    sequences = [Sequence(*row) for row in rows("sequence", outbox=table.sql)]
    indexes = [
        Index(name, is_whole, first, frozenset(names))
        for name, is_whole, first, names in rows("indexes", outbox=table.sql)
    ]
    return Facts(
        exists=True,
        companions=frozenset(name_of[name] for name in present if name in name_of),
        applied=frozenset(applied(connection, table)),
        is_permanent=persistence == "p",
        options=dict(option.split("=", 1) for option in options),
        columns=columns,
        sequence=sequences[0] if sequences else None,
        indexes=tuple(indexes),
        settings=dict(rows("settings")),
        holders=tuple(Holder(*row) for row in rows("horizon")),
        sees_others=rows("sees_others")[0][0],
    )
