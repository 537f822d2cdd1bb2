"""Whatever a record may hold, the relay reads the same from the table."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fixtures.relaying import OutboxDatabase
from tests.integration.outbox.kinds import ASYNC_KINDS, SYNC_KINDS
from windrow.outbox import Outbox, Record
from windrow.outbox.marked import Marked
from windrow.outbox.stores.postgres import PostgresStore

text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"))
headers = st.lists(st.tuples(text, st.none() | text), max_size=4)
moments = st.datetimes(
    datetime(1970, 1, 2),  # noqa: DTZ001 - hypothesis adds the zone
    datetime(2200, 1, 1),  # noqa: DTZ001
    timezones=st.sampled_from([UTC, timezone(timedelta(hours=-5)), timezone(timedelta(hours=9))]),
)
records = st.builds(
    Record,
    topic=st.from_regex(r"[a-zA-Z0-9_-]{1,249}", fullmatch=True),
    key=st.none() | text,
    value=st.none() | st.binary() | text | st.just("NUL \x00 in text"),
    headers=headers,
    partition=st.none() | st.integers(0, 2**31 - 1),
    timestamp=st.none() | moments,
)


def as_marked(number: int, record: Record) -> Marked:
    value = record.value.encode() if isinstance(record.value, str) else record.value
    names, values = [h[0] for h in record.headers], [h[1] for h in record.headers]
    millis = None if record.timestamp is None else round(record.timestamp.timestamp() * 1000, 3)
    return Marked(
        number, record.topic, record.key, value, list(names), list(values), record.partition,
        millis,  # type: ignore[arg-type]  # compared to the nearest below
    )  # fmt: skip


def assert_same(seen: list[Marked], ids: list[int], written: list[Record]) -> None:
    expected = [as_marked(number, r) for number, r in zip(ids, written, strict=True)]
    assert len(seen) == len(expected)
    for one, other in zip(seen, expected, strict=True):
        assert one._replace(timestamp=None) == other._replace(timestamp=None)
        if one.timestamp is None or other.timestamp is None:
            assert one.timestamp is other.timestamp
        else:
            assert type(one.timestamp) is int
            assert abs(one.timestamp - other.timestamp) <= 0.5


@pytest.fixture(params=["mark", "diff"])
def store(shared_outbox: OutboxDatabase, request: pytest.FixtureRequest) -> Iterator[PostgresStore]:
    with PostgresStore(shared_outbox.dsn, shared_outbox.table, reader=request.param) as opened:
        opened.raise_epoch("round trip")
        yield opened


def read_and_purge(store: PostgresStore) -> list[Marked]:
    seen = store.read(uuid4(), 1_000)
    store.purge([row.id for row in seen])
    return seen


relaxed = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@relaxed
@given(written=st.lists(records, min_size=1, max_size=8), is_many=st.booleans())
def test_any_record_comes_out_as_it_went_in(
    shared_outbox: OutboxDatabase, store: PostgresStore, written: list[Record], is_many: bool
) -> None:
    outbox = Outbox()
    with SYNC_KINDS["psycopg, implicit"](shared_outbox.dsn) as connection:
        if is_many:
            ids = outbox.stash_many(connection, written)
        else:
            ids = [outbox.stash(connection, record) for record in written]
    assert_same(read_and_purge(store), ids, written)


@relaxed
@given(written=st.lists(records, min_size=1, max_size=8), is_many=st.booleans())
def test_any_record_comes_out_as_it_went_in_by_asyncpg(
    shared_outbox: OutboxDatabase, store: PostgresStore, written: list[Record], is_many: bool
) -> None:
    outbox = Outbox()

    async def write() -> list[int]:
        async with ASYNC_KINDS["asyncpg"](shared_outbox.dsn) as connection:
            if is_many:
                return await outbox.stash_many_async(connection, written)
            return [await outbox.stash_async(connection, record) for record in written]

    ids = asyncio.run(write())
    assert_same(read_and_purge(store), ids, written)


@pytest.mark.parametrize(
    "value", [b"\x00\xff" * 16_000_000, "€" * 10_000_000], ids=["bytes", "str"]
)
def test_a_value_of_many_megabytes_passes_whole(
    shared_outbox: OutboxDatabase, store: PostgresStore, value: bytes | str
) -> None:
    written = [Record("orders", "small", "1"), Record("orders", "huge", value)]
    with SYNC_KINDS["psycopg, implicit"](shared_outbox.dsn) as connection:
        ids = Outbox().stash_many(connection, written)
    assert_same(read_and_purge(store), ids, written)
