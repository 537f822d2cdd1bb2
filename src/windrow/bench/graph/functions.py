"""The graphs that are measured; their functions do next to nothing: the road is what counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from windrow.graph import Graph, Message, Queue, Source, processor
from windrow.graph.context import Context

if TYPE_CHECKING:
    import pyarrow as pa


@processor(id="copy", reads="in", writes="out", form="arrow", deterministic=True)
def copy_batch(batches: Mapping[str, pa.RecordBatch], ctx: Any) -> pa.RecordBatch:
    """Pass a batch on."""
    return batches["in"]


@processor(id="copy", reads="in", writes="out", deterministic=True)
def copy_message(msgs: Mapping[str, Message], ctx: Context) -> Message:
    """Pass a message on."""
    return msgs["in"]


@processor(reads=("left", "right"), writes=("even", "odd"), deterministic=True)
def pair(msgs: Mapping[str, Message], ctx: Context) -> dict[str, Message]:
    """Send each pair to both queues."""
    return {"even": msgs["left"], "odd": msgs["right"]}


def pipe(graph: str, form: str) -> Graph:
    """From one journal to another."""
    copy = copy_batch if form == "arrow" else copy_message
    queues = [Queue("in", values="bytes"), Queue("out", values="bytes")]
    return Graph(graph, [Source("in"), copy], queues=queues)


def join_fork(graph: str) -> Graph:
    """Two journals joined by position, the result forked to two others."""
    names = ("left", "right", "even", "odd")
    queues = [Queue(name, values="bytes") for name in names]
    return Graph(graph, [Source("left"), Source("right"), pair], queues=queues)
