"""Functions of frames: how they are called, and what their rows have to look like.

A function gets the frame of its input, or of several inputs a mapping of its names to frames, in
the columns of a source; if it takes a second argument, that is the context of the processor. It
returns a frame with the column ``value`` and any of ``key``, ``headers`` and ``topic``, or one for
each of its outputs by name.

A stateless function keeps the position columns, so that each row is known by the message it was
made from. Rows of windows and of state have no such message: they are known by the number of the
snapshot, and Spark's checkpoint is then more than a cache.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from functools import reduce
from typing import TYPE_CHECKING, Any

from windrow.graph.context import Context
from windrow.graph.processors import Processor
from windrow.spark.chunks import messages_in
from windrow.spark.columns import HASH, POSITION_COLUMNS, SOURCE
from windrow.spark.query.errors import InvalidColumns, PositionsLost
from windrow.spark.query.leg_plan import LegPlan
from windrow.spark.query.opened import STORES
from windrow.spark.query.sink import LegSink, TaskCount, complete, read_facts

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

QUEUE = "_queue"
"""The column that says which output a row is for."""

_TYPES = {
    "key": "binary",
    "value": "binary",
    "headers": "array<struct<name:string,value:binary>>",
    "topic": "string",
}
_SAVED = ", ".join(
    f"{name} {kind}" for name, kind in {HASH: "string", **_TYPES, "time": "timestamp"}.items()
)
"""What a format of Spark is given to save."""


def apply_function(plan: LegPlan, source: DataFrame) -> DataFrame:
    """The rows that a function makes of its inputs, as the sink takes them.

    Raises:
        InvalidColumns: What it returned are no messages.
        PositionsLost: It is stateless, and yet its rows have no positions.
    """
    returned = call_function(plan, source)
    processor = plan.processor
    if not isinstance(returned, Mapping):
        if len(processor.writes) != 1:
            raise InvalidColumns(processor.id, "it writes several queues; return a frame for each")
        returned = {next(iter(processor.writes)): returned}
    unknown = [name for name in returned if name not in processor.writes]
    if unknown:
        raise InvalidColumns(processor.id, f"it does not write {unknown[0]!r}")
    frames = [_columns(plan, processor.writes[name], frame) for name, frame in returned.items()]
    return reduce(lambda left, right: left.unionByName(right), frames)


def call_function(plan: LegPlan, source: DataFrame) -> Any:
    """What the function itself gives."""
    processor = plan.processor
    given: Any = source
    if len(processor.inputs) > 1:
        given = {
            name: source.where(source[SOURCE] == queue) for name, queue in processor.inputs.items()
        }
    if not _takes_context(processor):
        return processor.function(given)
    context = Context(plan.uid.base, "", (), system=plan.system, options=processor.options)
    return processor.function(given, context)


def _takes_context(processor: Processor) -> bool:
    parameters = inspect.signature(processor.function).parameters.values()
    taken = [each for each in parameters if each.kind is not each.KEYWORD_ONLY]
    return len(taken) > 1


def _columns(plan: LegPlan, queue: str, frame: DataFrame) -> DataFrame:
    from pyspark.sql import functions

    processor = plan.processor
    if "value" not in frame.columns:
        raise InvalidColumns(processor.id, 'there is no column "value"')
    has_positions = all(name in frame.columns for name in POSITION_COLUMNS)
    if not plan.is_stateful and not has_positions:
        raise PositionsLost(processor.id, f"the columns {', '.join(frame.columns)}")
    chosen = [functions.lit(queue).alias(QUEUE)]
    for name in POSITION_COLUMNS:
        kind = "string" if name in POSITION_COLUMNS[:2] else "long"
        column = functions.lit(None) if plan.is_stateful else frame[name]
        chosen.append(column.cast(kind).alias(name))
    for name, kind in _TYPES.items():
        column = frame[name] if name in frame.columns else functions.lit(None)
        chosen.append(column.cast(kind).alias(name))
    return frame.select(*chosen)


def frame_writer(plan: LegPlan, source: DataFrame) -> DataStreamWriter:
    """What hands each batch to a function of frames, or to a format of Spark: at least once."""

    def deliver(batch: DataFrame, number: int) -> None:
        facts = read_facts(plan)
        given = batch if plan.leg.destination is None else batch.mapInArrow(messages_in, _SAVED)
        given.persist()
        try:
            rows = given.count()
            if plan.leg.destination is None:
                call_function(plan, given)
            else:
                _save(plan, given)
        finally:
            given.unpersist()
        complete(plan, facts, rows, STORES)

    return source.writeStream.foreachBatch(deliver)


def updating_writer(plan: LegPlan, rows: DataFrame) -> DataStreamWriter:
    """What stages rows that come in the output mode ``update``, which a sink in Python cannot take.

    One task writes, as a sink's would: on an executor, with the marks in the same step.
    """

    def deliver(batch: DataFrame, number: int) -> None:
        facts = read_facts(plan)
        option = plan.to_option()

        def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            import pyarrow

            count = LegSink(LegPlan.from_option(option), facts).write(batches, 0)
            targets, written = zip(*count.rows, strict=True) if count.rows else ((), ())
            columns = [pyarrow.array(targets, "int32"), pyarrow.array(written, "int64")]
            yield pyarrow.RecordBatch.from_arrays(columns, ["target", "rows"])

        done = batch.repartition(1).mapInArrow(write, "target int, rows long").collect()
        counts = tuple((row["target"], row["rows"]) for row in done)
        LegSink(plan, facts).commit([TaskCount(0, counts)])

    return rows.writeStream.foreachBatch(deliver)


def output_mode(plan: LegPlan) -> str:
    """How Spark tells what has changed: as the processor's options say."""
    return str(plan.processor.options.get("output_mode", "append")) if plan.is_frame else "append"


def _save(plan: LegPlan, batch: DataFrame) -> None:
    assert plan.leg.destination is not None
    place = plan.outputs[plan.leg.destination.queue]
    options = {name: str(value) for name, value in place.options.items()}
    batch.write.format(place.address).options(**options).mode("append").save()
