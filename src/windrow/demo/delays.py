"""How long did each stretch of the road take? Three times for each hero, and what lies between.

A hero is written at the time that the service puts into its row, is in the journal (or topic) at
the time that its record bears, and arrives at the time that the last database puts into the row.
All of it is one machine with one clock.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from windrow.graph.positions import Span

if TYPE_CHECKING:
    import psycopg

    from windrow.spark.stores import QueueReader

    Connection = psycopg.Connection[tuple[Any, ...]]

Moments = Mapping[int, float]
"""Seconds since 1970 by the id of a hero."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """How long heroes took from one place to another, in seconds."""

    name: str
    p50: float
    p99: float


def stretches(written: Moments, relayed: Moments, arrived: Moments, log: str) -> list[Stretch]:
    """The delays of the two halves and of the whole; ``log`` is what lies in the middle."""
    ends = (
        (f"service to {log}", written, relayed),
        (f"{log} to table", relayed, arrived),
        ("service to table", written, arrived),
    )
    return [
        Stretch(name, percentile(delays, 50), percentile(delays, 99))
        for name, begin, end in ends
        if (delays := [end[id] - begin[id] for id in begin.keys() & end.keys()])
    ]


def percentile(values: Iterable[float], percent: int) -> float:
    """The least value that so many per cent of them do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]


def table_moments(connection: Connection) -> tuple[dict[int, float], dict[int, float]]:
    """When heroes were written, and when they arrived."""
    query = "SELECT id, extract(epoch FROM created_at)::float8 FROM heroes"
    written: dict[int, float] = dict(connection.execute(query).fetchall())
    query = "SELECT id, extract(epoch FROM min(arrived_at))::float8 FROM arrivals GROUP BY id"
    arrived: dict[int, float] = dict(connection.execute(query).fetchall())
    connection.commit()
    return written, arrived


def queue_moments(reader: QueueReader) -> dict[int, float]:
    """When the events of heroes came into a queue."""
    found: dict[int, float] = {}
    for one in reader.available():
        span = Span(one.source, one.incarnation, one.partition, one.first, one.end)
        for batch in reader.read(span):
            values: Sequence[bytes] = batch.column("value").to_pylist()
            for value, moment in zip(values, batch.column("time").to_pylist(), strict=True):
                found.setdefault(json.loads(value)["id"], moment.timestamp())
    return found
