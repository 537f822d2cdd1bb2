"""A stream of numbered messages, run to its end, and set back by one batch."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from windrow.spark.columns import POSITION_COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DDL = (
    "_source string, _incarnation string, _partition int, _index long, key string, value string,"
    " time timestamp"
)


class Numbered:
    """Messages in files: each file is a batch of the stream."""

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        self._spark, self._directory = spark, directory
        self.checkpoint = directory / "checkpoint"
        (directory / "messages").mkdir()
        self._files = 0

    def add(self, indices: Sequence[int]) -> None:
        """One more batch."""
        lines = [json.dumps(message(index)) for index in indices]
        self._files += 1
        unseen = self._directory / f"{self._files:03d}.json"
        unseen.write_text("\n".join(lines))
        # Files are taken in the order of their times, which may be the same.
        os.utime(unseen, (self._files, self._files))
        unseen.rename(self._directory / "messages" / unseen.name)

    @property
    def frame(self) -> DataFrame:
        reader = self._spark.readStream.schema(DDL).option("maxFilesPerTrigger", 1)
        return reader.json(str(self._directory / "messages"))

    def run(self, frame: DataFrame, sink: str, options: Mapping[str, str]) -> None:
        """Write all that there is."""
        query = (
            frame.writeStream.format(sink)
            .options(**options)
            .option("checkpointLocation", str(self.checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    def forget_last_commit(self) -> None:
        """As if the driver had died after the last batch was written, before it was noted."""
        commits = self.checkpoint / "commits"
        last = max((path for path in commits.iterdir() if path.name.isdecimal()), key=_number)
        last.unlink()
        (commits / f".{last.name}.crc").unlink(missing_ok=True)


def _number(path: Path) -> int:
    return int(path.name)


def message(index: int) -> dict[str, object]:
    value = json.dumps({"id": index, "text": f"t{index}"})
    position = dict(zip(POSITION_COLUMNS, ("orders", "first", 0, index), strict=True))
    return {**position, "key": f"k{index}", "value": value, "time": "2026-01-02T03:04:05Z"}
