"""The Spark session: its settings, and that nothing of it outlives its process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.fixtures.processes import eventually, is_gone
from tests.fixtures.sockets import sockets_of
from windrow.embedded.groups import Process, living_family
from windrow.spark import SessionExists, build_session
from windrow.spark.session import is_on_this_machine, session_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DRIVER = """
from pyspark import SparkContext
from windrow.spark import build_session, stop_session

def report(session):
    directory = session.conf.get("spark.local.dir")
    print("session", SparkContext._gateway.proc.pid, directory, flush=True)
    input()

quick = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
first = build_session("first", kafka=False, conf=quick)
report(first)
stop_session(first)
stop_session(first)
print("stopped", flush=True)
input()
second = build_session("second", kafka=True, conf=quick)
print("kafka", len(second.read.format("kafka").option("subscribe", "t")
                   .option("kafka.bootstrap.servers", "127.0.0.1:1").load().columns), flush=True)
second.range(2).mapInArrow(lambda batches: batches, "id long").collect()
report(second)
"""


def test_settings_of_a_local_session_keep_everything_on_this_machine() -> None:
    settings = session_settings("local[2]", Path("/d"), [Path("/j/a.jar"), Path("/j/b.jar")], {})
    assert settings["spark.driver.host"] == settings["spark.driver.bindAddress"] == "127.0.0.1"
    assert settings["spark.local.dir"] == "/d"
    assert settings["spark.jars"] == "/j/a.jar,/j/b.jar"
    assert settings["spark.ui.enabled"] == "false"
    assert settings["spark.python.unix.domain.socket.enabled"] == "true"
    assert "FileSystemBased" in settings["spark.sql.streaming.checkpointFileManagerClass"]


def test_cluster_elsewhere_is_not_told_to_find_us_on_loopback() -> None:
    """Nor is its checkpoint, which may be anywhere, managed as if it were on a local disk."""
    settings = session_settings("spark://cluster:7077", Path("/d"), [], {})
    assert not any("127.0.0.1" in value for value in settings.values())
    assert not any("checkpoint" in key for key in settings)
    assert "spark.jars" not in settings


@pytest.mark.parametrize(
    ("master", "here"),
    [("local", True), ("local[2,4]", True), ("spark://127.0.0.1:7077", True), ("yarn", False)],
)
def test_master_tells_whether_all_of_spark_is_here(master: str, here: bool) -> None:
    assert is_on_this_machine(master) is here


def test_settings_given_go_before_ours_and_jars_and_java_options_are_added() -> None:
    given = {
        "spark.sql.shuffle.partitions": "7",
        "spark.jars": "/mine.jar",
        "spark.driver.extraJavaOptions": "-Dmine",
    }
    settings = session_settings("local", Path("/d"), [Path("/a.jar")], given)
    assert settings["spark.sql.shuffle.partitions"] == "7"
    assert settings["spark.jars"] == "/a.jar,/mine.jar"
    assert settings["spark.driver.extraJavaOptions"].startswith("-Djava.io.tmpdir=/d ")
    assert settings["spark.driver.extraJavaOptions"].endswith(" -Dmine")
    assert session_settings("local", Path("/d"), [], given)["spark.jars"] == "/mine.jar"


def test_python_of_the_workers_is_ours(spark: SparkSession) -> None:
    def executable(batches: Iterator[Any]) -> Iterator[Any]:
        import sys

        import pyarrow

        list(batches)
        yield pyarrow.RecordBatch.from_pydict({"executable": [sys.executable]})

    rows = spark.range(0, 1, 1, 1).mapInArrow(executable, "executable string").collect()
    assert [row.executable for row in rows] == [sys.executable]


def test_environment_is_left_as_it_was(spark: SparkSession) -> None:
    assert spark.sparkContext.pythonExec not in os.environ.values()


def test_jvm_listens_on_loopback_alone(spark: SparkSession) -> None:
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    assert gateway is not None
    listening = {each.local for each in sockets_of([gateway.proc.pid]) if each.is_listening}
    assert listening
    assert all(address.is_loopback for address in listening), listening


def test_second_session_of_a_process_is_refused(spark: SparkSession) -> None:
    with pytest.raises(SessionExists, match="this process has the session 'windrow-tests'"):
        build_session("another")


def test_missing_java_is_named_with_its_package() -> None:
    environ = {k: v for k, v in os.environ.items() if k != "JAVA_HOME"} | {"PATH": "/nowhere"}
    program = "from windrow.spark import build_session; build_session('x')"
    done = subprocess.run(
        [sys.executable, "-c", program], env=environ, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith("apt-get install openjdk-17-jre-headless")


@pytest.mark.proves("real-services")
def test_stopped_session_is_gone_and_so_is_one_whose_driver_is_killed() -> None:
    """In a process of its own, since the session that tests share lives in this one."""
    argv = [sys.executable, "-c", DRIVER]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as driver:
        family, directory = read_session(driver)
        go_on(driver)
        assert read_words(driver) == ["stopped"]
        assert eventually(lambda: all(is_gone(process) for process in family))
        assert not directory.exists()
        go_on(driver)
        # The second session has jars: it was not given the JVM of the first.
        assert read_words(driver) == ["kafka", "7"]
        family, directory = read_session(driver)
        assert "daemon" in names_of(family), "a worker was started, and forked"
        driver.send_signal(signal.SIGKILL)
        assert eventually(lambda: all(is_gone(process) for process in family))
        assert eventually(lambda: not directory.exists())


def read_session(driver: subprocess.Popen[str]) -> tuple[list[Process], Path]:
    """The JVM, what Python is forked from, all workers, and where its files are."""
    _, pid, directory = read_words(driver)
    family = [process for process in living_family(driver.pid) if process.pid != driver.pid]
    assert int(pid) in {process.pid for process in family}
    assert Path(directory).is_dir()
    return family, Path(directory)


def names_of(processes: list[Process]) -> list[str]:
    return [Path(f"/proc/{process.pid}/comm").read_text().strip() for process in processes]


def read_words(driver: subprocess.Popen[str]) -> list[str]:
    assert driver.stdout is not None
    return driver.stdout.readline().split()


def go_on(driver: subprocess.Popen[str]) -> None:
    assert driver.stdin is not None
    driver.stdin.write("\n")
    driver.stdin.flush()
