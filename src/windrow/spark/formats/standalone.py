"""The sinks of Windrow outside a graph: any frame with positions, each of its rows once.

A task groups its rows by target and writes each through a ``SinkTask``, as a graph's sink does. All
rows of a target have to be in one task, or one would take the rows of another for a replay: with
several targets, ``repartition("_target")``; with one, ``repartition(1)``. A batch in which two
tasks wrote to one target is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from windrow.graph.positions import SourceOffsets
from windrow.graph.sink_rows import SinkRow
from windrow.graph.sink_task import SinkTask, TaskDone, check_sole_owners
from windrow.graph.snapshot import ProcessorUid, Snapshot
from windrow.spark.formats.options import Options
from windrow.spark.places import Place
from windrow.spark.targets.errors import OverwriteRefused
from windrow.spark.targets.frames import FrameForm
from windrow.spark.targets.open import ROWS_PER_WRITE, cached_effect, cached_target
from windrow.spark.targets.perform import run_sink_task

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

SPARK_OPTIONS = ("checkpointLocation", "path", "queryName")
"""What Spark itself hands to every sink."""

GRAPH = "@standalone"
"""In place of a graph's id; no graph can have it."""


@dataclass
class TaskOfFrame(WriterCommitMessage):
    """What one task wrote, for the driver to check."""

    task: int
    done: tuple[TaskDone, ...]


@dataclass(frozen=True)
class StandaloneSink:
    """Where a frame goes; picklable, and without connections.

    Attributes:
        form: What the frame has.
        place: Where rows and marks go, or the marks alone; ``None`` where no marks are kept.
        effect: A URL that rows are posted to instead.
    """

    form: FrameForm
    place: Place | None
    effect: Place | None = None

    def write(self, batches: Iterator[pa.RecordBatch], task: int) -> TaskOfFrame:
        """Write all rows of a task."""
        by_target = sorted(self.form.by_target(batches).items())
        if self.place is not None:
            done = tuple(self._write(self.place, target, rows) for target, rows in by_target)
            return TaskOfFrame(task, done)
        assert self.effect is not None
        for _, rows in by_target:
            cached_effect(self.effect)(sorted(rows, key=lambda row: row.positions))
        # Without marks nothing is dropped, and tasks cannot be in each other's way.
        return TaskOfFrame(task, ())

    def _write(self, place: Place, target: int, rows: Sequence[SinkRow]) -> TaskDone:
        act = None if self.effect is None else cached_effect(self.effect)
        strategy: Any = "exactly-once" if act is None else "at-least-once"
        snapshot = Snapshot(self.form.uid, 0, (), self.form.routing, strategy=strategy)
        size = ROWS_PER_WRITE[place.backend]
        sink_task = SinkTask(snapshot, target, rows, SourceOffsets(), size)
        return run_sink_task(sink_task, self.form.uid, cached_target(place), act)


def sink_of(
    options: Options,
    schema: StructType,
    place: Place | None,
    *,
    effect: Place | None = None,
    makes_values: bool = False,
) -> StandaloneSink:
    """The sink of a frame.

    Raises:
        PositionsMissing: The frame does not say where its rows come from.
        ValueMissing: It has nothing to write.
        InvalidOption: The writer has no name.
    """
    uid = options.get("uid")
    if not uid:
        raise options.refused("uid", "give the name under which this writer is known for ever")
    targets = 1
    if place is not None and effect is None:
        targets = cached_target(place).targets()
        place = replace(place, partitions=targets)
    destination = effect or place
    assert destination is not None
    # One name may be used for several destinations; what was written to each is kept apart.
    processor = ProcessorUid(GRAPH, uid, f"{destination.backend}/{destination.address}")
    form = FrameForm.of(processor, schema.names, targets, makes_values)
    return StandaloneSink(form, place, effect)


def sink_options(
    format_name: str,
    given: Mapping[str, str],
    overwrite: bool,
    names: Iterable[str],
    prefixes: Iterable[str] = (),
) -> Options:
    """The options of a sink.

    Raises:
        UnknownOption: One is not known.
        OverwriteRefused: What is there was to be replaced.
    """
    if overwrite:
        raise OverwriteRefused(format_name)
    options = Options(format_name, given)
    options.check_known((*names, "uid", *SPARK_OPTIONS), prefixes)
    return options


def required(options: Options, *names: str) -> str:
    """The first of these options that is given.

    Raises:
        InvalidOption: None is.
    """
    for name in names:
        if options.get(name):
            return options.get(name)
    raise options.refused(names[0], "give it")


class StandaloneStreamWriter(DataSourceStreamArrowWriter):
    """Writes the batches of a stream."""

    def __init__(self, sink: StandaloneSink) -> None:
        self._sink = sink

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskOfFrame:
        """Write the rows of one task, those apart that are there already."""
        return self._sink.write(iterator, _task_number())

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """See that no two tasks wrote to one target; everything is written by now."""
        _check(messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Undo nothing: what was written counts, and the next try drops it."""


class StandaloneWriter(DataSourceArrowWriter):
    """Writes a frame once; written again under the same ``uid``, it changes nothing."""

    def __init__(self, sink: StandaloneSink) -> None:
        self._sink = sink

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskOfFrame:
        """Write the rows of one task, those apart that are there already."""
        return self._sink.write(iterator, _task_number())

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """See that no two tasks wrote to one target; everything is written by now."""
        _check(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Undo nothing: what was written counts, and the next try drops it."""


def _task_number() -> int:
    context = TaskContext.get()
    assert context is not None
    return context.partitionId()


def _check(messages: Sequence[WriterCommitMessage | None]) -> None:
    tasks = [message for message in messages if isinstance(message, TaskOfFrame)]
    check_sole_owners((each.task, done.target) for each in tasks for done in each.done)
