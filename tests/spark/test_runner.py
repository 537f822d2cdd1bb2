"""Whole graphs, run by their runner on a real session and the journals of an embedded broker."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import pytest

from tests.fixtures.services import start_service
from tests.spark.graph_worlds import GraphWorld
from windrow.config import Config
from windrow.config.graph import Graph as GraphSection
from windrow.config.journal import Journal
from windrow.embedded.broker import Broker
from windrow.graph import Graph, Message, Retry, Source, TopologyChanged, processor
from windrow.spark.query.opened import STORES
from windrow.spark.queues.clients import close_clients
from windrow.spark.queues.open import close_cached_queues
from windrow.spark.runner.events import BatchDelivered, ProcessorFailed, ProcessorStarted
from windrow.spark.runner.files import HadoopFiles, LocalFiles
from windrow.spark.runner.repair import Repair
from windrow.spark.runner.run import GraphRunner, RunOptions, RunOutcome
from windrow.spark.runner.standing import read_standing, request_stop
from windrow.spark.runner.supervisor import LegState
from windrow.spark.targets.open import close_cached_targets
from windrow.telemetry.events import Event, EventBus

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATIENCE = 240.0
QUICK = Retry(attempts=2, backoff=0.05, max_backoff=0.1)


@pytest.fixture(scope="module")
def broker(pytestconfig: pytest.Config) -> Iterator[Broker]:
    with start_service(pytestconfig, "broker", Broker.start) as broker:
        yield broker
        close_cached_queues()
        close_cached_targets()
        close_clients()


def shop(**changes: Any) -> Graph:
    """Orders are priced, and what was priced is announced."""

    @processor(reads="orders", writes="priced", deterministic=True)
    def price(msgs: Any, ctx: Any) -> Message:
        order = msgs["orders"]
        return order.having(value=3 * order.value)  # type: ignore[no-any-return]

    @processor(reads="priced", writes="announced", deterministic=True)
    def announce(msgs: Any, ctx: Any) -> Message:
        return Message(f"it costs {msgs['priced'].value}")

    return Graph(f"shop{token_hex(4)}", [Source("orders"), price, announce], **changes)


class Stand:
    """A graph with its checkpoints, and what its runners told."""

    def __init__(self, graph: Graph, spark: SparkSession, broker: Broker, directory: Path) -> None:
        self.graph, self.spark = graph, spark
        self.root = str(directory / "checkpoints")
        self.world = GraphWorld(graph, broker.address, directory)
        self.config = Config(
            journal=Journal(address=broker.address),
            graph=GraphSection(checkpoint=self.root, watch_interval=0.1, steady_after=600.0),
        )
        self.events: list[Event] = []

    def runner(self, **options: Any) -> GraphRunner:
        bus = EventBus()
        bus.subscribe(self.events.append)
        return GraphRunner(self.graph, self.config, self.spark, RunOptions(**options), bus=bus)

    def run_once(self) -> RunOutcome:
        return self.runner(is_once=True).run_or_fail()

    def checkpoint(self, processor: str) -> Path:
        return Path(self.root) / self.graph.id / processor

    def told(self, kind: type[Event], leg: str) -> list[Any]:
        name = f"{self.graph.id}/{leg}"
        return [e for e in self.events if isinstance(e, kind) and getattr(e, "leg", "") == name]


def wait_until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"not within {PATIENCE:g} s: {what}"
        time.sleep(0.1)


@pytest.fixture
def stand(spark: SparkSession, broker: Broker, tmp_path: Path) -> Stand:
    return Stand(shop(), spark, broker, tmp_path)


def test_run_once_goes_through_the_whole_graph_whatever_became_of_its_checkpoints(
    stand: Stand,
) -> None:
    world = stand.world
    world.send("orders", [1, 2])
    outcome = stand.run_once()
    assert world.values("announced") == ["it costs 3", "it costs 6"]
    assert set(outcome.rows.values()) == {2}
    assert stand.told(BatchDelivered, "announce")[0].rows == 2

    # M1: the offset log was cut short, and the batch it spoke of is planned anew.
    world.send("orders", [3])
    torn = stand.checkpoint("price") / "offsets" / "1"
    torn.write_text("")
    desk = Repair(stand.graph, stand.config)
    [finding] = desk.examine().remedies
    assert str(torn) in finding.text
    desk.apply(finding)
    assert not torn.exists()

    # M11: another one is gone altogether.
    shutil.rmtree(stand.checkpoint("announce"))
    stand.run_once()
    assert world.values("announced") == ["it costs 3", "it costs 6", "it costs 9"]

    started = len(stand.told(ProcessorStarted, "price"))
    stand.run_once()
    assert world.values("announced") == ["it costs 3", "it costs 6", "it costs 9"]
    assert len(stand.told(ProcessorStarted, "price")) == started + 1
    standing = read_standing(LocalFiles(), stand.root, stand.graph.id)
    assert standing is not None
    assert standing.is_ended


def test_dead_query_is_started_again_a_fenced_one_is_not_and_a_stop_is_heard(
    stand: Stand,
) -> None:
    world, outcomes = stand.world, []
    world.send("orders", [1])
    runner = stand.runner()
    thread = threading.Thread(target=lambda: outcomes.append(runner.run()))
    thread.start()
    try:
        wait_until(lambda: stand.told(BatchDelivered, "announce"), "the first is announced")
        [query] = [q for q in stand.spark.streams.active if q.name == f"{stand.graph.id}/price"]
        before = len(stand.told(ProcessorStarted, "price"))
        query.stop()
        wait_until(lambda: len(stand.told(ProcessorStarted, "price")) > before, "it starts again")
        world.send("orders", [2])
        wait_until(lambda: len(stand.told(BatchDelivered, "announce")) == 2, "the second arrives")
        assert world.values("announced") == ["it costs 3", "it costs 6"]
        causes = [str(event.cause) for event in stand.told(ProcessorFailed, "price")]
        assert any("nobody stopped it" in cause for cause in causes)

        STORES.backing(world.leg(f"{stand.graph.id}/price")).take("another")
        world.send("orders", [3])
        wait_until(lambda: runner.problem(), "it notices that it is fenced")
        assert runner.problem() == f"{stand.graph.id}/price fenced"
        request_stop(LocalFiles(), stand.root, stand.graph.id, runner.owner)
        thread.join(PATIENCE)
        assert not thread.is_alive()
    finally:
        runner.stop(at_once=True)
        thread.join(PATIENCE)
    [outcome] = outcomes
    states = {name.rpartition("/")[2]: status.state for name, status in outcome.legs.items()}
    assert states == {"price": LegState.FENCED, "announce": LegState.STOPPED}
    assert "Fenced" in outcome.failures[0]
    assert world.values("announced") == ["it costs 3", "it costs 6"]


def test_processor_that_always_fails_is_given_up_by_its_policy_and_the_others_go_on(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    @processor(reads="orders", writes="priced", deterministic=True, retry=QUICK)
    def price(msgs: Any, ctx: Any) -> Message:
        raise ValueError("no price")

    @processor(reads="orders", writes="counted", deterministic=True)
    def count(msgs: Any, ctx: Any) -> Message:
        return Message(1)

    graph = Graph(f"shop{token_hex(4)}", [Source("orders"), price, count])
    stand = Stand(graph, spark, broker, tmp_path)
    stand.world.send("orders", [1, 2])
    outcome = stand.runner(is_once=True).run()
    assert stand.world.values("counted") == [1, 1]
    assert stand.world.values("priced") == []
    [failure] = outcome.failures
    assert "given up" in failure
    assert "snapshot 1 failed 2 times" in failure
    assert "no price" in failure


def test_another_topology_is_refused_before_anything_starts(stand: Stand) -> None:
    def refused() -> None:
        other = shop(errors="failed")
        GraphRunner(
            Graph(stand.graph.id, other.processors, errors="failed"), stand.config, stand.spark
        ).run()

    stand.run_once()  # nothing is there yet, so no query starts
    assert not stand.told(BatchDelivered, "price")
    with pytest.raises(TopologyChanged, match="--accept-topology"):
        refused()


def test_files_are_the_same_through_hadoop(spark: SparkSession, tmp_path: Path) -> None:
    files, path = HadoopFiles(spark), f"file://{tmp_path}/a/b.json"
    assert files.read(path) is None
    assert files.entries(f"{tmp_path}/a") == []
    files.write(path, b"one\xff")
    files.append(path, b"two")
    assert files.read(path) == b"one\xfftwo"
    assert "b.json" in [entry.name for entry in files.entries(f"{tmp_path}/a")]
    assert (tmp_path / "a" / "b.json").read_bytes() == b"one\xfftwo"
    files.remove(f"{tmp_path}/a")
    assert not (tmp_path / "a").exists()
