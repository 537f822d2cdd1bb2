"""``windrow-kafka`` as a source in a real Spark: what was committed, once, across restarts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.spark.filling import KafkaKit, produce, small
from windrow.graph.positions import SourceOffsets
from windrow.spark.queues.open import close_cached_queues

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Row = tuple[str, int, str]


@pytest.fixture
def orders(kafka: str) -> Iterator[KafkaKit]:
    kit = KafkaKit(kafka, 2)
    kit.create()
    yield kit
    kit.delete()
    close_cached_queues()


@pytest.fixture
def prices(kafka: str) -> Iterator[KafkaKit]:
    kit = KafkaKit(kafka, None)
    kit.create()
    yield kit
    kit.delete()


def options_of(**kits: KafkaKit) -> dict[str, Any]:
    (bootstrap,) = {kit.place.connections.kafka["bootstrap.servers"] for kit in kits.values()}
    places = {name: kit.place.address for name, kit in kits.items()}
    return {"kafka.bootstrap.servers": bootstrap, "inputs": json.dumps(places)}


def rows_of(frame: DataFrame) -> list[Row]:
    chosen = frame.selectExpr("_source", "_partition", "CAST(value AS string) AS value")
    return sorted(tuple(row) for row in chosen.collect())


def transact(kit: KafkaKit, values: list[int], commits: bool) -> None:
    producer = kit.producer(**{"transactional.id": kit.place.address})
    producer.init_transactions(20)
    producer.begin_transaction()
    for value in values:
        produce(producer, kit.place.address, small(1, value)[0], 0)
    producer.flush(20)
    producer.commit_transaction(20) if commits else producer.abort_transaction(20)


def test_stream_of_topics_in_any_order_reads_what_was_committed_once(
    spark: SparkSession, orders: KafkaKit, prices: KafkaKit, tmp_path: Path
) -> None:
    def run(**options: Any) -> Any:
        query = (
            spark.readStream.format("windrow-kafka")
            .options(**options)
            .load()
            .writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(tmp_path / "output"))
        )
        assert query.awaitTermination(90)
        return query

    transact(orders, [0, 1], commits=True)
    transact(orders, [100], commits=False)
    orders.fill(small(2, 2), 1)
    prices.fill(small(3, 10))
    query = run(**options_of(orders=orders, prices=prices))
    first = [
        *[("orders", 0, f"v{n}") for n in (0, 1)],
        *[("orders", 1, f"v{n}") for n in (2, 3)],
        *[("prices", 0, f"v{n}") for n in (10, 11, 12)],
    ]
    assert rows_of(spark.read.parquet(str(tmp_path / "output"))) == first
    told = json.loads(query.lastProgress["sources"][0]["endOffset"])
    assert SourceOffsets.from_json(told).sources == {"orders", "prices"}

    transact(orders, [4], commits=True)
    prices.fill(small(1, 13))
    run(**options_of(prices=prices, orders=orders))
    second = [("orders", 0, "v4"), ("prices", 0, "v13")]
    assert rows_of(spark.read.parquet(str(tmp_path / "output"))) == sorted([*first, *second])

    batch = spark.read.format("windrow-kafka").options(**options_of(orders=orders)).load()
    assert rows_of(batch) == [row for row in sorted([*first, *second]) if row[0] == "orders"]
