"""A table as a target: which columns a row sets, what is refused, and what is made on demand."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from tests.integration.spark.target_stages import PostgresStage, row
from windrow.graph.positions import Position
from windrow.graph.sink_rows import SinkRow
from windrow.graph.sink_task import TaskDone
from windrow.spark.places import Place
from windrow.spark.stores import Content
from windrow.spark.targets.errors import RowRefused, TargetUnusable
from windrow.spark.targets.postgres import PostgresTarget


@pytest.fixture
def stage(database: str) -> PostgresStage:
    return PostgresStage(database)


def target_of(stage: PostgresStage, table: str, **options: Any) -> PostgresTarget:
    return PostgresTarget(Place("q", "postgres", table, 1, options, stage.place.connections))


def json_row(index: int, value: object, key: bytes | None = None) -> SinkRow:
    text = None if value is None else json.dumps(value).encode()
    content = Content(text, key, (), None, 0, f"{index:064x}")
    return SinkRow((Position("orders", "first", 0, index),), content)


def test_values_take_the_types_of_their_columns(stage: PostgresStage) -> None:
    stage.execute(
        "CREATE TABLE t (id bigint DEFAULT 7, at timestamptz, total numeric, tags text[],"
        " raw jsonb, made integer GENERATED ALWAYS AS IDENTITY)"
    )
    target = target_of(stage, "t")
    one = {"id": 2**53 + 1, "at": "2026-01-02T03:04:05Z", "total": 1.10, "tags": ["a"]}
    stage.run(
        target, [json_row(0, one), json_row(1, {"raw": {"b": [None]}}), json_row(2, {"id": None})]
    )
    target.close()
    found = stage.execute("SELECT id, at::text, total::text, tags, raw FROM t ORDER BY made")
    stamp = stage.execute("SELECT '2026-01-02T03:04:05Z'::timestamptz::text")[0][0]
    assert found == [
        (2**53 + 1, stamp, "1.1", ["a"], None),
        (7, None, None, None, {"b": [None]}),
        (None, None, None, None, None),
    ]


def test_upsert_keeps_the_last_row_of_a_key_and_a_tombstone_deletes_it(
    stage: PostgresStage,
) -> None:
    stage.execute("CREATE TABLE t (id bigint PRIMARY KEY, a text, b text)")
    target = target_of(stage, "t", key="id")
    stage.run(
        target,
        [
            json_row(0, {"id": 1, "a": "old"}),
            json_row(1, {"id": 2, "a": "two"}),
            json_row(2, {"id": 1, "a": "new"}),
            json_row(3, {"id": 1, "b": "more"}),
            json_row(4, {"id": 3, "a": "three"}),
            json_row(5, None, b"2"),
            json_row(6, {"id": 4}),
        ],
    )
    stage.run(target, [json_row(7, {"id": 4}), json_row(8, None, b"3"), json_row(9, None, b"99")])
    target.close()
    found = stage.execute("SELECT id, a, b FROM t ORDER BY id")
    assert found == [(1, "new", "more"), (4, None, None)]


@pytest.mark.parametrize("types", ["bytea", "text"])
def test_messages_are_written_as_they_are(stage: PostgresStage, types: str) -> None:
    stage.execute(
        f"CREATE TABLE t (key {types}, value {types}, headers jsonb, time timestamptz, topic text)"
    )
    target = target_of(stage, "t", columns="raw")
    headers: tuple[tuple[str, bytes | None], ...] = (("a", b"1"), ("b", None), ("c", b"\xff"))
    at = Position("orders", "first", 0, 0)
    content = Content(b"v\\x", b"k", headers, "prices", 1_767_323_045_000_001)
    bare = SinkRow((Position("orders", "first", 0, 1),), Content(None))
    stage.run(target, [SinkRow((at,), content), bare])
    target.close()
    found = stage.execute("SELECT key, value, headers, extract(epoch FROM time), topic FROM t")
    given = (b"k", b"v\\x") if types == "bytea" else ("k", "v\\x")
    kept = [{"name": "a", "value": "1"}, {"name": "b", "value": None}]
    assert found[0][:2] == given
    assert found[0][2] == [*kept, {"name": "c", "base64": "/w=="}]
    assert (str(found[0][3]), found[0][4]) == ("1767323045.000001", "prices")
    assert found[1][:3] == (None, None, [])


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"id": 1, "nme": "x"}, 'the table has no column "nme"'),
        ({"id": "many"}, "invalid input syntax for type bigint"),
        ({"id": -1}, "violates check constraint"),
        ([1], "its value is no JSON object"),
        (None, "it has no value"),
    ],
)
def test_row_that_is_refused_is_named_and_nothing_of_its_write_is_kept(
    stage: PostgresStage, value: object, reason: str
) -> None:
    stage.execute("CREATE TABLE t (id bigint CHECK (id >= 0), name text)")
    target = target_of(stage, "t")
    rows = [json_row(index, {"id": index}) for index in range(6)]
    rows[4] = json_row(4, value)
    with pytest.raises(
        RowRefused, match=r'table t refuses .* "orders" partition 0 index 4'
    ) as found:
        stage.run(target, rows)
    assert reason in str(found.value)
    assert target.read_high_water(stage.uid, 0).is_blank
    assert stage.execute("SELECT count(*) FROM t") == [(0,)]
    assert stage.run(target, rows[:4]) == TaskDone(0, 4, 0)
    target.close()


def test_column_that_was_added_meanwhile_is_known_at_the_next_try(stage: PostgresStage) -> None:
    stage.execute("CREATE TABLE t (id bigint)")
    target = target_of(stage, "t")
    stage.run(target, [json_row(0, {"id": 0})])
    with pytest.raises(RowRefused):
        stage.run(target, [json_row(1, {"id": 1, "name": "one"})])
    stage.execute("ALTER TABLE t ADD COLUMN name text")
    stage.run(target, [json_row(1, {"id": 1, "name": "one"})])
    target.close()
    assert stage.execute("SELECT name FROM t ORDER BY id") == [(None,), ("one",)]


def test_names_are_quoted_whatever_they_hold(stage: PostgresStage) -> None:
    stage.execute('CREATE SCHEMA "My %s Shop"')
    stage.execute('CREATE TABLE "My %s Shop"."a""b; DROP" ("100%" text PRIMARY KEY, "s s" int)')
    target = target_of(stage, '"a""b; DROP"', schema="My %s Shop", key=["100%"])
    stage.run(target, [json_row(0, {"100%": "x", "s s": 1}), json_row(1, {"100%": "x", "s s": 2})])
    stage.run(target, [json_row(2, None, b"y")])
    assert target.read_high_water(stage.uid, 0).marks
    target.close()
    found = stage.execute('SELECT * FROM "My %s Shop"."a""b; DROP"')
    assert found == [("x", 2)]
    assert stage.execute('SELECT count(*) FROM "My %s Shop".windrow_progress') == [(1,)]


def test_progress_table_is_made_by_one_of_many_that_need_it(stage: PostgresStage) -> None:
    errors: list[Exception] = []
    start = threading.Barrier(4)

    def write(number: int) -> None:
        target = target_of(stage, "priced")
        start.wait()
        try:
            stage.run(target, [row(number, partition=number)])
        except Exception as error:
            errors.append(error)
        finally:
            target.close()

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert errors == []
    assert len(stage.contents(0)) == 4


def test_table_that_does_not_exist_is_refused(stage: PostgresStage) -> None:
    target = target_of(stage, "absent")
    with pytest.raises(TargetUnusable, match="cannot write to table 'absent': it does not exist"):
        stage.run(target, [json_row(0, {"id": 1})])
    target.close()
