"""Ways to stash: every sort of connection, and every way in, as one function each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.fixtures.relaying import OutboxDatabase
from tests.integration.outbox.kinds import ASYNC_KINDS, SYNC_KINDS
from windrow.outbox import Outbox, Record

Write = Callable[..., list[int]]


class Undone(Exception):
    """What a caller's code raises to have its transaction rolled back."""


def sync_writer(name: str) -> Write:
    """Opens a transaction, stashes, and ends it as it is told."""

    def stash(
        dsn: str,
        records: list[Record],
        how: str = "one by one",
        table: str = "outbox",
        *,
        undo: bool = False,
    ) -> list[int]:
        outbox = Outbox(table)
        with SYNC_KINDS[name](dsn) as connection:
            if how == "one by one":
                ids = [outbox.stash(connection, record) for record in records]
            elif how == "prepared":
                prepared = outbox.prepare(connection)
                ids = [prepared.stash(record) for record in records]
            elif how == "collected":
                ids = []
                with outbox.collect(connection) as events:
                    events.stash_many(records)
            else:
                ids = outbox.stash_many(connection, records)
            if undo:
                raise Undone
        return ids

    def write(*arguments: Any, undo: bool = False) -> list[int]:
        if not undo:
            return stash(*arguments)
        with pytest.raises(Undone):
            stash(*arguments, undo=True)
        return []

    return write


def async_writer(name: str) -> Write:
    async def stash(
        dsn: str,
        records: list[Record],
        how: str = "one by one",
        table: str = "outbox",
        *,
        undo: bool = False,
    ) -> list[int]:
        outbox = Outbox(table)
        async with ASYNC_KINDS[name](dsn) as connection:
            if how == "one by one":
                ids = [await outbox.stash_async(connection, record) for record in records]
            elif how == "prepared":
                prepared = outbox.prepare_async(connection)
                ids = [await prepared.stash(record) for record in records]
            elif how == "collected":
                ids = []
                async with outbox.collect(connection) as events:
                    events.stash_many(records)
            else:
                ids = await outbox.stash_many_async(connection, records)
            if undo:
                raise Undone
        return ids

    def write(*arguments: Any, undo: bool = False) -> list[int]:
        if not undo:
            return asyncio.run(stash(*arguments))
        with pytest.raises(Undone):
            asyncio.run(stash(*arguments, undo=True))
        return []

    return write


WRITERS: dict[str, Write] = {
    **{f"sync {name}": sync_writer(name) for name in SYNC_KINDS},
    **{f"async {name}": async_writer(name) for name in ASYNC_KINDS},
}
HOWS = ["one by one", "prepared", "many", "collected"]

RECORDS = [
    Record("orders", "a", "text ✓ with \"quotes\", 'ticks', {braces}, 100 %s and \\backslashes"),
    Record("orders", "b", None, {"h": "1", "empty": "", "none": None, 'q"\\,{}NULL': "NULL"}),
    Record("orders", "c", b"\x00\xff bytes", [("twice", "1"), ("twice", "2")]),
    Record("orders", None, "no key", partition=3, timestamp=datetime(2026, 5, 1, tzinfo=UTC)),
]


def stored(outbox: OutboxDatabase) -> list[tuple[Any, ...]]:
    with outbox.connect() as connection:
        return connection.execute(
            "SELECT kafka_topic, kafka_key, kafka_value, kafka_value_bytes, kafka_header_keys,"
            " kafka_header_values, kafka_partition, kafka_timestamp, leader_id IS NULL,"
            f" create_time <= now() FROM {outbox.table.sql} ORDER BY id"
        ).fetchall()


def as_row(record: Record) -> tuple[Any, ...]:
    text = record.value if isinstance(record.value, str) else None
    data = record.value if isinstance(record.value, bytes) else None
    names, values = [h[0] for h in record.headers], [h[1] for h in record.headers]
    return (
        record.topic, record.key, text, data, names, values, record.partition, record.timestamp,
        True, True,
    )  # fmt: skip


def stored_ids(outbox: OutboxDatabase) -> list[int]:
    with outbox.connect() as connection:
        return [
            row[0] for row in connection.execute(f"SELECT id FROM {outbox.table.sql} ORDER BY id")
        ]


def empty(outbox: OutboxDatabase) -> None:
    with outbox.connect() as connection:
        connection.execute(f"DELETE FROM {outbox.table.sql}")
