"""A standalone Spark cluster on loopback: one master, and workers as processes of their own.

Executors are children of their worker: to kill a worker is to lose a machine of the cluster.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPException
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Final, Self

from windrow.embedded.directory import create_directory
from windrow.embedded.ports import LOOPBACK, free_port
from windrow.embedded.process import Child, find_program
from windrow.embedded.service import Service
from windrow.errors import MissingExtra

_MASTER: Final = "org.apache.spark.deploy.master.Master"
_WORKER: Final = "org.apache.spark.deploy.worker.Worker"


class SparkDaemon(Service):
    """A master or a worker: a JVM with a port for Spark and a page that tells how it stands."""

    def __init__(self, directory: Path, home: Path, env: Mapping[str, str]) -> None:
        super().__init__(directory, version("pyspark"))
        self.port, self.page_port = free_port(), free_port()
        self._home, self._env = home, dict(env)

    def _prepare(self) -> None:
        """Nothing: it makes what it needs."""

    def _start_class(self, main: str, *arguments: str) -> Child:
        """Through Spark's own script, which knows what the JVM has to be told."""
        argv = [str(self._home / "bin" / "spark-class"), main, "--host", LOOPBACK]
        argv += ["--port", str(self.port), "--webui-port", str(self.page_port), *arguments]
        env = {
            "SPARK_HOME": str(self._home),
            "SPARK_LOCAL_IP": LOOPBACK,
            "SPARK_LOCAL_DIRS": str(self.directory),
            "SPARK_DAEMON_MEMORY": "256m",
            # They do little but begin, where the optimizing compiler would only be in the way.
            "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1",
            # Executors are given this, too: a killed JVM leaves nothing in shared places.
            "JDK_JAVA_OPTIONS": f"-Djava.io.tmpdir={self.directory} -XX:-UsePerfData",
            **self._env,
        }
        return Child.start(self.name, argv, cwd=self.directory, log=self.log, env=env)


class SparkMaster(SparkDaemon):
    """Who knows the workers, and gives their cores to drivers."""

    name: ClassVar[str] = "Spark master"

    @classmethod
    def start(cls, home: Path, env: Mapping[str, str]) -> Self:
        """Bring up a master without workers."""
        return cls(create_directory("spark-master"), home, env)._begin()

    @property
    def url(self) -> str:
        """What a session is built with."""
        return f"spark://{LOOPBACK}:{self.port}"

    def alive_workers(self) -> set[int]:
        """The ports of the workers that it counts on."""
        known = _page(self.page_port).get("workers", [])
        return {worker["port"] for worker in known if worker["state"] == "ALIVE"}

    def _launch(self) -> Child:
        return self._start_class(_MASTER)

    def _is_ready(self, child: Child) -> bool:
        return _page(self.page_port).get("status") == "ALIVE"


class SparkWorker(SparkDaemon):
    """One machine of the cluster, as far as Spark can tell."""

    name: ClassVar[str] = "Spark worker"

    def __init__(
        self, directory: Path, home: Path, env: Mapping[str, str], master: SparkMaster, cores: int
    ) -> None:
        super().__init__(directory, home, env)
        self.cores = cores
        self._master = master

    @classmethod
    def start(cls, home: Path, env: Mapping[str, str], master: SparkMaster, cores: int) -> Self:
        """Bring up a worker; its master knows it when this returns."""
        return cls(create_directory("spark-worker"), home, env, master, cores)._begin()

    def _launch(self) -> Child:
        own = ["--cores", str(self.cores), "--memory", "1g", "--work-dir", str(self.directory)]
        return self._start_class(_WORKER, *own, self._master.url)

    def _is_ready(self, child: Child) -> bool:
        return self.port in self._master.alive_workers()


class SparkCluster:
    """A master and its workers."""

    def __init__(self, master: SparkMaster, workers: list[SparkWorker]) -> None:
        self.master, self.workers = master, workers

    @classmethod
    def start(
        cls, workers: int = 2, cores: int = 1, env: Mapping[str, str] | None = None
    ) -> SparkCluster:
        """Bring up a cluster; all its workers are known to the master when this returns.

        Args:
            workers: How many there are.
            cores: How many tasks each runs at a time.
            env: Further variables of their environment, which executors are given as well.

        Raises:
            MissingExtra: PySpark, which brings Spark along, is not installed.
            NotInstalled: There is no Java.
            StartFailed: A part did not come up; the tail of its log is in the error.
        """
        find_program("java", "openjdk-17-jre-headless")
        home, given = _spark_home(), dict(env or {})
        cluster = cls(SparkMaster.start(home, given), [])
        try:
            with ThreadPoolExecutor(workers) as threads:
                starting = [
                    threads.submit(SparkWorker.start, home, given, cluster.master, cores)
                    for _ in range(workers)
                ]
            cluster.workers += [one.result() for one in starting if one.exception() is None]
            for one in starting:
                one.result()
        except BaseException:
            cluster.stop()
            raise
        return cluster

    @property
    def url(self) -> str:
        """What a session is built with: ``build_session("app", master=cluster.url)``."""
        return self.master.url

    @property
    def version(self) -> str:
        """Of Spark."""
        return self.master.version

    def stop(self) -> None:
        """End all of it and remove what it left. Does nothing the second time."""
        for member in (*self.workers, self.master):
            member.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()


def _spark_home() -> Path:
    """Where the package keeps Spark; found without importing it."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise MissingExtra("spark", "pyspark")
    return Path(spec.origin).parent


def _page(port: int) -> dict[str, Any]:
    """What a daemon tells of itself; nothing if it does not answer."""
    connection = HTTPConnection(LOOPBACK, port, timeout=2.0)
    try:
        connection.request("GET", "/json/")
        told: dict[str, Any] = json.load(connection.getresponse())
    except (OSError, HTTPException, ValueError):
        return {}
    finally:
        connection.close()
    return told
