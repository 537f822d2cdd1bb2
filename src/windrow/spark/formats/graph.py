"""The format ``windrow-graph``: one leg of a graph as a source and as a sink of Spark. Internal.

Only a graph's runner uses it: the plan in its option is made by recovery. All that is done here is
to hand over between Spark's classes and ``windrow.spark.query``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from windrow.errors import WindrowError
from windrow.spark.columns import DELIVERY_DDL, MESSAGE_DDL
from windrow.spark.query.leg_plan import OPTION, LegPlan
from windrow.spark.query.reading import BatchPart
from windrow.spark.query.sink import BatchFacts, LegSink, TaskCount, read_facts
from windrow.spark.query.source import LegSource

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


@dataclass
class PartOfBatch(InputPartition):
    """What one task reads."""

    part: BatchPart


@dataclass
class TaskOfBatch(WriterCommitMessage):
    """What one task wrote."""

    count: TaskCount


class GraphDataSource(DataSource):
    """One leg of a graph."""

    @classmethod
    def name(cls) -> str:
        """What the format is called."""
        return "windrow-graph"

    def schema(self) -> str:
        """Messages for a function of frames, else rows that are ready to be delivered."""
        return MESSAGE_DDL if self._plan.is_frame else DELIVERY_DDL

    def streamReader(self, schema: StructType) -> GraphReader:
        """The source."""
        return GraphReader(self._plan)

    def streamWriter(self, schema: StructType, overwrite: bool) -> GraphWriter:
        """The sink, for one batch: made where the batch is planned, and where it is completed.

        One is made to abort a batch, too, and must not fail then: Spark would tell of that failure
        alone. So what went wrong is kept until somebody needs to know.
        """
        plan = self._plan
        try:
            return GraphWriter(plan, read_facts(plan))
        except WindrowError as error:
            return GraphWriter(plan, error)

    @property
    def _plan(self) -> LegPlan:
        return LegPlan.from_option(self.options[OPTION])


class GraphReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The source of one leg."""

    def __init__(self, plan: LegPlan) -> None:
        self._source = LegSource(plan)

    def getDefaultReadLimit(self) -> ReadLimit:
        """What is planned for; the plan keeps to it whatever Spark asks."""
        rows = self._source.plan.limits.max_rows
        return ReadAllAvailable() if rows is None else ReadMaxRows(rows)

    def prepareForTriggerAvailableNow(self) -> None:
        """Take nothing that comes later than now."""
        self._source.prepare_available_now()

    def initialOffset(self) -> dict[str, Any]:
        """Where recovery says that reading begins."""
        return self._source.initial_offset()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Where the next batch ends."""
        return self._source.latest_offset(start)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Where the inputs end, for progress."""
        return self._source.latest_available()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """What each task reads."""
        return [PartOfBatch(part) for part in self._source.partitions(start, end)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one part."""
        assert isinstance(partition, PartOfBatch)
        return self._source.read(partition.part)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing: what was delivered is known by the sink."""

    def stop(self) -> None:
        """Nothing: what was opened ends with its process."""

    def __reduce__(self) -> tuple[Any, ...]:
        """To a task goes the plan alone; it opens what it needs by itself."""
        return GraphReader, (self._source.plan,)


class GraphWriter(DataSourceStreamArrowWriter):
    """The sink of one leg for one batch."""

    def __init__(self, plan: LegPlan, facts: BatchFacts | WindrowError) -> None:
        self._plan, self._facts = plan, facts

    @property
    def _sink(self) -> LegSink:
        if isinstance(self._facts, WindrowError):
            raise self._facts
        return LegSink(self._plan, self._facts)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskOfBatch:
        """Write the rows of one task."""
        context = TaskContext.get()
        assert context is not None
        return TaskOfBatch(self._sink.write(iterator, context.partitionId()))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Complete the delivery."""
        self._sink.commit([each.count for each in messages if isinstance(each, TaskOfBatch)])

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Undo nothing: what was written counts, and what was not is written by the next try."""
