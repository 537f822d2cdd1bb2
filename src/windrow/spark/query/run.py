"""How does a leg become a running query of Spark?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from windrow.spark.query.dataframe import (
    apply_function,
    frame_writer,
    output_mode,
    updating_writer,
)
from windrow.spark.query.errors import NotBegun
from windrow.spark.query.leg_plan import OPTION, LegPlan
from windrow.spark.query.start import Started

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

FORMAT = "windrow-graph"
AVAILABLE_NOW: Mapping[str, Any] = {"availableNow": True}
"""The trigger of a run that takes what there is when it begins, and ends."""


def every(seconds: float) -> dict[str, Any]:
    """The trigger of a run that looks for more after so many seconds; 0 is at once."""
    return {"processingTime": f"{round(seconds * 1000)} milliseconds"}


def start_leg(
    session: SparkSession,
    started: Started | LegPlan,
    checkpoint: str,
    trigger: Mapping[str, Any] | None = None,
) -> StreamingQuery:
    """Start the query of a leg for which recovery was performed.

    Args:
        session: Where it runs.
        started: What recovery came to.
        checkpoint: Where Spark keeps what it remembers of the query; the one recovery looked at.
        trigger: When batches are planned, as ``DataStreamWriter.trigger`` takes it.
    """
    from windrow.spark.formats.graph import GraphDataSource

    plan = started.plan if isinstance(started, Started) else started
    if plan.recovered is None:
        raise NotBegun(plan.name)
    # A module that was shipped to a cluster is not found by its name, so the format is told.
    session.dataSource.register(GraphDataSource)
    # A batch without messages would be one without a snapshot.
    session.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")
    option = plan.to_option()
    source = session.readStream.format(FORMAT).option(OPTION, option).load()
    if plan.effect == "frame":
        writer = frame_writer(plan, source)
    elif plan.is_frame and output_mode(plan) == "update":
        writer = updating_writer(plan, apply_function(plan, source))
    else:
        rows = apply_function(plan, source) if plan.is_frame else source
        writer = _by_target(plan, rows).writeStream.format(FORMAT).option(OPTION, option)
    return _start(plan, writer, checkpoint, trigger or every(0))


def _by_target(plan: LegPlan, rows: DataFrame) -> DataFrame:
    """One task for all rows of a target; without a shuffle where there is but one task to read."""
    if plan.is_frame:
        return rows.repartition(1)
    if plan.routing.targets == 1:
        return rows.coalesce(1) if _reads_at_once(plan) else rows.repartition(1)
    return rows.repartition(plan.routing.targets, "_target")


def _reads_at_once(plan: LegPlan) -> bool:
    """Whether a batch is read by one task anyway: of one partition, or of one from each input."""
    lanes = sum(place.partitions or 1 for place in plan.sources.values())
    return lanes == 1 or (plan.taking == "join" and lanes == len(plan.sources))


def _start(
    plan: LegPlan,
    writer: DataStreamWriter,
    checkpoint: str,
    trigger: Mapping[str, Any],
) -> StreamingQuery:
    return (
        writer.queryName(plan.name)
        .outputMode(output_mode(plan))
        .option("checkpointLocation", checkpoint)
        .trigger(**trigger)
        .start()
    )
