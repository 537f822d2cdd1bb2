"""Functions whose deeds are effects, messages that kill, and queues that are used by hand."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.integration.spark.memory import Died, Strike, World, arm, run_with_crashes
from windrow.errors import Unreachable
from windrow.graph import Graph, Message, Queue, Retry, Source, processor
from windrow.graph.delivery_errors import AttemptsExhausted
from windrow.spark.query.errors import StepFailed
from windrow.spark.query.leg_plan import QuerySettings

SMALL = QuerySettings(max_rows=5, rows_per_task=3, arrow_rows=4)


@pytest.mark.proves("graph-side-effects")
def test_sink_acts_at_least_once_with_the_same_hash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[tuple[int, str, int]] = []

    @processor(reads="orders")
    def act(msgs: Any, ctx: Any) -> None:
        done.append((msgs["orders"].value, ctx.delivery_hash, ctx.attempt))

    world = World(Graph("g", [Source("orders"), act]), tmp_path, SMALL)
    world.send("orders", range(12))
    strike = Strike("graph.write-before", 2)  # the second batch is done, and not yet marked
    arm(monkeypatch, strike)
    assert run_with_crashes(world, strike) == 1
    counted = Counter(value for value, _, _ in done)
    assert counted == {n: 2 if 5 <= n < 10 else 1 for n in range(12)}
    assert len({digest for _, digest, _ in done}) == 12
    assert {attempt for value, _, attempt in done if 5 <= value < 10} == {1, 2}


@pytest.mark.proves("graph-side-effects")
def test_at_most_once_a_claim_is_never_acted_on_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was claimed by a task that died is lost, by contract."""
    done: list[int] = []

    @processor(reads="orders", writes="out", strategy="at-most-once")
    def act(msgs: Any, ctx: Any) -> Message:
        done.append(msgs["orders"].value)
        return Message(msgs["orders"].value)

    world = World(Graph("g", [Source("orders"), act]), tmp_path, SMALL)
    world.send("orders", range(12))
    strike = Strike("graph.run-during", 2)  # the first message of the second batch is done
    arm(monkeypatch, strike)
    assert run_with_crashes(world, strike) == 1
    assert done == [0, 1, 2, 3, 4, 5, 10, 11]
    assert world.values("out") == [0, 1, 2, 3, 4, 10, 11]


def test_arrow_sink_gets_batches_with_their_hashes(tmp_path: Path) -> None:
    seen: list[tuple[bytes, str]] = []

    @processor(reads="orders", form="arrow")
    def act(msgs: Any, ctx: Any) -> None:
        batch = msgs["orders"]
        assert batch.num_rows <= 4
        seen.extend(zip(batch["value"].to_pylist(), batch["_hash"].to_pylist(), strict=True))

    world = World(Graph("g", [Source("orders"), act]), tmp_path, SMALL)
    world.send("orders", range(12))
    world.run()
    assert [int(value) for value, _ in seen] == list(range(12))
    assert len({digest for _, digest in seen}) == 12


def test_rows_for_a_url_are_posted_by_the_task_that_marks_them(tmp_path: Path) -> None:
    @processor(reads="orders", writes="hook", strategy="at-least-once", deterministic=True)
    def tell(msgs: Any, ctx: Any) -> Message:
        return Message({"n": msgs["orders"].value})

    queues = [Queue("hook", http="http://127.0.0.1:1/hook")]
    world = World(Graph("g", [Source("orders"), tell], queues=queues), tmp_path, SMALL)
    world.send("orders", range(7))
    world.run()
    assert [row.value.value for row in world.stores.posted] == [  # type: ignore[attr-defined]
        b'{"n":%d}' % n for n in range(7)
    ]


def test_function_that_fails_stops_before_its_message_until_attempts_are_used_up(
    tmp_path: Path,
) -> None:
    @processor(reads="orders", writes="out", deterministic=True, retry=Retry(3, 0.0))
    def refuse(msgs: Any, ctx: Any) -> Message:
        raise ValueError("never")

    world = World(Graph("g", [Source("orders"), refuse]), tmp_path, SMALL)
    world.send("orders", range(3))
    for _ in range(3):
        with pytest.raises(StepFailed, match='stops before "orders" partition 0 index 0: ValueErr'):
            world.run()
    with pytest.raises(AttemptsExhausted, match="failed 3 times"):
        world.run()
    assert world.values("out") == []


def test_dropped_messages_leave_no_trace_and_hold_up_nothing(tmp_path: Path) -> None:
    @processor(reads="orders", writes="out", deterministic=True, on_error="drop")
    def invert(msgs: Any, ctx: Any) -> Message:
        return Message(1 / (msgs["orders"].value % 2))

    world = World(Graph("g", [Source("orders"), invert]), tmp_path, SMALL)
    world.send("orders", range(10))
    world.run()
    assert world.values("out") == [1.0] * 5


def test_message_that_kills_its_worker_is_found_and_put_aside(tmp_path: Path) -> None:
    """First by the whole batch, then one by one: the note tells which it was."""

    @processor(reads="orders", writes="out", errors="failed", retry=Retry(2, 0.0))
    def deadly(msgs: Any, ctx: Any) -> Message:
        if msgs["orders"].value == 3:
            raise Died("of poison")
        return msgs["orders"]  # type: ignore[no-any-return]

    world = World(Graph("g", [Source("orders"), deadly]), tmp_path, SMALL)
    world.send("orders", range(8))
    stage = world.legs[0]
    for _ in range(3):
        with pytest.raises(Died):
            world.run_leg(stage)
    world.run()
    assert world.values("out") == [0, 1, 2, 4, 5, 6, 7]
    (failed,) = world.messages("failed")
    assert failed.value["messages"]["orders"]["value"] == 3
    assert "PoisonMessage" in failed.value["cause"]["chain"][0]["type"]


def test_service_that_cannot_be_reached_fails_no_message(tmp_path: Path) -> None:
    is_down = [True]

    @processor(reads="orders", writes="out", errors="failed", deterministic=True)
    def enrich(msgs: Any, ctx: Any) -> Message:
        if is_down:
            is_down.clear()
            raise Unreachable("prices", "127.0.0.1:1", "refused")
        return msgs["orders"]  # type: ignore[no-any-return]

    world = World(Graph("g", [Source("orders"), enrich]), tmp_path, SMALL)
    world.send("orders", range(4))
    with pytest.raises(Unreachable):
        world.run()
    world.run()
    assert world.values("out") == [0, 1, 2, 3]
    assert world.values("failed") == []


def test_result_too_large_for_its_queue_is_an_error_before_it_is_staged(tmp_path: Path) -> None:
    @processor(reads="orders", writes="out", errors="failed")
    def grow(msgs: Any, ctx: Any) -> Message:
        return Message("x" * msgs["orders"].value)

    queues = [Queue("out", options={"max_message_bytes": 10})]
    world = World(Graph("g", [Source("orders"), grow], queues=queues), tmp_path, SMALL)
    world.send("orders", [3, 30, 4])
    world.run()
    assert world.values("out") == ["xxx", "xxxx"]
    (failed,) = world.messages("failed")
    assert "has 32 bytes, and it takes 10" in failed.value["cause"]["chain"][0]["message"]


def test_value_that_is_no_json_is_an_error_with_its_bytes(tmp_path: Path) -> None:
    @processor(reads="orders", writes="out", errors="failed", deterministic=True)
    def copy(msgs: Any, ctx: Any) -> Message:
        return msgs["orders"]  # type: ignore[no-any-return]

    world = World(Graph("g", [Source("orders"), copy]), tmp_path, SMALL)
    world.send("orders", [1])
    from windrow.spark.stores import Content

    world.queue("orders").partitions[0].append(Content(b"\xff{"))
    world.run()
    assert world.values("out") == [1]
    (failed,) = world.messages("failed")
    assert failed.value["messages"]["orders"]["value"] == {"base64": "/3s="}


def test_batch_that_fails_in_arrow_is_cut_until_the_row_is_found(tmp_path: Path) -> None:
    @processor(reads="orders", writes="out", errors="failed", form="arrow", types="good")
    def strict(msgs: Any, ctx: Any) -> Any:
        batch = msgs["orders"]
        if b"7" in batch["value"].to_pylist():
            raise ValueError("seven")
        return batch

    world = World(Graph("g", [Source("orders"), strict]), tmp_path, SMALL)
    world.send("orders", [Message(n, type="good" if n % 2 else "bad") for n in range(12)])
    world.run()
    assert world.values("out") == [1, 3, 5, 9, 11]
    (failed,) = world.messages("failed")
    assert failed.value["cause"]["chain"][0]["message"] == "seven"


def test_queues_used_by_hand_go_on_where_they_were(tmp_path: Path) -> None:
    @processor(reads="ticks", tailers="prices", appenders={"log": "seen"})
    def drain(msgs: Any, ctx: Any) -> None:
        while (price := ctx.tailers["prices"].read()) is not None:
            ctx.appenders["log"].append(Message([msgs["ticks"].value, price.value]))

    world = World(Graph("g", [Source("ticks"), Source("prices"), drain]), tmp_path, SMALL)
    world.send("prices", ["a", "b"])
    world.send("ticks", [1, 2])
    world.run()
    world.send("prices", ["c"])
    world.send("ticks", [3])
    world.run()
    assert world.values("seen") == [[1, "a"], [1, "b"], [3, "c"]]


def test_provenance_grows_on_the_way(tmp_path: Path) -> None:
    @processor(reads="orders", writes="out", deterministic=True)
    def copy(msgs: Any, ctx: Any) -> Message:
        assert msgs["orders"].meta["queue"]["orders"]["t"] == ctx.positions[0].index
        return Message(msgs["orders"].value)

    graph = Graph("g", [Source("orders"), copy], queue_meta=("t", "tx"))
    world = World(graph, tmp_path, SMALL)
    world.send("orders", [10, 11])
    world.run()
    metas = [message.meta for message in world.messages("out")]
    assert metas == [{"queue": {"orders": {"t": n}, "out": {"t": n}}, "tx": n} for n in (0, 1)]
