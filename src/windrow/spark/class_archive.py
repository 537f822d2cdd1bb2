"""Spark's classes in an archive that a JVM maps into memory, where it would load each from a jar.

With it a session begins in half the time. An archive fits one Java and one class path, so it is
made where it is used, once: ``python -m windrow.spark.class_archive``. A JVM that finds that it
does not fit goes on without it.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from windrow.embedded.process import find_program
from windrow.extras import require

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_QUIET: Final = "-Xlog:cds*=off"
_ROWS: Final = 10


def java_options() -> str:
    """What has a JVM use the archive; nothing where there is none."""
    place = place_of_archive()
    return f"-XX:SharedArchiveFile={place} {_QUIET}" if place.is_file() else ""


def place_of_archive() -> Path:
    """Where the archive for this Java and this PySpark belongs, made or not."""
    pyspark = require("pyspark")
    home = Path(os.environ.get("SPARK_HOME") or Path(str(pyspark.__file__)).parent)
    java = _java_home()
    release = java / "release"
    facts = [java, release.read_text() if release.exists() else "", home, pyspark.__version__]
    digest = hashlib.sha256("\n".join(map(str, facts)).encode()).hexdigest()[:12]
    # With the packages it belongs to, so that it goes when they go.
    return Path(sys.prefix, "var", "windrow", f"spark-{digest}.jsa")


def make_archive() -> Path:
    """Have a session load what a graph's queries load, and keep that."""
    from windrow.spark.session import build_session, stop_session

    place = place_of_archive()
    place.parent.mkdir(parents=True, exist_ok=True)
    draft = place.with_name(f"{place.name}.{os.getpid()}")
    options = f"-XX:TieredStopAtLevel=1 -XX:ArchiveClassesAtExit={draft} {_QUIET}"
    try:
        session = build_session(
            "archive", kafka=False, conf={"spark.driver.extraJavaOptions": options}
        )
        _run_queries(session)
        stop_session(session)  # the JVM writes it when it ends
        draft.rename(place)
    finally:
        draft.unlink(missing_ok=True)
    return place


def _run_queries(session: SparkSession) -> None:
    """One that streams through Python, as those of a graph do, and one that computes there."""
    source, sink = _python_formats()
    session.dataSource.register(source)
    session.dataSource.register(sink)
    with tempfile.TemporaryDirectory() as checkpoint:
        rows = session.readStream.format(source.name()).load()
        writer = rows.writeStream.format(sink.name()).option("checkpointLocation", checkpoint)
        query = writer.trigger(processingTime="50 milliseconds").start()
        while query.isActive and (query.lastProgress is None or query.lastProgress.batchId < 3):
            time.sleep(0.05)  # Spark tells of its progress only when asked
        query.stop()
    session.range(_ROWS).mapInArrow(lambda batches: batches, "id long").collect()


def _python_formats() -> tuple[type[Any], type[Any]]:
    """A source that never runs dry, and a sink that forgets. Spark is imported only here."""
    from pyspark.sql.datasource import (
        DataSource,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        InputPartition,
        WriterCommitMessage,
    )

    class Reader(DataSourceStreamReader):
        def __init__(self) -> None:
            self.latest = 0

        def initialOffset(self) -> dict[str, int]:
            return {"at": 0}

        def latestOffset(self) -> dict[str, int]:  # type: ignore[override]
            self.latest += _ROWS
            return {"at": self.latest}

        def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
            return [InputPartition((start["at"], end["at"]))]

        def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
            return ((number,) for number in range(*partition.value))

    class Writer(DataSourceStreamWriter):
        def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
            list(iterator)
            return WriterCommitMessage()

    class Source(DataSource):
        @classmethod
        def name(cls) -> str:
            return "windrow-archive-source"

        def schema(self) -> str:
            return "number long"

        def streamReader(self, schema: Any) -> DataSourceStreamReader:
            return Reader()

    class Sink(DataSource):
        @classmethod
        def name(cls) -> str:
            return "windrow-archive-sink"

        def streamWriter(self, schema: Any, overwrite: bool) -> DataSourceStreamWriter:
            return Writer()

    return Source, Sink


def _java_home() -> Path:
    """Of the Java that Spark would start."""
    if "JAVA_HOME" in os.environ:
        return Path(os.environ["JAVA_HOME"]).resolve()
    return find_program("java", "openjdk-17-jre-headless").resolve().parent.parent


def main() -> int:
    """Make it unless it is there; say nothing when it is."""
    try:
        if not place_of_archive().is_file():
            print("archiving the classes of Spark (once)", flush=True)
            make_archive()
    except Exception as error:  # whatever is wrong with it, set-up goes on: nothing depends on it
        print(f"Spark will start without an archive of its classes: {error}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
