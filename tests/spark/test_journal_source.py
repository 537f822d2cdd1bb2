"""``windrow-journal`` as a source in a real Spark: streams, batches, restarts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.fixtures.services import start_service
from tests.integration.spark.filling import JournalKit, small
from windrow.embedded.broker import Broker
from windrow.graph.positions import SourceOffsets
from windrow.spark.queues import open_queue
from windrow.spark.queues.clients import close_clients
from windrow.spark.queues.open import close_cached_queues

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Row = tuple[str, int, int, str]


@pytest.fixture(scope="module")
def broker(pytestconfig: pytest.Config) -> Iterator[Broker]:
    with start_service(pytestconfig, "broker", Broker.start) as broker:
        yield broker
    close_cached_queues()
    close_clients()


@pytest.fixture
def orders(broker: Broker) -> JournalKit:
    kit = JournalKit(broker, 2)
    kit.create()
    return kit


@pytest.fixture
def prices(broker: Broker) -> JournalKit:
    kit = JournalKit(broker, None)
    kit.create()
    return kit


def inputs(**kits: JournalKit) -> str:
    return json.dumps({name: kit.place.address for name, kit in kits.items()})


def options_of(broker: Broker, **options: Any) -> dict[str, Any]:
    return {"address": broker.address, **options}


def rows_of(frame: DataFrame) -> list[Row]:
    chosen = frame.selectExpr("_source", "_partition", "_index", "CAST(value AS string) AS value")
    return sorted(tuple(row) for row in chosen.collect())


def expected(source: str, partition: int, begin: int, end: int, index: int = 0) -> list[Row]:
    return [(source, partition, index + n, f"v{begin + n}") for n in range(end - begin)]


class Run:
    """A stream from journals to files, which takes what is there and ends."""

    def __init__(self, spark: SparkSession, broker: Broker, directory: Path) -> None:
        self.spark, self.broker, self.directory = spark, broker, directory

    def __call__(self, **options: Any) -> Any:
        query = (
            self.spark.readStream.format("windrow-journal")
            .options(**options_of(self.broker, **options))
            .load()
            .writeStream.format("parquet")
            .option("checkpointLocation", str(self.directory / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(self.directory / "output"))
        )
        assert query.awaitTermination(90)
        return query

    def rows(self) -> list[Row]:
        return rows_of(self.spark.read.parquet(str(self.directory / "output")))


@pytest.fixture
def run(spark: SparkSession, broker: Broker, tmp_path: Path) -> Run:
    return Run(spark, broker, tmp_path)


def test_stream_of_several_inputs_goes_on_where_it_was_in_whatever_order_they_are_listed(
    run: Run, orders: JournalKit, prices: JournalKit, broker: Broker
) -> None:
    """Spark binds the offsets of several sources by their order; ours are bound by name."""
    orders.fill(small(8), 0)
    orders.fill(small(3, 100), 1)
    prices.fill(small(6, 200))
    query = run(inputs=inputs(orders=orders, prices=prices), maxRowsPerBatch=10)
    assert [entry["numInputRows"] for entry in query.recentProgress][:2] == [10, 7]
    first = [
        *expected("orders", 0, 0, 8),
        *expected("orders", 1, 100, 103),
        *expected("prices", 0, 200, 206),
    ]
    assert run.rows() == first
    told = query.lastProgress["sources"][0]
    ends = SourceOffsets.from_json(json.loads(told["endOffset"]))
    assert {(o.source, o.partition): n for o, n in ends.entries} == {
        ("orders", 0): 8,
        ("orders", 1): 3,
        ("prices", 0): 6,
    }
    assert json.loads(told["latestOffset"]) == json.loads(told["endOffset"]), "no backlog"

    added = JournalKit(broker, None)
    added.create()
    added.fill(small(2, 300))
    prices.fill(small(1, 206))
    orders.fill(small(4, 103), 1)
    run(inputs=inputs(prices=prices, added=added, orders=orders))
    second = [
        *expected("orders", 1, 103, 107, 3),
        *expected("prices", 0, 206, 207, 6),
        *expected("added", 0, 300, 302),
    ]
    assert run.rows() == sorted([*first, *second])


def test_batch_that_failed_is_replayed_with_the_same_rows(
    spark: SparkSession, broker: Broker, prices: JournalKit, tmp_path: Path
) -> None:
    seen: list[list[Row]] = []

    def sink(fails: bool) -> Callable[[DataFrame, int], None]:
        def take(frame: DataFrame, batch: int) -> None:
            seen.append(rows_of(frame))
            if fails:
                raise RuntimeError("on purpose")

        return take

    def start(fails: bool) -> Any:
        reader = spark.readStream.format("windrow-journal").options(
            **options_of(broker, journal=prices.place.address, source="prices")
        )
        return (
            reader.load()
            .writeStream.foreachBatch(sink(fails))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )

    prices.fill(small(5))
    failed = start(fails=True)
    with pytest.raises(Exception, match="on purpose"):
        failed.awaitTermination(90)
    prices.fill(small(5, 5))
    assert start(fails=False).awaitTermination(90)
    assert seen == [
        expected("prices", 0, 0, 5),
        expected("prices", 0, 0, 5),
        expected("prices", 0, 5, 10, 5),
    ]


def test_journal_made_again_is_refused_by_a_query_that_knows_the_old_one(
    run: Run, prices: JournalKit
) -> None:
    prices.fill(small(5))
    run(journal=prices.place.address, source="prices")
    prices.delete()
    prices.create()
    prices.fill(small(9))
    with pytest.raises(Exception, match=r"was read up to 5 as incarnation .* made again"):
        run(journal=prices.place.address, source="prices")


def test_batch_read_takes_what_lies_between_two_offsets_in_parallel(
    spark: SparkSession, broker: Broker, orders: JournalKit
) -> None:
    for begin in range(0, 400, 100):
        orders.fill(small(100, begin), 0)
    orders.fill(small(10, 1000), 1)
    reader = spark.read.format("windrow-journal")
    given = options_of(broker, inputs=inputs(orders=orders))
    frame = reader.options(**given, rowsPerPartition=60).load()
    whole = [*expected("orders", 0, 0, 400), *expected("orders", 1, 1000, 1010)]
    assert rows_of(frame) == whole
    assert frame.rdd.getNumPartitions() >= 7

    first, second = open_queue(orders.place).available()
    start = SourceOffsets.of({first.origin: 150, second.origin: 9}).to_json()
    end = SourceOffsets.of({first.origin: 160, second.origin: 10}).to_json()
    bounds = {"startingOffsets": json.dumps(start), "endingOffsets": json.dumps(end)}
    part = spark.read.format("windrow-journal").options(**given, **bounds).load()
    assert rows_of(part) == [
        *expected("orders", 0, 150, 160, 150),
        *expected("orders", 1, 1009, 1010, 9),
    ]


def test_option_that_makes_no_sense_is_answered_with_a_sentence(
    spark: SparkSession, broker: Broker
) -> None:
    reader = spark.read.format("windrow-journal").options(**options_of(broker, maxRowPerBatch=1))
    with pytest.raises(Exception, match='did you mean "maxRowsPerBatch"'):
        reader.load().collect()
