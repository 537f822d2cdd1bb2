"""Whole steps of every kind of processor, and the same with a death at each point of them."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.integration.spark.memory import (
    POINTS,
    Died,
    MemoryQuery,
    Strike,
    World,
    arm,
    run_with_crashes,
)
from windrow.graph import Graph, Message, Queue, Source, processor
from windrow.graph.delivery_errors import Fenced
from windrow.spark.query.leg_plan import QuerySettings

SMALL = QuerySettings(max_rows=7, rows_per_task=3, rows_per_write=2, arrow_rows=4)

Sent = dict[str, list[Any]]
Expected = dict[str, list[Any]]
Scene = tuple[Graph, Sent, Expected]


def pipe() -> Scene:
    @processor(reads="orders", writes="priced", deterministic=True)
    def price(msgs: Any, ctx: Any) -> Message:
        order = msgs["orders"]
        return order.having(value=order.value * 3)  # type: ignore[no-any-return]

    graph = Graph("g", [Source("orders"), price])
    return graph, {"orders": list(range(20))}, {"priced": [3 * n for n in range(20)]}


def staged_pipe() -> Scene:
    @processor(reads="orders", writes="priced")
    def price(msgs: Any, ctx: Any) -> Message:
        return Message(msgs["orders"].value * 3)

    graph = Graph("g", [Source("orders"), price])
    return graph, {"orders": list(range(20))}, {"priced": [3 * n for n in range(20)]}


def partitioned() -> Scene:
    @processor(reads="orders", writes="priced", deterministic=True)
    def price(msgs: Any, ctx: Any) -> Message | None:
        order = msgs["orders"]
        return order.having(key=f"k{order.value % 5}") if order.value % 4 else None

    queues = [Queue("orders", partitions=2), Queue("priced", partitions=3)]
    graph = Graph("g", [Source("orders"), price], queues=queues)
    sent = list(range(30))
    return graph, {"orders": sent}, {"priced": [n for n in sent if n % 4]}


def join() -> Scene:
    @processor(reads=["left", "right"], writes="pairs", deterministic=True)
    def pair(msgs: Any, ctx: Any) -> Message:
        return Message([msgs["left"].value, msgs["right"].value])

    graph = Graph("g", [Source("left"), Source("right"), pair])
    sent: Sent = {"left": list(range(15)), "right": [f"r{n}" for n in range(12)]}
    return graph, sent, {"pairs": [[n, f"r{n}"] for n in range(12)]}


def alts() -> Scene:
    @processor(alts=["left", "right"], writes="both", deterministic=True)
    def merge(msgs: Any, ctx: Any) -> Message:
        (message,) = msgs.values()
        return Message(message.value)

    graph = Graph("g", [Source("left"), Source("right"), merge])
    sent: Sent = {"left": list(range(9)), "right": [f"r{n}" for n in range(12)]}
    return graph, sent, {"both": [*sent["left"], *sent["right"]]}


def fork() -> Scene:
    @processor(reads="orders", writes={"big": "large", "small": "little"})
    def sort(msgs: Any, ctx: Any) -> dict[str, Message]:
        order = msgs["orders"]
        return {"big" if order.value > 9 else "small": order}

    graph = Graph("g", [Source("orders"), sort])
    expected = {"large": list(range(10, 20)), "little": list(range(10))}
    return graph, {"orders": list(range(20))}, expected


def join_fork() -> Scene:
    @processor(reads=["left", "right"], writes=["sums", "pairs"])
    def combine(msgs: Any, ctx: Any) -> dict[str, Message | None]:
        left, right = msgs["left"].value, msgs["right"].value
        return {
            "sums": Message(left + right),
            "pairs": Message([left, right]) if left % 2 else None,
        }

    graph = Graph("g", [Source("left"), Source("right"), combine])
    sent = {"left": list(range(10)), "right": list(range(100, 110))}
    pairs = [[n, n + 100] for n in range(10) if n % 2]
    return graph, sent, {"sums": [2 * n + 100 for n in range(10)], "pairs": pairs}


def expand() -> Scene:
    @processor(reads="orders", writes="items", many=True, deterministic=True)
    def items(msgs: Any, ctx: Any) -> list[Message]:
        order = msgs["orders"].value
        return [Message([order, n], key=str(n)) for n in range(order % 4)]

    graph = Graph("g", [Source("orders"), items])
    sent = list(range(12))
    return graph, {"orders": sent}, {"items": [[n, i] for n in sent for i in range(n % 4)]}


def errors() -> Scene:
    @processor(reads="orders", writes="priced", errors="failed", deterministic=True)
    def price(msgs: Any, ctx: Any) -> Message:
        if msgs["orders"].value % 3 == 0:
            raise ValueError("a multiple of three")
        return msgs["orders"]  # type: ignore[no-any-return]

    graph = Graph("g", [Source("orders"), price])
    good = [n for n in range(20) if n % 3]
    return graph, {"orders": list(range(20))}, {"priced": good}


def arrow() -> Scene:
    @processor(reads="orders", writes="doubled", form="arrow", deterministic=True)
    def double(msgs: Any, ctx: Any) -> Any:
        import pyarrow as pa

        batch = msgs["orders"]
        values = [str(2 * int(value)).encode() for value in batch.column("value").to_pylist()]
        return pa.record_batch({"value": pa.array(values, pa.binary())})

    graph = Graph("g", [Source("orders"), double])
    return graph, {"orders": list(range(20))}, {"doubled": [2 * n for n in range(20)]}


def wandering() -> Scene:
    """Another key on every call: what was written goes where it went first, or nowhere."""
    calls = count()

    @processor(reads="orders", writes="priced")
    def price(msgs: Any, ctx: Any) -> Message:
        return Message(msgs["orders"].value, key=f"k{next(calls)}")

    queues = [Queue("orders", partitions=2), Queue("priced", partitions=3)]
    graph = Graph("g", [Source("orders"), price], queues=queues)
    return graph, {"orders": list(range(30))}, {"priced": list(range(30))}


SCENES: dict[str, Callable[[], Scene]] = {
    scene.__name__: scene
    for scene in (
        pipe, staged_pipe, partitioned, wandering, join, alts, fork, join_fork, expand, errors,
        arrow,
    )
}  # fmt: skip


def world_of(scene: Scene, directory: Path) -> World:
    graph, sent, _ = scene
    world = World(graph, directory, SMALL)
    for queue, values in sent.items():
        partitions = len(world.queue(queue).partitions)
        for place, value in enumerate(values):
            key = None if partitions == 1 else f"k{place}"
            world.send(queue, [Message(value, key=key)], place % partitions)
    return world


def check(world: World, expected: Expected) -> None:
    for queue, values in expected.items():
        found = world.values(queue)
        assert Counter(map(str, found)) == Counter(map(str, values)), queue
        if len(world.queue(queue).partitions) == 1 and world.graph.processors[-1].id != "merge":
            assert found == values, f"{queue} is out of order"


@pytest.mark.parametrize("name", SCENES)
def test_every_kind_of_processor_delivers_all_its_inputs(name: str, tmp_path: Path) -> None:
    scene = SCENES[name]()
    world = world_of(scene, tmp_path)
    world.run()
    check(world, scene[2])
    assert world.replays == world.drops == 0


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("name", SCENES)
def test_death_at_any_point_loses_and_doubles_nothing(
    name: str, point: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = SCENES[name]()
    for nth in (1, 3):
        world = world_of(scene, tmp_path / str(nth))
        strike = Strike(point, nth)
        arm(monkeypatch, strike)
        assert run_with_crashes(world, strike) == (1 if strike.has_struck else 0)
        assert strike.has_struck or nth > 1, "the point was never passed"
        check(world, scene[2])


@pytest.mark.parametrize("point", ["graph.write-after", "graph.attempt-after"])
def test_checkpoint_that_is_lost_after_a_death_changes_nothing(
    point: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = SCENES["partitioned"]()
    world = world_of(scene, tmp_path)
    strike = Strike(point, 3)
    arm(monkeypatch, strike)
    with pytest.raises(BaseException, match=point):
        world.run()
    shutil.rmtree(world.checkpoint(world.legs[0]))
    world.run()
    check(world, scene[2])


def test_messages_that_fail_go_to_the_error_queue_with_their_cause(tmp_path: Path) -> None:
    scene = SCENES["errors"]()
    world = world_of(scene, tmp_path)
    world.run()
    failed = world.messages("failed")
    assert [m.value["messages"]["orders"]["value"] for m in failed] == [0, 3, 6, 9, 12, 15, 18]
    cause = failed[0].value["cause"]["chain"][0]
    assert cause == {"type": "builtins.ValueError", "message": "a multiple of three"}
    assert failed[0].type == "windrow.error.processor"


def test_commit_that_spark_lost_drops_the_checkpoint_and_nothing_is_read_again(
    tmp_path: Path,
) -> None:
    scene = SCENES["pipe"]()
    world = world_of(scene, tmp_path)
    world.run()
    checkpoint = world.checkpoint(world.legs[0])
    (checkpoint / "commits" / "2").unlink()
    world.run()
    assert (world.drops, world.replays) == (1, 0)
    assert not (checkpoint / "offsets").exists(), "there was nothing left to read"
    world.send("orders", [20])
    world.run()
    assert world.values("priced") == [3 * n for n in range(21)]


def test_batch_that_was_planned_and_not_run_is_replayed_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though more has come meanwhile: the ranges are those of the snapshot."""
    scene = SCENES["pipe"]()
    world = world_of(scene, tmp_path)
    strike = Strike("graph.read-before", 3)
    arm(monkeypatch, strike)
    with pytest.raises(Died):
        world.run()
    world.send("orders", [20, 21])
    started = world.run_leg(world.legs[0], batches=1)
    assert world.replays == 1
    assert started.recovered.in_doubt is not None
    assert len(world.values("priced")) == 7
    state = world.stores.backing(world.legs[0]).read()
    assert (state.number, state.attempts) == (1, 2)


def test_zombie_completes_nothing_once_it_was_taken_over(tmp_path: Path) -> None:
    scene = SCENES["pipe"]()
    world = world_of(scene, tmp_path)
    leg = world.legs[0]
    zombie = MemoryQuery(world, world.recover(leg))
    assert zombie.step()
    reached = zombie.start_of(1)
    world.run_leg(leg)
    world.send("orders", [20])
    with pytest.raises(Fenced, match="owner 1 was fenced by owner 2"):
        zombie.source.latest_offset(reached)
    world.run()
    assert world.values("priced") == [3 * n for n in range(21)]


def test_torn_checkpoint_is_dropped_like_any_that_does_not_agree(tmp_path: Path) -> None:
    scene = SCENES["pipe"]()
    world = world_of(scene, tmp_path)
    world.run_leg(world.legs[0], batches=2)
    (world.checkpoint(world.legs[0]) / "offsets" / "1").write_text("")
    world.run()
    assert world.drops == 1
    check(world, scene[2])
