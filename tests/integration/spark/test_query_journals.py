"""The same steps on the journals of a real broker, without Spark around them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest

from tests.integration.spark.memory import Strike, World, arm, run_with_crashes
from windrow.config.journal import Journal
from windrow.embedded.broker import Broker
from windrow.graph import Graph, Message, Queue, Source, processor
from windrow.graph.positions import Span
from windrow.journal.message.record import Record
from windrow.spark.places import Connections
from windrow.spark.query.encoding import encode, message_of, raw_rows
from windrow.spark.query.leg_plan import LegPlan, QuerySettings, QueueForm, plan_legs
from windrow.spark.query.opened import STORES, Stores
from windrow.spark.query.start import Accepted, Started, ensure_places
from windrow.spark.queues.clients import journal_client
from windrow.spark.queues.create import ensure_journals
from windrow.spark.targets.open import close_cached_targets

SMALL = QuerySettings(max_rows=7, rows_per_task=3, rows_per_write=2, arrow_rows=4)


@dataclass
class JournalWorld(World):
    """A world whose queues are journals."""

    address: str = ""
    stores: Stores = field(default_factory=lambda: STORES)  # type: ignore[assignment]

    @property
    def legs(self) -> list[LegPlan]:
        connections = Connections(journal=Journal(address=self.address))
        return plan_legs(self.graph, connections, self.settings)

    def recover(self, leg: LegPlan, accepted: Accepted | None = None) -> Started:
        ensure_places(leg)
        return super().recover(leg, accepted)

    def send(self, queue: str, messages: Iterable[Any], partition: int = 0) -> None:
        place = self.place(queue)
        ensure_journals([place])
        whole = [m if isinstance(m, Message) else Message(m) for m in messages]
        bodies = [encode(message, queue, QueueForm(), 1.0) for message in whole]
        records = [Record(key=body.key, value=body.value) for body in bodies]
        client = journal_client(place.connections.journal)
        client.sequenced(place.journals[partition], "test").append(records)

    def messages(self, queue: str) -> list[Message]:
        place = self.place(queue)
        ensure_journals([place])
        reader = STORES.reader(place)
        found = []
        for one in reader.available():
            span = Span(one.source, one.incarnation, one.partition, one.first, one.end)
            for batch in reader.read(span):
                found += [message_of(raw, queue, QueueForm()) for raw in raw_rows(batch)]
        return found


@pytest.fixture(autouse=True)
def closed_targets() -> Iterator[None]:
    yield
    close_cached_targets()


def world_of(broker: Broker, directory: Path, parts: list[Any], **more: Any) -> JournalWorld:
    graph = Graph(f"g{token_hex(4)}", parts, **more)
    return JournalWorld(graph, directory, SMALL, address=broker.address)


@pytest.mark.parametrize("point", ["graph.write-after", "graph.attempt-after", "graph.read-after"])
def test_death_changes_nothing_in_any_journal(
    queue_broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    @processor(reads=["left", "right"], writes=["sums", "odds"], errors="failed")
    def combine(msgs: Any, ctx: Any) -> dict[str, Message | None]:
        left, right = msgs["left"].value, msgs["right"].value
        if left == 3:
            raise ValueError("three")
        key = f"k{left}"
        return {"sums": Message(left + right, key=key), "odds": Message(left) if left % 2 else None}

    parts = [Source("left"), Source("right"), combine]
    world = world_of(queue_broker, tmp_path, parts, queues=[Queue("sums", partitions=2)])
    world.send("left", range(12))
    world.send("right", range(100, 112))
    strike = Strike(point, 2)
    arm(monkeypatch, strike)
    assert run_with_crashes(world, strike) == 1
    assert Counter(world.values("sums")) == Counter(2 * n + 100 for n in range(12) if n != 3)
    assert world.values("odds") == [1, 5, 7, 9, 11]
    assert [m.value["messages"]["left"]["value"] for m in world.messages("failed")] == [3]


def test_queues_used_by_hand_are_journals_too(queue_broker: Broker, tmp_path: Path) -> None:
    @processor(reads="ticks", tailers="prices", appenders={"log": "seen"})
    def drain(msgs: Any, ctx: Any) -> None:
        while (price := ctx.tailers["prices"].read()) is not None:
            ctx.appenders["log"].append(Message([msgs["ticks"].value, price.value]))

    world = world_of(queue_broker, tmp_path, [Source("ticks"), Source("prices"), drain])
    world.send("prices", ["a", "b"])
    world.send("ticks", [1, 2])
    world.run()
    world.send("prices", ["c"])
    world.send("ticks", [3])
    world.run()
    assert world.values("seen") == [[1, "a"], [1, "b"], [3, "c"]]


def test_results_of_what_may_happen_once_at_most_are_written(
    queue_broker: Broker, tmp_path: Path
) -> None:
    @processor(reads="orders", writes="done", errors="failed", strategy="at-most-once")
    def act(msgs: Any, ctx: Any) -> Message:
        return Message(10 // msgs["orders"].value)

    world = world_of(queue_broker, tmp_path, [Source("orders"), act])
    world.send("orders", [1, 0, 5])
    world.run()
    assert world.values("done") == [10, 2]
    assert len(world.values("failed")) == 1
