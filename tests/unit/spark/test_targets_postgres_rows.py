"""Rows as statements, and the options of a table."""

from __future__ import annotations

import json
from typing import Any

import pytest

from windrow.graph.positions import Position
from windrow.graph.sink_rows import SinkRow
from windrow.outbox.errors import InvalidIdentifier
from windrow.spark.stores import Content
from windrow.spark.targets.errors import RowRefused, TargetUnusable
from windrow.spark.targets.postgres_rows import TableOptions, one_by_one, statements

SHAPE = {"id": "bigint", "a": "text", "b": "text", "value": "bytea"}


def row(index: int, value: Any, key: bytes | None = None) -> SinkRow:
    text = None if value is None else json.dumps(value).encode()
    return SinkRow((Position("orders", "i", 0, index),), Content(text, key))


def test_options_are_read_from_a_graph_and_from_spark() -> None:
    plain = TableOptions.read("prices", {})
    assert (plain.table.sql, plain.mode, plain.form) == ('"prices"', "append", "json")
    declared = TableOptions.read("prices", {"key": ["a", "b"], "schema": "shop"})
    assert declared == TableOptions.read("shop.prices", {"key": "a, b", "mode": "upsert"})


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"keys": "a"}, "it has no option 'keys'; there are schema, mode, key, columns"),
        ({"mode": "replace"}, "mode is 'replace'; it can be append or upsert"),
        ({"mode": "upsert"}, 'mode "upsert" needs the option "key"'),
        ({"columns": "avro"}, "columns is 'avro'; it can be json or raw"),
    ],
)
def test_options_that_cannot_be_are_refused_with_a_sentence(
    options: dict[str, str], reason: str
) -> None:
    with pytest.raises(TargetUnusable, match="cannot write to table 'prices'") as caught:
        TableOptions.read("prices", options)
    assert reason in str(caught.value)


def test_name_that_is_no_table_is_refused() -> None:
    with pytest.raises(InvalidIdentifier):
        TableOptions.read("a.b.c", {})


def test_rows_of_the_same_columns_share_a_statement_and_order_is_kept() -> None:
    options = TableOptions.read("t", {})
    rows = [
        row(0, {"id": 0, "a": ""}),
        row(1, {"a": "", "id": 1}),
        row(2, {"b": ""}),
        row(3, {"id": 3, "a": ""}),
    ]
    made = statements(rows, options, SHAPE)
    assert [len(each.rows) for each in made] == [2, 1, 1]
    assert made[0].sql == (
        'INSERT INTO "t" ("a", "id") SELECT "a", "id"'
        ' FROM jsonb_populate_recordset(NULL::"t", %s::jsonb)'
    )
    assert json.loads(made[0].parameters[0]) == [{"id": 0, "a": ""}, {"id": 1, "a": ""}]
    assert [each.rows for each in one_by_one(rows, options, SHAPE)] == [[each] for each in rows]


def test_of_one_key_in_a_statement_the_last_row_counts() -> None:
    options = TableOptions.read("t", {"key": "id"})
    rows = [row(0, {"id": 1, "a": "x"}), row(1, {"id": 2, "a": "y"}), row(2, {"id": 1, "a": "z"})]
    (made,) = statements(rows, options, SHAPE)
    assert json.loads(made.parameters[0]) == [{"id": 1, "a": "z"}, {"id": 2, "a": "y"}]
    assert made.sql.endswith(' ON CONFLICT ("id") DO UPDATE SET "a" = EXCLUDED."a"')
    (bare,) = statements([row(0, {"id": 1})], options, SHAPE)
    assert bare.sql.endswith(' ON CONFLICT ("id") DO NOTHING')


def test_tombstone_deletes_by_its_key() -> None:
    options = TableOptions.read("t", {"key": "id"})
    insert, delete = statements([row(0, {"id": 1}), row(1, None, b"1")], options, SHAPE)
    assert insert.sql.startswith("INSERT")
    assert delete.sql == 'DELETE FROM "t" WHERE "id" = ANY (%s::text[]::bigint[])'
    assert delete.parameters == (["1"],)
    with pytest.raises(RowRefused, match="index 1: it has no value"):
        statements([row(0, {"id": 1}), row(1, None)], options, SHAPE)


def test_raw_rows_set_the_columns_that_the_table_has() -> None:
    options = TableOptions.read("t", {"columns": "raw"})
    (made,) = statements([row(0, {}, b"k")], options, {"value": "jsonb", "key": "bytea"})
    assert made.sql == (
        'INSERT INTO "t" ("key", "value") SELECT "key"::bytea, "value"::jsonb'
        ' FROM unnest(%s::bytea[], %s::text[]) AS given("key", "value")'
    )
    assert made.parameters == ([b"k"], ["{}"])
    with pytest.raises(TargetUnusable, match='it has no column "value"'):
        statements([row(0, {})], options, {"id": "bigint"})


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ([], "no JSON object"),
        ({}, "no JSON object"),
        ({"c": 1}, 'the table has no column "c"'),
        ({"a": 1}, 'it has no "id", which is part of the key'),
        ({"id": None}, 'it has no "id", which is part of the key'),
    ],
)
def test_row_that_is_none_of_the_table_is_refused_by_its_position(
    value: object, reason: str
) -> None:
    options = TableOptions.read("t", {"key": "id"})
    with pytest.raises(RowRefused, match='made from "orders" partition 0 index 4') as caught:
        statements([row(4, value)], options, SHAPE)
    assert reason in str(caught.value)
