"""Functions of frames: stateless ones keep positions, those with state keep their checkpoint."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import pytest

from tests.fixtures.services import start_service
from tests.spark.graph_worlds import GraphWorld
from windrow.embedded.broker import Broker
from windrow.graph import Graph, Message, Queue, Source, processor
from windrow.graph.delivery_errors import StateLost
from windrow.spark.query.dataframe import apply_function
from windrow.spark.query.errors import PositionsLost
from windrow.spark.query.start import Accepted
from windrow.spark.queues.clients import close_clients
from windrow.spark.queues.open import close_cached_queues
from windrow.spark.targets.open import close_cached_targets

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture(scope="module")
def broker(pytestconfig: pytest.Config) -> Iterator[Broker]:
    with start_service(pytestconfig, "broker", Broker.start) as broker:
        yield broker
        close_cached_queues()
        close_cached_targets()
        close_clients()


@processor(reads="orders", writes={"big": "large", "small": "little"}, form="dataframe")
def sort(frame: DataFrame) -> dict[str, DataFrame]:
    number = frame.value.cast("string").cast("int")
    return {"big": frame.where(number > 4), "small": frame.where(number <= 4)}


@processor(
    reads="orders",
    writes="counts",
    form="dataframe",
    state="stateful",
    options={"output_mode": "update"},
)
def count(frame: DataFrame, ctx: Any) -> DataFrame:
    return frame.groupBy("key").count().selectExpr("key", "to_json(struct(count)) AS value")


@processor(reads="orders", writes="other", form="dataframe")
def forget(frame: DataFrame) -> DataFrame:
    return frame.select("value")


def test_rows_of_a_stateless_function_are_known_by_their_messages(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    queues = [Queue("large", values="text"), Queue("little", values="text")]
    graph = Graph(f"g{token_hex(4)}", [Source("orders"), sort], queues=queues)
    world = GraphWorld(graph, broker.address, tmp_path)
    world.send("orders", range(10))
    world.run(spark)
    assert sorted(world.values("large")) == ["5", "6", "7", "8", "9"]
    assert sorted(world.values("little")) == ["0", "1", "2", "3", "4"]


def test_state_goes_on_with_its_checkpoint_and_is_refused_without(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    graph = Graph(f"g{token_hex(4)}", [Source("orders"), count])
    world = GraphWorld(graph, broker.address, tmp_path)
    stage = world.legs[0]

    def counted(*keys: str) -> dict[str | None, int]:
        world.send("orders", [Message(0, key=key) for key in keys])
        before = len(world.raws("counts"))
        world.run(spark)
        return {m.key: m.value["count"] for m in world.messages("counts")[before:]}

    assert counted("a", "b", "a") == {"a": 2, "b": 1}
    assert counted("a") == {"a": 3}
    shutil.rmtree(world.checkpoint(stage))
    with pytest.raises(StateLost, match="which is lost; restore the checkpoint"):
        world.recover(stage)
    assert world.recover(stage, Accepted(state_loss=True)).recovered.number == 3


def test_stateless_function_that_loses_positions_is_refused(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    graph = Graph(f"g{token_hex(4)}", [Source("orders"), forget])
    world = GraphWorld(graph, broker.address, tmp_path)
    frame = spark.createDataFrame([], "value binary, _index long, key binary")
    with pytest.raises(PositionsLost, match="keep the columns _source, _incarnation"):
        apply_function(world.legs[0], frame)
