"""What can happen in a step of a processor, and what can be asked of whoever performs it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from windrow.errors import WindrowError
from windrow.graph.backing import Record
from windrow.graph.high_water import Delivered
from windrow.graph.positions import Position, SourceOffsets, Span
from windrow.graph.snapshot import Snapshot

# -- what happened -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Planned:
    """There is something to deliver: the ranges of all inputs, and the time of the batch."""

    spans: Sequence[Span]
    batch_time: float


@dataclass(frozen=True, slots=True)
class NothingPlanned:
    """No input has anything new, or a join waits for one of them."""


@dataclass(frozen=True, slots=True)
class Rested:
    """It is time to look again."""


@dataclass(frozen=True, slots=True)
class BackingAppended:
    """The record is durable."""


@dataclass(frozen=True, slots=True)
class BackingRefused:
    """Another owner has the processor; nothing was appended."""

    found_epoch: int


@dataclass(frozen=True, slots=True)
class Unknown:
    """The record, in the backing journal or the sink, may have been written or not."""

    reason: str


@dataclass(frozen=True, slots=True)
class BatchRan:
    """Every task is done, and every target holds its rows and its high-water."""

    rows: int
    """How many rows had a value; those dropped because they were there already count as well."""


@dataclass(frozen=True, slots=True)
class BatchFailed:
    """A task failed for good, or the function's worker died; ``suspect`` is whose fault it was."""

    reason: str
    suspect: Position | None = None


@dataclass(frozen=True, slots=True)
class DeliveredMoved:
    """The sink's record is the one that was to be written."""


@dataclass(frozen=True, slots=True)
class DeliveredMismatched:
    """The sink's record was not the expected one; it was left alone."""

    found: Delivered | None


DeliveryEvent = (
    Planned
    | NothingPlanned
    | Rested
    | BackingAppended
    | BackingRefused
    | Unknown
    | BatchRan
    | BatchFailed
    | DeliveredMoved
    | DeliveredMismatched
)


# -- what to do next -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PlanBatch:
    """Step 1: find the ranges that come next."""

    start: SourceOffsets
    step: str = "1"


@dataclass(frozen=True, slots=True)
class Rest:
    """Nothing to do for now."""

    step: str = "9"


@dataclass(frozen=True, slots=True)
class AppendBacking:
    """Append a record to the backing journal, if this owner still has it."""

    record: Record
    step: str


@dataclass(frozen=True, slots=True)
class RunBatch:
    """Steps 3 to 7a: read the ranges, run the function, write through ``SinkTask``.

    Attributes:
        snapshot: What to deliver.
        delivery_hash: Of the whole of it.
        attempt: The first is 1.
        floor: What every target holds already.
        epoch: Of the owner, for the tasks to write under.
        poisoned: Messages that count as failed without calling the function.
        is_isolated: Run message by message, so that one that kills its worker is found.
        delay: How long to wait first.
    """

    snapshot: Snapshot
    delivery_hash: str
    attempt: int
    floor: SourceOffsets
    epoch: int
    poisoned: tuple[Position, ...] = ()
    is_isolated: bool = False
    delay: float = 0.0
    step: str = "3"


@dataclass(frozen=True, slots=True)
class CommitDelivered:
    """Step 7e: if the sink's record is still the expected one, make it this one."""

    expected: Delivered | None
    delivered: Delivered
    step: str = "7e"


@dataclass(frozen=True, slots=True)
class Interrupt:
    """Step 9: end here. Recovery comes first when the processor is started again."""

    error: WindrowError
    may_restart: bool
    step: str = "9"


@dataclass(frozen=True, slots=True)
class Finish:
    """Nothing is in doubt: end."""

    step: str = "9"


DeliveryCommand = PlanBatch | Rest | AppendBacking | RunBatch | CommitDelivered | Interrupt | Finish
