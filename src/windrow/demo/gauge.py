"""How far has everything come? Asked again and again while the road is in use."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from windrow.demo import tables
from windrow.errors import WindrowError

if TYPE_CHECKING:
    import psycopg

    from windrow.spark.stores import QueueReader

    Connection = psycopg.Connection[tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Sample:
    """The counts at one moment.

    Attributes:
        at: Seconds since the first sample.
        written: Heroes that the service has committed.
        waiting: Events in the outbox; the others have been relayed.
        arrived: Rows in the table at the end.
        audited: Entries in the audit; None if nobody answers, as while a broker is dead.
    """

    at: float
    written: int
    waiting: int
    arrived: int
    audited: int | None

    @property
    def relayed(self) -> int:
        """Events that the journal or topic has acknowledged."""
        return self.written - self.waiting

    @property
    def on_the_way(self) -> int:
        """Heroes that are not in the table at the end yet."""
        return self.written - self.arrived

    @property
    def is_drained(self) -> bool:
        """Whether nothing is on its way any more."""
        return (
            not self.waiting
            and self.arrived >= self.written
            and (self.audited or 0) >= self.written
        )


class Gauge:
    """Takes samples and keeps them.

    Args:
        connection: To the database of both tables.
        audit: Reads the audit.
    """

    def __init__(self, connection: Connection, audit: QueueReader) -> None:
        self._connection, self._audit = connection, audit
        self._began = time.monotonic()
        self.samples: list[Sample] = []

    @property
    def now(self) -> float:
        """Seconds since it began."""
        return time.monotonic() - self._began

    def sample(self) -> Sample:
        """The counts of this moment."""
        written, waiting, arrived = tables.counts(self._connection)
        taken = Sample(self.now, written, waiting, arrived, held(self._audit))
        self.samples.append(taken)
        return taken


def held(reader: QueueReader) -> int | None:
    """How many messages a queue holds; None if nobody answers, or it was not made yet."""
    try:
        return sum(one.end - one.first for one in reader.available())
    except WindrowError:
        return None
