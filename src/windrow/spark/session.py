"""How a Spark session is built and ended; nothing else builds one.

The JVM is a child of this process and ends with it, however it ends; so do the Python workers, and
the directory where all their temporary files lie.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from windrow.embedded.directory import create_directory, remove_directory
from windrow.embedded.groups import find_process
from windrow.embedded.jars import jar_files
from windrow.embedded.ports import LOOPBACK
from windrow.embedded.process import find_program
from windrow.embedded.reaper import reaper
from windrow.extras import require
from windrow.spark import class_archive
from windrow.spark.errors import SessionExists
from windrow.spark.forks import Forks
from windrow.spark.shared_home import home_in_use

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JVM_EXIT_TIMEOUT: Final = 60.0
_DIRECTORY: Final = "spark.windrow.directory"
_JARS: Final = "spark.jars"
_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
_PYTHON: Final = "PYSPARK_PYTHON"
_HOME: Final = "SPARK_HOME"
_LOCAL_IP: Final = "SPARK_LOCAL_IP"
_CHECKPOINT_MANAGER: Final = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)

_forks: Final[dict[Path, Forks]] = {}
"""Of the session whose files lie there; a process has one at a time."""


def build_session(
    app_name: str,
    master: str = "local[2]",
    kafka: bool = True,
    conf: Mapping[str, str] | None = None,
) -> SparkSession:
    """Start a JVM and a session in it; end both with :func:`stop_session`.

    Args:
        app_name: What Spark calls it.
        master: ``local[…]`` or the address of a cluster.
        kafka: Whether formats ``kafka`` are to be had; fetches their jars the first time.
        conf: Settings beside ours or in their place; jars and Java options are added to ours.

    Raises:
        MissingExtra: PySpark is not installed.
        NotInstalled: There is no Java, or no Maven to fetch the jars with.
        SessionExists: This process has a session; another one would get its JVM and its jars.
    """
    sql = require("pyspark.sql")
    existing = sql.SparkSession.getActiveSession()
    if existing is not None:
        raise SessionExists(app_name, existing.sparkContext.appName)
    if "JAVA_HOME" not in os.environ:
        find_program("java", "openjdk-17-jre-headless")
    jars = jar_files("spark-kafka") if kafka else []
    directory = create_directory("spark")
    settings = session_settings(master, directory, jars, conf or {})
    settings[_JAVA_OPTIONS] = f"{class_archive.java_options()} {settings[_JAVA_OPTIONS]}"
    builder = sql.SparkSession.builder.appName(app_name).master(master).config(map=settings)
    with _environment(master, directory):
        session: SparkSession = builder.getOrCreate()
    if directory in _forks:
        _forks[directory].wait_until_listening()
    _guard_jvm()
    return session


def stop_session(session: SparkSession) -> None:
    """End the session and its JVM, and remove what they left; does nothing the second time."""
    context_class = require("pyspark").SparkContext
    if session.sparkContext is not context_class._active_spark_context:
        return
    directory = Path(session.sparkContext.getConf().get(_DIRECTORY, ""))
    session.stop()
    # PySpark would keep the JVM for the next session, which could then have no other jars.
    gateway = context_class._gateway
    context_class._gateway = context_class._jvm = None
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(JVM_EXIT_TIMEOUT)
    reaper.release_group(gateway.proc.pid)
    _stop_forks(directory)
    remove_directory(directory)


def session_settings(
    master: str, directory: Path, jars: Sequence[Path], conf: Mapping[str, str]
) -> dict[str, str]:
    """All settings of a session whose temporary files belong in ``directory``."""
    settings = {
        _DIRECTORY: str(directory),
        _JAVA_OPTIONS: f"-Djava.io.tmpdir={directory} -XX:-UsePerfData",
        "spark.log.level": "ERROR",
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Both halve the time of a micro-batch that goes through Python.
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.python.authenticate.socketTimeout": "90s",
    }
    if is_on_this_machine(master):
        settings |= {
            "spark.driver.bindAddress": LOOPBACK,
            "spark.driver.host": LOOPBACK,
            "spark.local.dir": str(directory),
            "spark.sql.shuffle.partitions": "2",
            # Takes half the time of the default one, and is made for a local disk.
            "spark.sql.streaming.checkpointFileManagerClass": _CHECKPOINT_MANAGER,
        }
    if jars:
        settings[_JARS] = ",".join(map(str, jars))
    added = {
        key: separator.join(filter(None, [settings.get(key), conf.get(key)]))
        for key, separator in ((_JARS, ","), (_JAVA_OPTIONS, " "))
        if key in settings or key in conf
    }
    return {**settings, **conf, **added}


def is_on_this_machine(master: str) -> bool:
    """Whether all of Spark runs here, so that nothing has to be reached from elsewhere."""
    return _is_local(master) or f"//{LOOPBACK}:" in master


@contextmanager
def _environment(master: str, directory: Path) -> Iterator[None]:
    """What Spark takes from the environment alone, while it starts; a value that is there stays."""
    before = {name: os.environ.get(name) for name in (_PYTHON, _LOCAL_IP, _HOME)}
    if _is_local(master):
        os.environ[_HOME] = str(home_in_use())
    if is_on_this_machine(master):
        os.environ.setdefault(_LOCAL_IP, LOOPBACK)
    if os.environ.get(_PYTHON, sys.executable) == sys.executable:
        os.environ[_PYTHON] = str(_start_forks(directory) if _is_local(master) else sys.executable)
    try:
        yield
    except BaseException:
        _stop_forks(directory)
        raise
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _is_local(master: str) -> bool:
    """Whether all of Spark is one process; elsewhere what it is to run has to be shipped first."""
    return master.startswith("local")


def _start_forks(directory: Path) -> Path:
    _forks[directory] = forks = Forks.start(directory)
    return forks.program


def _stop_forks(directory: Path) -> None:
    if directory in _forks:
        _forks.pop(directory).stop()


def _guard_jvm() -> None:
    """See to the end of the JVM if we cannot.

    It ends by itself when its standard input does, but only after it has gone on for a while.
    """
    pid = require("pyspark").SparkContext._gateway.proc.pid
    process = find_process(pid)
    if process is not None:
        reaper.guard_group(pid, process.start_time)
