"""Spark's classes in an archive that a JVM maps into memory, where it would load each from a jar.

With it a session begins in half the time. It is made once for all environments of a user:
``python -m windrow.spark.class_archive``.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from windrow.embedded.class_archive import digest_of, java_home, making, options_to_use
from windrow.embedded.jars import cache_directory
from windrow.extras import require
from windrow.spark.shared_home import make_shared_home, place_of_shared_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ROWS: Final = 10


def java_options() -> str:
    """What has a JVM use the archive; nothing where there is none."""
    return " ".join(options_to_use(place_of_archive()))


def place_of_archive() -> Path:
    """Where the archive for this Java and this Spark belongs, made or not."""
    home = Path(os.environ.get("SPARK_HOME") or place_of_shared_home())
    digest = digest_of(java_home(), home, require("pyspark").__version__)
    return cache_directory(os.environ) / "classes" / f"spark-{digest}.jsa"


def make_archive() -> Path:
    """Have a session load what a graph's queries load, and keep that."""
    from windrow.spark.session import build_session, stop_session

    place = place_of_archive()
    make_shared_home()
    with making(place) as options:
        session = build_session(
            "archive", kafka=False, conf={"spark.driver.extraJavaOptions": " ".join(options)}
        )
        _run_queries(session)
        stop_session(session)  # the JVM writes it when it ends
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
