"""What the tests of a person's work on an outbox share: a desk, and things to decide about."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.fixtures.relaying import OutboxDatabase
from windrow.relay.desk import Desk

ALL = ("deadletters.sql", "holds.sql", "status.sql")


@contextmanager
def opened(outbox: OutboxDatabase, **more: Any) -> Iterator[Desk]:
    with Desk(outbox.dsn, outbox.table, **{"who": "ann@desk", **more}) as desk:
        yield desk.open(*ALL)


def write_poison(outbox: OutboxDatabase, topic: str, key: str | None, value: str) -> int:
    """A record that no target could take: its header arrays are unequal."""
    return _one(
        outbox,
        f"INSERT INTO {outbox.table.sql} (create_time, kafka_topic, kafka_key, kafka_value,"
        " kafka_header_keys, kafka_header_values)"
        " VALUES (now(), %s, %s, %s, '{a,b}', '{}') RETURNING id",
        (topic, key, value),
    )


def mend(outbox: OutboxDatabase, suffix: str = "") -> None:
    """Make every poisoned record one that can be delivered."""
    with outbox.connect() as connection:
        connection.execute(
            f"UPDATE {outbox.table.companion(suffix)} SET kafka_header_keys = '{{}}'"
            " WHERE kafka_header_keys = '{a,b}'"
        )


def audit(outbox: OutboxDatabase) -> list[tuple[str, str, str]]:
    with outbox.connect() as connection:
        query = f"SELECT action, subject, detail FROM {outbox.table.companion('_audit')}"
        return connection.execute(query + " ORDER BY at, ctid").fetchall()


def holds(outbox: OutboxDatabase) -> list[tuple[str, str, str]]:
    with outbox.connect() as connection:
        query = f"SELECT what, name, reason FROM {outbox.table.companion('_hold')}"
        return connection.execute(query + " ORDER BY what, name").fetchall()


def dead_values(outbox: OutboxDatabase) -> list[str]:
    with outbox.connect() as connection:
        query = f"SELECT kafka_value FROM {outbox.table.companion('_dead')} ORDER BY id"
        return [row[0] for row in connection.execute(query)]


def everything(outbox: OutboxDatabase) -> dict[str, list[Any]]:
    """All rows of all tables, to see that nothing has changed."""
    found: dict[str, list[Any]] = {}
    with outbox.connect() as connection:
        for suffix in ("", "_hold", "_dead", "_audit"):
            name = outbox.table.companion(suffix)
            rows = connection.execute(f"SELECT * FROM {name}").fetchall()
            found[suffix] = sorted(rows, key=repr)
    return found


def _one(outbox: OutboxDatabase, query: str, parameters: tuple[Any, ...]) -> int:
    with outbox.connect() as connection:
        row = connection.execute(query, parameters).fetchone()
        assert row is not None
        return int(row[0])
