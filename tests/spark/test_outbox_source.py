"""``windrow-outbox`` in a real Spark: every row arrives once, and is purged when it has."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.fixtures.relaying import OutboxDatabase

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Rows = list[tuple[int, str, str]]


def stream(spark: SparkSession, outbox: OutboxDatabase, **options: Any) -> DataFrame:
    reader = spark.readStream.format("windrow-outbox").option("secret_dsn", outbox.dsn)
    return reader.options(**options).load()


def read(spark: SparkSession, output: Path) -> Rows:
    """Index, key and value of each row that has arrived, by index."""
    frame = spark.read.parquet(str(output)).selectExpr(
        "_index", "CAST(key AS string) AS key", "CAST(value AS string) AS value"
    )
    return sorted((row._index, row.key, row.value) for row in frame.collect())


def test_every_row_arrives_once_across_restarts_and_is_purged(
    spark: SparkSession, outbox: OutboxDatabase, tmp_path: Path
) -> None:
    checkpoint, output = tmp_path / "checkpoint", tmp_path / "output"
    written = [(f"k{n % 3}", str(n)) for n in range(12)]

    def run() -> Any:
        query = (
            stream(spark, outbox, maxRowsPerBatch=5, numPartitions=2)
            .writeStream.format("parquet")
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start(str(output))
        )
        assert query.awaitTermination(60)
        return query

    outbox.write("orders", written)
    with outbox.connect() as late, late.transaction():
        late.execute(
            "INSERT INTO outbox (kafka_topic, kafka_key, kafka_value) VALUES ('orders', 'k', '12')"
        )
        outbox.write("orders", [("k", "13")])
        query = run()
    assert [entry["numInputRows"] for entry in query.recentProgress][:3] == [5, 5, 3]
    assert outbox.count() == 1, "the one that has committed since"
    run()
    assert outbox.count() == 0
    expected = [*written, ("k", "13"), ("k", "12")]
    assert read(spark, output) == [(index, *pair) for index, pair in enumerate(expected)]
    frame = spark.read.parquet(str(output)).select("_source", "_partition", "topic").distinct()
    assert [tuple(row) for row in frame.collect()] == [("outbox", 0, "orders")]


def test_failed_batch_is_replayed_with_the_same_rows_and_a_lost_checkpoint_goes_on(
    spark: SparkSession, outbox: OutboxDatabase, tmp_path: Path
) -> None:
    checkpoint = tmp_path / "checkpoint"
    seen: list[tuple[int, Rows]] = []

    def failing(count: int) -> Callable[[DataFrame, int], None]:
        """A sink that takes note of what it gets, and then fails that many times."""
        left = [count]

        def sink(frame: DataFrame, batch: int) -> None:
            rows = frame.selectExpr("_index", "CAST(value AS string) AS value").collect()
            seen.append((batch, sorted((row._index, "", row.value) for row in rows)))
            if left[0]:
                left[0] -= 1
                raise RuntimeError("the sink is down")

        return sink

    def run(failures: int) -> None:
        query = (
            stream(spark, outbox, maxRowsPerBatch=2)
            .writeStream.foreachBatch(failing(failures))
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        if failures:
            with pytest.raises(Exception, match="the sink is down"):
                query.awaitTermination(60)
        else:
            assert query.awaitTermination(60)

    outbox.write("orders", [("k", value) for value in "abc"])
    run(failures=1)
    assert outbox.count() == 3
    outbox.write("orders", [("k", "d")])
    run(failures=1)
    assert seen == [(0, [(0, "", "a"), (1, "", "b")])] * 2
    assert outbox.count() == 4
    shutil.rmtree(checkpoint)
    run(failures=0)
    assert seen[2:] == [
        (0, [(0, "", "a"), (1, "", "b")]),
        (1, [(2, "", "c"), (3, "", "d")]),
    ]
    assert outbox.count() == 0
