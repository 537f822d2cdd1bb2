"""Legs of graphs as real queries, on the journals of an embedded broker."""

from __future__ import annotations

import json
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
from windrow.graph.processors import Processor
from windrow.spark.query.leg_plan import QuerySettings
from windrow.spark.query.opened import STORES
from windrow.spark.queues.clients import close_clients
from windrow.spark.queues.open import close_cached_queues
from windrow.spark.targets.open import close_cached_targets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def broker(pytestconfig: pytest.Config) -> Iterator[Broker]:
    with start_service(pytestconfig, "broker", Broker.start) as broker:
        yield broker
        close_cached_queues()
        close_cached_targets()
        close_clients()


def world_of(
    broker: Broker, directory: Path, parts: list[Any], settings: QuerySettings, **more: Any
) -> GraphWorld:
    graph = Graph(f"g{token_hex(4)}", parts, **more)
    return GraphWorld(graph, broker.address, directory, settings)


def tripled() -> Processor:
    @processor(reads="orders", writes="priced", deterministic=True)
    def price(msgs: Any, ctx: Any) -> Message:
        order = msgs["orders"]
        return order.having(value=3 * order.value, type="priced")  # type: ignore[no-any-return]

    return price


def many_kinds(directory: Path) -> list[Any]:
    """Processors of several kinds that all read the same sources."""

    @processor(reads=["left", "right"], writes=["sums", "odd"], errors="failed")
    def join_fork(msgs: Any, ctx: Any) -> dict[str, Message | None]:
        left, right = msgs["left"].value, msgs["right"].value
        if left == 3:
            raise ValueError("three")
        return {"sums": Message(left + right), "odd": Message(left) if left % 2 else None}

    @processor(alts=["left", "right"], writes="items", many=True, deterministic=True)
    def expand(msgs: Any, ctx: Any) -> list[Message]:
        ((name, message),) = msgs.items()
        return [Message([name, message.value, n], key=f"k{n}") for n in range(message.value % 3)]

    @processor(reads="left")
    def sink(msgs: Any, ctx: Any) -> None:
        with (directory / "effects").open("a") as file:
            file.write(f"{msgs['left'].value} {ctx.delivery_hash}\n")

    return [Source("left"), Source("right"), join_fork, expand, sink]


def test_processors_of_many_kinds_deliver_all_their_inputs_exactly(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    queues = [Queue("items", partitions=2)]
    world = world_of(broker, tmp_path, many_kinds(tmp_path), QuerySettings(), queues=queues)
    world.send("left", range(10))
    world.send("right", range(100, 110))
    world.run(spark)
    assert world.values("sums") == [2 * n + 100 for n in range(10) if n != 3]
    assert world.values("odd") == [1, 5, 7, 9]
    assert [m.value["messages"]["left"]["value"] for m in world.messages("failed")] == [3]
    sent = [("left", n) for n in range(10)] + [("right", n) for n in range(100, 110)]
    items = [[name, value, n] for name, value in sent for n in range(value % 3)]
    assert sorted(world.values("items")) == items
    effects = [line.split() for line in (tmp_path / "effects").read_text().splitlines()]
    assert [int(value) for value, _ in effects] == list(range(10))
    assert len({digest for _, digest in effects}) == 10


def test_checkpoint_is_a_cache_that_may_lose_a_commit_or_all_of_itself(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    """What was delivered is not delivered again, nor even read: it goes on where it was."""
    world = world_of(broker, tmp_path, [Source("orders"), tripled()], QuerySettings(max_rows=6))
    world.send("orders", range(10))
    world.run(spark)
    leg = world.legs[0]
    checkpoint = world.checkpoint(leg)
    assert offsets_in(checkpoint) == [6, 10]
    for name in ("1", ".1.crc"):
        (checkpoint / "commits" / name).unlink(missing_ok=True)
    world.send("orders", [10])
    started = world.run_leg(spark, leg)
    assert started.dropped_checkpoint, "Spark would have read a delivered batch in vain"
    assert offsets_in(checkpoint) == [11]
    shutil.rmtree(checkpoint)
    world.send("orders", [11])
    started = world.run_leg(spark, leg)
    assert [index for _, index in started.recovered.start.entries] == [11]
    assert offsets_in(checkpoint) == [12]
    assert world.values("priced") == [3 * n for n in range(12)]


def test_batch_that_spark_replays_is_counted_and_written_once(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    """All was written when another took over, which replays the batch."""
    from pyspark.errors import StreamingQueryException

    address, marker = broker.address, tmp_path / "taken"
    graph = f"g{token_hex(4)}"

    @processor(reads="orders", writes="priced", deterministic=True)
    def price(msgs: Any, ctx: Any) -> Message:
        if not marker.exists():
            from windrow.config.journal import Journal
            from windrow.graph.snapshot import ProcessorUid
            from windrow.spark.query.backing import JournalBacking
            from windrow.spark.queues.clients import journal_client

            client = journal_client(Journal(address=address))
            uid = ProcessorUid(graph, "price")
            JournalBacking(client, f"_backing/{uid}", uid).take("another")
            marker.touch()
        order = msgs["orders"]
        return order.having(value=3 * order.value)  # type: ignore[no-any-return]

    declared = Graph(graph, [Source("orders"), price])
    world = GraphWorld(declared, address, tmp_path, QuerySettings(rows_per_task=7))
    world.send("orders", range(20))
    expected = [3 * n for n in range(20)]
    with pytest.raises(StreamingQueryException, match=r"owner \d was fenced by owner \d"):
        world.run(spark)
    assert world.values("priced") == expected, "what was fenced is the end of the batch"
    again = world.run_leg(spark, world.legs[0])
    assert again.recovered.in_doubt is not None
    assert again.recovered.keep_checkpoint
    assert world.values("priced") == expected
    assert STORES.backing(world.legs[0]).read().attempts >= 2


def offsets_in(checkpoint: Path) -> list[int]:
    """Where each batch of Spark's log ends."""
    ends = []
    for file in sorted((checkpoint / "offsets").iterdir()):
        if file.name.isdecimal():
            line = json.loads(file.read_text().splitlines()[2])
            ends.append(line["orders"]["0"]["index"])
    return ends


def test_function_that_fails_stops_its_processor_before_the_message(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    from pyspark.errors import StreamingQueryException

    @processor(reads="orders", writes="priced", deterministic=True)
    def refuse(msgs: Any, ctx: Any) -> Message:
        if msgs["orders"].value == 2:
            raise ValueError("no twos")
        return msgs["orders"]  # type: ignore[no-any-return]

    world = world_of(broker, tmp_path, [Source("orders"), refuse], QuerySettings())
    world.send("orders", range(4))
    with pytest.raises(StreamingQueryException, match='stops before "orders" partition 0 index 2'):
        world.run(spark)
    assert world.values("priced") == []
