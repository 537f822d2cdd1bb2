"""What must a place be able to do so that a queue can live there? The contracts of the rim.

Nothing here, and nothing that keeps these contracts, imports pyspark: a source and a sink are thin
shells around them. All of them are used by one thread at a time, can be closed, and are made where
they are used: no connection is ever sent to another process.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from windrow.graph.backing import BackingState, Record
from windrow.graph.delivery_steps import (
    BackingAppended,
    BackingRefused,
    DeliveredMismatched,
    DeliveredMoved,
    Unknown,
)
from windrow.graph.high_water import Delivered, HighWaters
from windrow.graph.planning import Available
from windrow.graph.positions import SourcePartition, Span
from windrow.graph.recovery_machine import Taken, TakenByOther
from windrow.graph.sink_rows import SinkRow
from windrow.graph.sink_task import Mismatched, WriterFenced, WriteUnknown, Written
from windrow.graph.snapshot import ProcessorUid

if TYPE_CHECKING:
    import pyarrow as pa


class Content(NamedTuple):
    """What a row says, as it is stored; the ``value`` of a ``SinkRow``.

    Attributes:
        value: ``None`` is a tombstone.
        key: By which it is routed.
        headers: Names and values, in order.
        topic: What it is about.
        time: Microseconds since 1970.
        delivery_hash: Of the input that it was made from.
    """

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    topic: str | None = None
    time: int = 0
    delivery_hash: str = ""

    def __repr__(self) -> str:
        """Without what the message says: rows are named in errors and logs."""
        return f"Content(key={self.key!r}, topic={self.topic!r}, hash={self.delivery_hash!r})"


class QueueReader(Protocol):
    """Reads one queue, all of its partitions, by contiguous indices."""

    def available(self) -> Sequence[Available]:
        """What every partition holds now.

        Raises:
            Unreachable: Nobody answered.
        """
        ...

    def cuts(self, origin: SourcePartition) -> Sequence[int]:
        """Indices where reading can begin at once, such as the beginnings of fragments."""
        ...

    def read(self, span: Span) -> Iterator[pa.RecordBatch]:
        """All messages of a span in order, in the columns of ``message_schema``.

        Raises:
            SourceTrimmed: Some of them are gone.
            IncarnationChanged: The queue is another one by now.
        """
        ...

    def close(self) -> None:
        """End all connections; does nothing the second time."""
        ...


class QueueTarget(Protocol):
    """Writes one queue, for one processor: rows and marks in one atomic step."""

    def targets(self) -> int:
        """How many partitions it has."""
        ...

    def read_high_water(self, uid: ProcessorUid, target: int) -> HighWaters:
        """The marks of a partition, past everything that may still be under way to it."""
        ...

    def write(
        self, rows: Sequence[SinkRow], expected: HighWaters, marks: HighWaters
    ) -> Written | Mismatched | WriteUnknown | WriterFenced:
        """If the marks are the expected ones: the rows and the new marks, all or nothing.

        The value of every row is a ``Content``. Without rows only the marks move.
        """
        ...

    def read_delivered(self, uid: ProcessorUid) -> Delivered | None:
        """The record of the last snapshot that is here as a whole."""
        ...

    def commit_delivered(
        self, expected: Delivered | None, delivered: Delivered
    ) -> DeliveredMoved | DeliveredMismatched | Unknown:
        """If the record is the expected one, make it this one."""
        ...

    def fence(self, uid: ProcessorUid, epoch: int) -> Sequence[HighWaters]:
        """Make the marks of every partition ``owned_by`` the epoch; returns them."""
        ...

    def close(self) -> None:
        """End all connections; does nothing the second time."""
        ...


class BackingStore(Protocol):
    """What a processor remembers: the records of its backing journal, under an owner's epoch."""

    def take(self, owner: str) -> Taken | TakenByOther:
        """Become the owner, under the next epoch."""
        ...

    def read(self) -> BackingState:
        """What the journal adds up to, back to the nearest anchor."""
        ...

    def append(self, record: Record, epoch: int) -> BackingAppended | BackingRefused | Unknown:
        """Append a record, if the owner of that epoch still has it."""
        ...

    def close(self) -> None:
        """End all connections; does nothing the second time."""
        ...
