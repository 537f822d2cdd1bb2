"""The same graph, unchanged, on a cluster of several processes, and with Kafka for its queues."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.graph.bench import PATIENCE, ROOT, graph_bench
from tests.faults.graph.test_kills import kill
from tests.faults.graph.trial import FOR_EVER
from tests.fixtures.services import start_service
from windrow.embedded.spark_cluster import SparkCluster
from windrow.points import VARIABLE, Strike
from windrow.testing import FaultLog, Moment

EXECUTORS = {
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
}


@pytest.mark.proves("graph-exactly-once")
def test_graph_on_a_cluster_survives_its_workers_and_its_driver(
    faults: FaultLog, pytestconfig: pytest.Config, tmp_path: Path
) -> None:
    """A task dies, then a worker with its executor, then the driver."""
    part = faults.part("graph")
    env = {VARIABLE: str(tmp_path / "points"), "PYTHONPATH": str(ROOT)}

    def start() -> SparkCluster:
        return SparkCluster.start(env=env)

    with (
        start_service(pytestconfig, "Spark cluster", start) as cluster,
        graph_bench(pytestconfig, tmp_path, master=cluster.url, conf=EXECUTORS) as bench,
    ):
        scene = bench.scene("fork")
        scene.send(40)
        answer = scene.strike(part, "graph.run-during", Strike("exit"))
        assert answer.is_clean, answer
        scene.send(40)
        points, victim = bench.points, cluster.workers[0]
        points.want("graph.write-after", Strike("wait"))
        ticket = bench.driver.ask(scene.order())
        part.inject(
            "kill",
            victim,
            victim.kill,
            work=lambda: points.passed("graph.write-after"),
            at=Moment(point="graph.write-after"),
            reach=lambda: points.wait_for("graph.write-after", PATIENCE),
            patience=PATIENCE,
        )
        points.release("graph.write-after")
        assert bench.driver.answer(ticket).is_clean
        victim.restart()
        scene.send(40)
        kill(part, scene, "graph.attempt-after")
        scene.finish()
        scene.settle(part)


@pytest.mark.proves("graph-exactly-once")
def test_graph_on_topics_survives_its_tasks_and_its_driver(
    faults: FaultLog, pytestconfig: pytest.Config, tmp_path: Path, kafka: str
) -> None:
    part = faults.part("graph")
    with graph_bench(pytestconfig, tmp_path, kafka=kafka) as bench:
        scene = bench.scene("fork", kafka=True)
        scene.send(40)
        legs = ["output/left"]
        for point in ("graph.write-after", "graph.attempt-before", "graph.deliver-after"):
            times = FOR_EVER if "write" in point else 1
            answer = scene.strike(part, point, Strike("raise", times=times), legs=["fork", *legs])
            assert not answer.is_clean
        scene.send(40)
        kill(part, scene, "graph.write-after", nth=2)
        scene.finish()
        scene.settle(part)
