"""From a row to what a message needs: headers, hints, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Callable

from windrow.errors import WindrowError
from windrow.outbox.marked import Marked

ANY_PARTITION, NOW = -1, 0
"""What Kafka's client takes for: by the partitioner, and at this time."""


class Malformed(WindrowError):
    """A row that no target could take, whoever wrote it."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem

    def __str__(self) -> str:
        return self.problem


def headers_of(row: Marked) -> list[tuple[str, str | None]]:
    """The headers of a row, in their order.

    Raises:
        Malformed: The two arrays do not match, or a name is NULL.
    """
    names, values = row[4] or (), row[5] or ()
    if len(names) != len(values):
        raise Malformed(f"unequal number of header keys ({len(names)}) and values ({len(values)})")
    if None in names:
        raise Malformed(f"header {names.index(None)} has no name")
    return list(zip(names, values))  # type: ignore[arg-type]  # noqa: B905 - both were looked at


def hand_over(produce: Callable[..., None], row: Marked, report: Callable[..., None]) -> None:
    """Give a row to a producer of Kafka's client, which calls ``report`` when it has settled.

    By position: the client takes a third longer over keywords, and this is a good part of all that
    a relay does for a record.

    Raises:
        Malformed: No message can be made of the row.
        BufferError: The producer is full.
        TypeError, ValueError, KafkaException: The producer does not take it.
    """
    _, topic, key, value, names, values, partition, timestamp, _ = row
    produce(
        topic,
        value,
        key,
        ANY_PARTITION if partition is None else partition,
        report,
        None,  # another name for the same
        NOW if timestamp is None else timestamp,
        headers_of(row) if names or values else None,
    )
