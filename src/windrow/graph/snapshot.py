"""What is an attempt an attempt of, and by which hash is its delivery known again?

A snapshot names the processor and the ranges of all its inputs, so the choice an alts processor
made is in it, too: no record of its own is needed to pin it. It is written before anything runs
and holds what a replay must not decide anew: routing, strategy, version of the code, time.

Messages are immutable, so the positions and the processor are all that a delivery hash needs. It
says nothing of the batch's number, of the attempt, the code or the routing: the same messages have
the same hash on every attempt, with a new checkpoint, and after any change of plan.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from windrow.graph.delivery_errors import InvalidBacking
from windrow.graph.policies import Strategy
from windrow.graph.positions import Position, SourceOffsets, Span, places_text
from windrow.graph.routing import SINGLE_TARGET, RoutingPin


def canonical(value: object) -> bytes:
    """The one way in which a JSON value is written where its bytes are compared or hashed."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode()


@dataclass(frozen=True, slots=True, order=True)
class ProcessorUid:
    """A processor of a graph; ``leg`` tells the parts of one that stages and fans out."""

    graph: str
    processor: str
    leg: str = ""

    def __str__(self) -> str:
        leg = f"/{self.leg}" if self.leg else ""
        return f"{self.graph}/{self.processor}{leg}"

    @classmethod
    def parse(cls, uid: str) -> ProcessorUid:
        """From the form in which it is declared: ``<graph>/<processor>``."""
        graph, _, processor = uid.partition("/")
        return cls(graph, processor)

    def to_json(self) -> list[str]:
        """Compact."""
        return [self.graph, self.processor, self.leg] if self.leg else [self.graph, self.processor]

    @classmethod
    def from_json(cls, value: object) -> ProcessorUid:
        """What ``to_json`` wrote."""
        match value:
            case [str() as graph, str() as processor]:
                return cls(graph, processor)
            case [str() as graph, str() as processor, str() as leg]:
                return cls(graph, processor, leg)
        raise InvalidBacking("processor uid", repr(value))

    @property
    def base(self) -> ProcessorUid:
        """The processor itself, by which its messages are hashed on whichever leg."""
        return ProcessorUid(self.graph, self.processor)

    @property
    def digest(self) -> str:
        """32 hexadecimal digits, for names that have little room."""
        return hashlib.sha256(canonical(self.to_json())).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What one attempt delivers.

    Attributes:
        uid: The processor.
        number: Counts the snapshots of a processor; no part of any identity.
        spans: The ranges of all inputs, empty ones included, sorted.
        routing: Where rows go.
        code_version: Of the function that ran first.
        strategy: An attempt in doubt ends by the strategy it began with.
        batch_time: Seconds since 1970, the same on every attempt.
    """

    uid: ProcessorUid
    number: int
    spans: tuple[Span, ...]
    routing: RoutingPin = SINGLE_TARGET
    code_version: str = ""
    strategy: Strategy = "exactly-once"
    batch_time: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "spans", tuple(sorted(self.spans)))

    @property
    def starts(self) -> SourceOffsets:
        """Where it begins."""
        return SourceOffsets.starts(self.spans)

    @property
    def ends(self) -> SourceOffsets:
        """Where reading stands once it is delivered."""
        return SourceOffsets.ends(self.spans)

    @property
    def inputs(self) -> frozenset[str]:
        """The names of the inputs it reads something from."""
        return frozenset(span.source for span in self.spans if span)

    @property
    def delivery_hash(self) -> str:
        """The hash of the batch: what the sink keeps, and recovery compares."""
        return batch_hash(self.uid, self.spans)

    def to_json(self) -> dict[str, Any]:
        """Everything, with short keys."""
        return {
            "uid": self.uid.to_json(),
            "number": self.number,
            "spans": [span.to_json() for span in self.spans],
            "routing": self.routing.to_json(),
            "code": self.code_version,
            "strategy": self.strategy,
            "time": self.batch_time,
        }

    @classmethod
    def from_json(cls, tree: Any) -> Snapshot:
        """What ``to_json`` wrote."""
        return cls(
            uid=ProcessorUid.from_json(tree["uid"]),
            number=tree["number"],
            spans=tuple(map(Span.from_json, tree["spans"])),
            routing=RoutingPin.from_json(tree["routing"]),
            code_version=tree["code"],
            strategy=tree["strategy"],
            batch_time=tree["time"],
        )

    def canonical(self) -> bytes:
        """The same bytes for the same snapshot, wherever they are written."""
        return canonical(self.to_json())


def batch_hash(uid: ProcessorUid, spans: Iterable[Span]) -> str:
    """SHA-256 of the processor and the sorted ranges of all its inputs."""
    ranges = [span.to_json() for span in sorted(spans)]
    return hashlib.sha256(canonical(["windrow-batch-1", *uid.to_json(), ranges])).hexdigest()


class DeliveryHasher:
    """Hashes the messages of one processor; what they share is hashed once."""

    def __init__(self, uid: ProcessorUid) -> None:
        self._begun = hashlib.sha256(canonical(["windrow-delivery-1", *uid.to_json()]))

    def hash(self, positions: Iterable[Position]) -> str:
        """SHA-256 of the graph, the processor and the positions, in 64 hexadecimal digits.

        Of an input it is what the function sees; of an output, the ordinal tells it from its
        siblings, and the first one has the hash of its input.
        """
        digest = self._begun.copy()
        digest.update(places_text(sorted(positions)).encode())
        return digest.hexdigest()


def delivery_hash(uid: ProcessorUid, positions: Iterable[Position]) -> str:
    """The hash of one message; ``DeliveryHasher`` for many."""
    return DeliveryHasher(uid).hash(positions)
