"""A standalone cluster of Spark, used for real, robbed of a worker, and gone afterwards."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.fixtures.processes import eventually, is_gone
from tests.fixtures.services import start_service
from tests.fixtures.sockets import sockets_of
from windrow.embedded.groups import living_family
from windrow.embedded.spark_cluster import SparkCluster

DRIVER = """
import sys
from windrow.spark import build_session, stop_session

session = build_session("cluster", master=sys.argv[1], kafka=False, conf={
    "spark.executor.memory": "512m",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
})

def who(batches):
    import os, pyarrow
    from pyspark import TaskContext
    list(batches)
    yield pyarrow.RecordBatch.from_pydict({"worker": [os.environ["SPARK_EXECUTOR_DIRS"]]})

def workers():
    rows = session.range(0, 8, 1, 8).mapInArrow(who, "worker string").collect()
    print("ran", len({row.worker for row in rows}), flush=True)

workers()
input()
workers()
stop_session(session)
"""


@pytest.fixture
def cluster(pytestconfig: pytest.Config) -> Iterator[SparkCluster]:
    with start_service(pytestconfig, "Spark cluster", SparkCluster.start) as cluster:
        yield cluster


def test_driver_runs_on_both_workers_and_goes_on_when_one_is_killed(cluster: SparkCluster) -> None:
    """All of it listens on loopback alone, and nothing is left of it."""
    argv = [sys.executable, "-c", DRIVER, cluster.url]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True) as driver:
        assert driver.stdin is not None
        assert driver.stdout is not None
        assert driver.stdout.readline() == "ran 2\n"
        members = [cluster.master, *cluster.workers]
        family = [process for member in members for process in living_family(member.pid)]
        assert len(family) >= 5, "two executors beside the three daemons"
        listening = [s for s in sockets_of(p.pid for p in family) if s.is_listening]
        assert listening
        assert all(socket.local.is_loopback for socket in listening), listening
        cluster.workers[0].kill()
        driver.stdin.write("\n")
        driver.stdin.flush()
        assert driver.stdout.readline() == "ran 1\n"
    assert driver.returncode == os.EX_OK
    cluster.workers[0].restart()
    assert cluster.master.alive_workers() == {worker.port for worker in cluster.workers}
    cluster.stop()
    assert eventually(lambda: all(is_gone(process) for process in family))
    assert not any(member.directory.exists() for member in members)
