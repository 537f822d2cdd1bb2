"""What is a queue, where does it live, and what can that place do?

A queue has a name within its graph and lives in one place, both declared once. The place decides
what may be asked of it: whether it can be read or written, whether a write can carry the high-water
mark with it (without which nothing is exactly once), and whether its messages have positions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

BackendName = Literal["journal", "kafka", "postgres", "http", "outbox", "spark"]
Values = Literal["json", "text", "bytes"]
MetaField = Literal["t", "time", "tx"]
QueueMeta = tuple[MetaField, ...] | Literal["strip"] | None
"""Which provenance a queue adds to its messages: any of its index (``t``), the time of the write
(``time``) and the index as the number of a transaction (``tx``). ``strip`` removes what there is;
``None`` leaves it alone."""


@dataclass(frozen=True, slots=True)
class Backend:
    """What a place can do.

    Attributes:
        can_read: A processor may read from it.
        can_write: A processor may write to it.
        is_transactional: A write can carry the high-water mark: exactly once.
        has_positions: Each message has an index that is contiguous and survives a restart.
        can_partition: It may have several partitions, each with indices of its own.
        is_exclusive: Two queues cannot share one, because each would take it for its own.
        has_one_reader: What was read is gone, so that a second reader would miss it.
    """

    can_read: bool
    can_write: bool
    is_transactional: bool
    has_positions: bool
    can_partition: bool
    is_exclusive: bool = True
    has_one_reader: bool = False


BACKENDS: Mapping[BackendName, Backend] = {
    "journal": Backend(True, True, True, True, True),
    "kafka": Backend(True, True, True, True, True),
    "postgres": Backend(False, True, True, False, False),
    "http": Backend(False, True, False, False, False, is_exclusive=False),
    "outbox": Backend(True, False, False, True, False, has_one_reader=True),
    "spark": Backend(True, True, False, False, False, is_exclusive=False),
}


def meta_option(given: Any) -> Any:
    """The provenance option in its one form: ``"t"`` is ``("t",)``, and the order never matters."""
    if given is None or given == "strip":
        return given
    return tuple(sorted({given} if isinstance(given, str) else set(given)))


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue of a graph, and the one place where it lives.

    Without a place it lives in the journal ``<graph>/<name>``. Of the places at most one is given:

    Attributes:
        name: What processors call it.
        journal: The name of a journal, or what the names of its partitions begin with.
        kafka: A topic.
        postgres: A table that is written to, with the progress in the same transaction.
        http: A URL that each message is posted to, with the delivery hash as idempotency key.
        outbox: The table that a service stashes into.
        spark: Any format that Spark knows, for processors of the form ``dataframe``.
        partitions: How many partitions there are; by default what is found, one for a new queue.
        values: How the value of a message is written: ``json``, ``text`` or ``bytes``.
        meta: Which provenance is added; by default what the graph says.
        options: What the place needs beside its address, such as the key columns of a table.
    """

    name: str
    journal: str | None = None
    kafka: str | None = None
    postgres: str | None = None
    http: str | None = None
    outbox: str | None = None
    spark: str | None = None
    partitions: int | None = None
    values: Values = "json"
    meta: QueueMeta = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "meta", meta_option(self.meta))

    @property
    def places(self) -> dict[BackendName, str]:
        """Every place that was given; a sound queue has at most one."""
        given: dict[BackendName, str | None] = {
            "journal": self.journal,
            "kafka": self.kafka,
            "postgres": self.postgres,
            "http": self.http,
            "outbox": self.outbox,
            "spark": self.spark,
        }
        return {name: address for name, address in given.items() if address is not None}

    @property
    def backend_name(self) -> BackendName:
        """The kind of place it lives in."""
        return next(iter(self.places), "journal")

    @property
    def backend(self) -> Backend:
        """What that place can do."""
        return BACKENDS[self.backend_name]

    def address_in(self, graph: str) -> str:
        """Where it lives: the journal, topic, table, URL or format."""
        return next(iter(self.places.values()), f"{graph}/{self.name}")
