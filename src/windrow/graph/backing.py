"""What does a processor remember? The records of its backing journal, and what they add up to.

Every append checks who owns the processor, so that one that was taken over can write no more. A
snapshot holds the ranges of all inputs: the latest of them and what follows it are all that
recovery needs, and reading backwards ends there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

from windrow.errors import UsageError
from windrow.graph.delivery_errors import InvalidBacking
from windrow.graph.positions import Position, SourceOffsets
from windrow.graph.snapshot import Snapshot, canonical

AttemptKind = Literal["attempt-output", "attempt-error", "attempt-nil"]

BOUNDARIES_KEPT = 128
"""More than Spark keeps batches: a checkpoint set back to one of them plans the same ends again."""


@dataclass(frozen=True, slots=True)
class Owned:
    """A driver took the processor over; whoever owned it before can append no more."""

    owner: str
    epoch: int


@dataclass(frozen=True, slots=True)
class SnapshotTaken:
    """The first attempt is about to be made; ``previous`` is what the sink held then.

    The chain of hashes tells an attempt in doubt from a sink that was set back.
    """

    snapshot: Snapshot
    previous: str = ""


@dataclass(frozen=True, slots=True)
class Retried:
    """Another attempt at the same snapshot is about to be made; it counts, whatever ends it."""

    number: int
    attempt: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Attempt:
    """All rows are written; the sink is about to be told that the snapshot is complete."""

    kind: AttemptKind
    number: int
    delivery_hash: str
    destination: str = ""
    rows: int = 0


@dataclass(frozen=True, slots=True)
class Poisoned:
    """A message ended every attempt; the function is not called with it again."""

    number: int
    position: Position
    reason: str


@dataclass(frozen=True, slots=True)
class GaveUp:
    """The attempts were used up. Whoever starts the processor again begins to count anew."""

    number: int
    reason: str


@dataclass(frozen=True, slots=True)
class Rewound:
    """Reading goes on elsewhere, because the sink says so or an operator did."""

    offsets: SourceOffsets
    previous: str
    reason: str


Record = Owned | SnapshotTaken | Retried | Attempt | Poisoned | GaveUp | Rewound


def is_anchor(record: Record) -> bool:
    """Whether reading backwards may end here: what came before adds nothing."""
    return isinstance(record, SnapshotTaken | Rewound)


def encode(record: Record) -> bytes:
    """The content of a record of a backing journal."""
    return canonical(_to_json(record))


def _to_json(record: Record) -> dict[str, Any]:
    match record:
        case Owned():
            return {"type": "owned", "owner": record.owner, "epoch": record.epoch}
        case SnapshotTaken():
            return {
                "type": "snapshot",
                "snapshot": record.snapshot.to_json(),
                "previous": record.previous,
            }
        case Retried():
            return {
                "type": "retried",
                "number": record.number,
                "attempt": record.attempt,
                "reason": record.reason,
            }
        case Attempt():
            return {
                "type": record.kind,
                "number": record.number,
                "hash": record.delivery_hash,
                "destination": record.destination,
                "rows": record.rows,
            }
        case Poisoned():
            return {
                "type": "poisoned",
                "number": record.number,
                "position": record.position.to_json(),
                "reason": record.reason,
            }
        case GaveUp():
            return {"type": "gave-up", "number": record.number, "reason": record.reason}
        case Rewound():
            return {
                "type": "rewound",
                "offsets": record.offsets.to_json(),
                "previous": record.previous,
                "reason": record.reason,
            }


def decode(content: bytes) -> Record:
    """What ``encode`` wrote.

    Raises:
        InvalidBacking: It is not of that form, or of a type this version does not know.
    """
    try:
        tree = json.loads(content)
        return _from_json(tree)
    except (AttributeError, KeyError, TypeError, ValueError, UsageError) as error:
        raise InvalidBacking("record of a backing journal", repr(error)) from error


def _from_json(tree: Any) -> Record:
    match tree["type"]:
        case "owned":
            return Owned(tree["owner"], tree["epoch"])
        case "snapshot":
            return SnapshotTaken(Snapshot.from_json(tree["snapshot"]), tree["previous"])
        case "retried":
            return Retried(tree["number"], tree["attempt"], tree["reason"])
        case "attempt-output" | "attempt-error" | "attempt-nil" as kind:
            return Attempt(kind, tree["number"], tree["hash"], tree["destination"], tree["rows"])
        case "poisoned":
            position = Position.from_json(tree["position"])
            return Poisoned(tree["number"], position, tree["reason"])
        case "gave-up":
            return GaveUp(tree["number"], tree["reason"])
        case "rewound":
            offsets = SourceOffsets.from_json(tree["offsets"])
            return Rewound(offsets, tree["previous"], tree["reason"])
        case unknown:
            raise ValueError(f"unknown type {unknown!r}")


@dataclass(frozen=True, slots=True)
class BackingState:
    """What the records of a backing journal, or of its tail, add up to.

    Attributes:
        owner: Who owns the processor.
        epoch: Counts the owners.
        number: Of the last snapshot.
        taken: The last snapshot, unless reading was set elsewhere since.
        attempt: The last attempt that was recorded for it.
        attempts: How often it was tried.
        reason: Why it was tried again last.
        poisoned: Messages of it that the function is not called with.
        rewound: Where reading was set, if no snapshot was taken since.
        boundaries: Where recent snapshots began and ended, the latest last.
    """

    owner: str = ""
    epoch: int = 0
    number: int = 0
    taken: SnapshotTaken | None = None
    attempt: Attempt | None = None
    attempts: int = 0
    reason: str = ""
    poisoned: tuple[Position, ...] = ()
    rewound: Rewound | None = None
    boundaries: tuple[tuple[SourceOffsets, SourceOffsets], ...] = ()

    def after(self, record: Record) -> BackingState:
        """With one more record. Those that speak of an earlier snapshot change nothing."""
        match record:
            case Owned():
                return replace(self, owner=record.owner, epoch=record.epoch)
            case SnapshotTaken():
                return self._after_snapshot(record)
            case Rewound():
                return replace(
                    self, taken=None, attempt=None, attempts=0, reason="", poisoned=(),
                    rewound=record, boundaries=(),
                )  # fmt: skip
        if self.taken is None or record.number != self.number:
            return self
        match record:
            case Retried():
                return replace(self, attempts=record.attempt, reason=record.reason)
            case Attempt():
                return replace(self, attempt=record)
            case Poisoned():
                return replace(self, attempts=0, poisoned=(*self.poisoned, record.position))
            case GaveUp():
                return replace(self, attempts=0, reason=record.reason)

    def _after_snapshot(self, record: SnapshotTaken) -> BackingState:
        snapshot = record.snapshot
        boundary = snapshot.starts, snapshot.ends
        return replace(
            self,
            number=snapshot.number,
            taken=record,
            attempt=None,
            attempts=1,
            reason="",
            poisoned=(),
            rewound=None,
            boundaries=(*self.boundaries, boundary)[-BOUNDARIES_KEPT:],
        )

    def recorded_end(self, start: SourceOffsets) -> SourceOffsets | None:
        """Where the snapshot that began there ended, so that a replay has the same boundaries."""
        for begin, end in reversed(self.boundaries):
            if begin.agrees_with(start):
                return end
        return None


def fold(records: Iterable[Record], state: BackingState | None = None) -> BackingState:
    """What records add up to."""
    state = state or BackingState()
    for record in records:
        state = state.after(record)
    return state
