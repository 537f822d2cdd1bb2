"""What the tests of outboxes as queues share: a way to open one, and what was read from it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.fixtures.relaying import OutboxDatabase
from windrow.graph.planning import Available
from windrow.graph.positions import SourceOffsets, Span
from windrow.spark.outbox import OutboxQueue

SOURCE = "orders"


@contextmanager
def opened(outbox: OutboxDatabase, *, leads: bool = True, **options: Any) -> Iterator[OutboxQueue]:
    queue = OutboxQueue(outbox.dsn, outbox.table, SOURCE, **options)
    try:
        if leads:
            queue.lead("test")
        yield queue
    finally:
        queue.close()


def only(available: Iterable[Available]) -> Available:
    (one,) = available
    return one


def whole(one: Available, start: int | None = None) -> Span:
    return Span(one.source, one.incarnation, 0, one.first if start is None else start, one.end)


def offsets(one: Available, index: int) -> SourceOffsets:
    return SourceOffsets.of({one.origin: index})


def read_values(
    queue: OutboxQueue, span: Span, part: int = 0, parts: int = 1
) -> list[tuple[int, str]]:
    """Index and value of each message of a span."""
    rows = [row for batch in queue.read(span, part, parts) for row in batch.to_pylist()]
    return [(row["_index"], row["value"].decode()) for row in rows]


def write(outbox: OutboxDatabase, *values: str, key: str = "k") -> None:
    outbox.write("orders", [(key, value) for value in values])
