"""The format windrow-postgres: frames to tables, each row once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from pyspark.errors import StreamingQueryException

from tests.spark.sink_streams import Numbered

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def numbered(spark: SparkSession, tmp_path: Path) -> Numbered:
    return Numbered(spark, tmp_path)


def query(dsn: str, sql: Any) -> list[tuple[Any, ...]]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        cursor = connection.execute(sql)
        return cursor.fetchall() if cursor.description else []


def test_stream_is_written_once_over_a_replay(numbered: Numbered, database: str) -> None:
    query(database, "CREATE TABLE priced (id bigint PRIMARY KEY, text text)")
    options = {"secret_dsn": database, "table": "priced", "uid": "pricing"}
    frame = numbered.frame.repartition(1)
    numbered.add(range(5))
    numbered.add(range(5, 8))
    numbered.run(frame, "windrow-postgres", options)
    numbered.forget_last_commit()
    numbered.run(frame, "windrow-postgres", options)
    rows = query(database, "SELECT id, text FROM priced ORDER BY id")
    assert rows == [(index, f"t{index}") for index in range(8)]


def test_frame_without_positions_is_refused(numbered: Numbered, database: str) -> None:
    numbered.add([0])
    frame = numbered.frame.drop("_index", "_partition")
    options = {"secret_dsn": database, "table": "priced", "uid": "pricing"}
    with pytest.raises(StreamingQueryException, match="a row has no _partition, _index"):
        numbered.run(frame, "windrow-postgres", options)


def test_target_claimed_by_two_tasks_is_refused(numbered: Numbered, database: str) -> None:
    query(database, "CREATE TABLE priced (id bigint, text text)")
    numbered.add(range(20))
    frame = numbered.frame.repartition(2, "_index")
    options = {"secret_dsn": database, "table": "priced", "uid": "pricing"}
    with pytest.raises(StreamingQueryException, match="claimed by tasks 0, 1 of one batch"):
        numbered.run(frame, "windrow-postgres", options)


def test_frame_is_written_by_the_names_of_its_columns(spark: SparkSession, database: str) -> None:
    query(database, "CREATE TABLE totals (shop text PRIMARY KEY, total numeric, seen timestamptz)")
    frame = spark.sql(
        "SELECT 'orders' AS _source, 'first' AS _incarnation, 0 AS _partition, id AS _index,"
        " CASE WHEN id < 2 THEN 'a' ELSE 'b' END AS shop, CAST(id + 0.5 AS decimal(9, 2)) AS total,"
        " TIMESTAMP '2026-01-02 03:04:05Z' AS seen FROM range(0, 4, 1, 1)"
    )
    options = {"secret_dsn": database, "table": "totals", "uid": "totals", "key": "shop"}
    for _ in range(2):
        frame.write.format("windrow-postgres").options(**options).mode("append").save()
    rows = query(database, "SELECT shop, total::text, extract(epoch FROM seen)::int FROM totals")
    assert sorted(rows) == [("a", "1.50", 1767323045), ("b", "3.50", 1767323045)]
