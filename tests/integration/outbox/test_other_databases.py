"""Stashing on connections of PyMySQL and sqlite3: the same promises as on PostgreSQL."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pymysql.cursors
import pytest

from tests.contract.claim_places import Place, new_place
from windrow.outbox import (
    NotInTransaction,
    Outbox,
    Record,
    TransactionEnded,
    UnsupportedConnection,
    WrongSchema,
)

RECORDS = [Record("t", f"k{number}", f"v{number}") for number in range(3)]

Stashing = Callable[[Any, list[Record]], object]


def collected(connection: Any, records: list[Record]) -> None:
    with Outbox().collect(connection) as events:
        events.stash(records[0])
        events.stash_many(records[1:])


WAYS: dict[str, Stashing] = {
    "one by one": lambda connection, records: [Outbox().stash(connection, r) for r in records],
    "many": lambda connection, records: Outbox().stash_many(connection, records),
    "prepared": lambda connection, records: [
        Outbox().prepare(connection).stash(record) for record in records
    ],
    "collected": collected,
}


@pytest.fixture(scope="module", params=["mysql", "sqlite"])
def shared_place(request: pytest.FixtureRequest) -> Iterator[Place]:
    with new_place(request.param, request) as place:
        yield place


@pytest.fixture
def place(shared_place: Place) -> Iterator[Place]:
    yield shared_place
    shared_place.clear()


@pytest.fixture(params=["implicit", "by hand"])
def connection(place: Place, request: pytest.FixtureRequest) -> Iterator[Any]:
    """In a transaction that the driver begins by itself, or that only the server knows of."""
    with place.connect(autocommit=request.param == "by hand") as connection:
        if request.param == "by hand":
            connection.cursor().execute("BEGIN")
        yield connection


def stored(place: Place) -> list[str]:
    return [key for (key,) in place.sql("SELECT kafka_key FROM {outbox} ORDER BY id")]


@pytest.mark.proves("outbox-atomic")
@pytest.mark.parametrize("way", WAYS)
def test_record_shares_the_fate_of_the_transaction(place: Place, connection: Any, way: str) -> None:
    WAYS[way](connection, RECORDS)
    assert stored(place) == []
    connection.cursor().execute("ROLLBACK")
    assert stored(place) == []
    connection.cursor().execute("BEGIN")
    WAYS[way](connection, RECORDS)
    connection.cursor().execute("COMMIT")
    assert stored(place) == ["k0", "k1", "k2"]


@pytest.mark.parametrize("way", WAYS)
def test_stash_is_refused_where_the_driver_would_commit_it(place: Place, way: str) -> None:
    with place.connect() as connection, pytest.raises(NotInTransaction):
        WAYS[way](connection, RECORDS)
    assert stored(place) == []


def test_stash_outside_a_transaction_warns_where_that_was_asked_for(place: Place) -> None:
    outbox = Outbox(outside_transaction="warn")
    with place.connect() as connection:
        with pytest.warns(RuntimeWarning, match="outside a transaction"):
            outbox.stash(connection, RECORDS[0])
        assert stored(place) == ["k0"]
        with (
            pytest.warns(RuntimeWarning, match="outside a transaction"),
            outbox.collect(connection) as events,
        ):
            events.stash(RECORDS[1])
    assert stored(place) == ["k0", "k1"]


def test_ids_are_those_of_the_rows_in_the_order_of_the_records(place: Place) -> None:
    records = [Record("t", f"k{number}") for number in range(1_203)]
    ids = place.stash(*records)
    rows = place.sql("SELECT id, kafka_key FROM {outbox} ORDER BY id")
    assert rows == [(number, record.key) for number, record in zip(ids, records, strict=True)]


@pytest.mark.parametrize("shared_place", ["mysql"], indirect=True)
def test_ids_are_right_where_servers_of_a_cluster_count_in_steps(place: Place) -> None:
    with place.connect(autocommit=False) as connection:
        connection.cursor().execute("SET auto_increment_increment = 3, auto_increment_offset = 2")
        ids = Outbox().stash_many(connection, RECORDS)
        connection.commit()
    assert [row for (row,) in place.sql("SELECT id FROM {outbox} ORDER BY id")] == ids
    assert ids[1] - ids[0] == 3


def test_collected_records_are_dropped_with_an_error(place: Place, connection: Any) -> None:
    def fail() -> None:
        with Outbox().collect(connection) as events:
            events.stash(RECORDS[0])
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    connection.cursor().execute("COMMIT")
    assert stored(place) == []


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
def test_collector_refuses_another_transaction_than_its_own(
    place: Place, connection: Any, end: str
) -> None:
    def change_transaction() -> None:
        with Outbox().collect(connection) as events:
            events.stash(RECORDS[0])
            connection.cursor().execute(end)
            connection.cursor().execute("BEGIN")

    with pytest.raises(TransactionEnded, match="1 collected records"):
        change_transaction()
    connection.cursor().execute("ROLLBACK")
    assert stored(place) == []


def test_collectors_may_be_nested(place: Place, connection: Any) -> None:
    with Outbox().collect(connection) as outer:
        outer.stash(RECORDS[0])
        with Outbox().collect(connection) as inner:
            inner.stash(RECORDS[1])
    connection.cursor().execute("COMMIT")
    assert stored(place) == ["k1", "k0"]


@pytest.mark.parametrize("shared_place", ["mysql"], indirect=True)
@pytest.mark.parametrize("cursor", ["DictCursor", "SSCursor"])
def test_callers_own_sort_of_cursor_does_not_matter(place: Place, cursor: str) -> None:
    with place.connect(autocommit=False) as connection:
        connection.cursorclass = getattr(pymysql.cursors, cursor)
        with Outbox().collect(connection) as events:
            events.stash_many(RECORDS)
        connection.commit()
    assert stored(place) == ["k0", "k1", "k2"]


@pytest.mark.parametrize("shared_place", ["sqlite"], indirect=True)
@pytest.mark.parametrize("level", ["DEFERRED", "IMMEDIATE", "EXCLUSIVE"])
def test_callers_own_isolation_and_rows_do_not_matter(place: Place, level: str) -> None:
    with place.connect(autocommit=False) as connection:
        connection.isolation_level = level
        connection.row_factory = sqlite3.Row
        with Outbox().collect(connection) as events:
            events.stash_many(RECORDS)
        connection.commit()
    assert stored(place) == ["k0", "k1", "k2"]


def test_moment_of_a_record_is_kept_in_utc(place: Place) -> None:
    when = datetime(2026, 3, 29, 3, 4, 5, 678000, timezone(timedelta(hours=2)))
    place.stash(Record("t", timestamp=when, partition=3))
    ((kept, partition),) = place.sql("SELECT kafka_timestamp, kafka_partition FROM {outbox}")
    moment = datetime.fromisoformat(kept) if isinstance(kept, str) else kept
    assert moment.replace(tzinfo=UTC) == when
    assert partition == 3


def test_outbox_that_is_missing_or_spoilt_is_named(place: Place) -> None:
    spoilt = Place(place.dsn, type(place.table)("spoilt"))
    spoilt.prepare()
    spoilt.sql("ALTER TABLE {outbox} DROP COLUMN kafka_partition")
    with place.connect(autocommit=False) as connection:
        with pytest.raises(WrongSchema, match=r"nowhere does not exist; run: windrow init"):
            Outbox("nowhere").stash(connection, RECORDS[0])
        with pytest.raises(WrongSchema, match=r"spoilt lacks a column.*windrow check"):
            Outbox("spoilt").stash(connection, RECORDS[0])


def test_error_of_the_database_reaches_the_caller_as_it_is(place: Place) -> None:
    errors = (pymysql.err.DataError, sqlite3.IntegrityError)
    place_check = Place(place.dsn, type(place.table)("strict"))
    place_check.prepare()
    if place.system == "sqlite":
        place_check.sql("CREATE UNIQUE INDEX only_one ON {outbox} (kafka_topic)")
    else:
        place_check.sql("ALTER TABLE {outbox} MODIFY kafka_topic VARCHAR(1)")
    with place.connect(autocommit=False) as connection, pytest.raises(errors):
        Outbox("strict").stash_many(connection, [Record("tt"), Record("tt")])


def test_what_postgresql_alone_has_is_refused(place: Place) -> None:
    with place.connect(autocommit=False) as connection:
        with pytest.raises(UnsupportedConnection, match="doorbell rings in PostgreSQL only"):
            Outbox(doorbell=True).stash(connection, RECORDS[0])
        with pytest.raises(UnsupportedConnection, match="use the methods without _async"):
            asyncio.run(Outbox().stash_async(connection, RECORDS[0]))
