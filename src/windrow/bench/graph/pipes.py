"""How fast are messages delivered, exactly once and, for comparison, at least once?"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from windrow.bench.graph.functions import join_fork, pipe
from windrow.bench.graph.plain_sink import PlainJournalSink
from windrow.bench.graph.stage import Stage
from windrow.graph.declaration import Graph
from windrow.spark.query.leg_plan import QuerySettings, plan_legs
from windrow.spark.query.run import AVAILABLE_NOW, every, start_leg
from windrow.spark.query.start import ensure_places, recover_leg

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.streaming.query import StreamingQuery

BATCH = 50_000


@contextmanager
def running(
    on: Stage, graph: Graph, batch: int = BATCH, trigger: dict[str, Any] | None = None
) -> Iterator[list[StreamingQuery]]:
    """All queries of a graph, stopped at the end."""
    settings = QuerySettings(max_rows=batch)
    with ExitStack() as stack:
        queries = []
        for plan in plan_legs(graph, on.connections, settings):
            ensure_places(plan)
            if plan.leg.is_fan_out:
                # A query begins with a batch, so there has to be something for it.
                on.await_any(plan.sources.values())
            checkpoint = on.checkpoint(plan.name)
            started = recover_leg(plan, checkpoint)
            query = start_leg(on.session, started, checkpoint, trigger or every(0))
            stack.callback(query.stop)
            queries.append(query)
        yield queries


def exactly_once_rate(on: Stage, form: str, count: int) -> float:
    """Messages a second from one journal to another, the start of the query included."""
    graph = pipe(on.new_name(), form)
    on.fill(graph, "in", count)
    began = time.perf_counter()
    with running(on, graph, trigger=dict(AVAILABLE_NOW)) as queries:
        for query in queries:
            query.awaitTermination()
        seconds = time.perf_counter() - began
    on.await_count(graph, ["out"], count)
    return count / seconds


def batch_times(on: Stage, count: int, batch: int = BATCH) -> list[float]:
    """Milliseconds of each batch of a query that drains a backlog; its start is left out."""
    graph = pipe(on.new_name(), "arrow")
    on.fill(graph, "in", count)
    with running(on, graph, batch, dict(AVAILABLE_NOW)) as queries:
        for query in queries:
            query.awaitTermination()
        batches = [each for query in queries for each in query.recentProgress]
    on.await_count(graph, ["out"], count)
    return [float(each.durationMs["triggerExecution"]) for each in batches]


def at_least_once_rate(on: Stage, count: int) -> float:
    """The same pipeline of Spark with a sink that only appends."""
    graph = pipe(on.new_name(), "arrow")
    on.fill(graph, "in", count)
    source, sink = on.place(graph, "in"), on.place(graph, "out")
    address = on.connections.journal.address
    began = time.perf_counter()
    frame = (
        on.session.readStream.format("windrow-journal")
        .option("address", address)
        .option("journal", source.address)
        .option("maxRowsPerBatch", str(BATCH))
        .load()
    )
    query = (
        frame.mapInArrow(_copy, frame.schema)
        .coalesce(1)
        .writeStream.format(PlainJournalSink.name())
        .option("address", address)
        .option("journal", sink.address)
        .option("checkpointLocation", on.checkpoint(graph.id))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return count / (time.perf_counter() - began)


def _copy(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def join_rate(on: Stage, count: int) -> float:
    """Pairs a second, joined and forked to two queues, until both hold them all."""
    graph = join_fork(on.new_name())
    for queue in ("left", "right"):
        on.fill(graph, queue, count)
    began = time.perf_counter()
    with running(on, graph):
        on.await_count(graph, ["even", "odd"], count)
        return count / (time.perf_counter() - began)


def message_delays(on: Stage, count: int) -> Sequence[float]:
    """Milliseconds from the append of one message to its copy, one message at a time."""
    graph = pipe(on.new_name(), "message")
    on.fill(graph, "in", 1)
    delays = []
    with running(on, graph):
        on.await_count(graph, ["out"], 1)
        for n in range(2, count + 2):
            began = time.perf_counter()
            on.fill(graph, "in", 1)
            on.await_count(graph, ["out"], n)
            delays.append((time.perf_counter() - began) * 1000)
    return delays
