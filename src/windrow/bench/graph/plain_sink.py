"""A sink that appends what it gets and remembers nothing: what exactly once is compared with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, WriterCommitMessage

from windrow.journal.client.sync import connect
from windrow.journal.message.record import Record, encode_records

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


@dataclass
class Appended(WriterCommitMessage):
    """How many a task has appended."""

    rows: int


class PlainJournalSink(DataSource):
    """The format ``windrow-bench-plain``."""

    @classmethod
    def name(cls) -> str:
        """What it is called."""
        return "windrow-bench-plain"

    def streamWriter(self, schema: StructType, overwrite: bool) -> PlainWriter:
        """A writer of one batch."""
        return PlainWriter(dict(self.options))


class PlainWriter(DataSourceStreamArrowWriter):
    """Appends the rows of a task in one piece."""

    def __init__(self, options: dict[str, str]) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Append all rows."""
        records = [
            Record(key=row["key"], value=row["value"], topic=row["topic"] or "")
            for batch in iterator
            for row in batch.select(["key", "value", "topic"]).to_pylist()
        ]
        with connect(self._options["address"]) as client:
            client.append(self._options["journal"], encode_records(records, 0))
        return Appended(len(records))

    def commit(self, messages: list[Any], batchId: int) -> None:
        """Nothing is remembered."""

    def abort(self, messages: list[Any], batchId: int) -> None:
        """Nothing can be taken back."""
