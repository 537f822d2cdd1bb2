"""How far has a target come? The one rule by which nothing is written twice.

A sink keeps, in the same atomic write as the output, how far each source partition has come *in
this target partition*, and drops every row at or below it. The key is (processor uid, source
incarnation and partition, target partition): with rows 101 and 103 going to one target and 102 to
another, a mark shared by both would drop 102.

A mark names the first place that was *not* written, so "at or below the high-water" is "before the
mark". Rows made from one input are told apart by their ordinal. A row of a join has a place in
several sources and is dropped only if all of them are before their marks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from windrow.graph.delivery_errors import InvalidBacking, InvalidOffsets, RoutingChanged
from windrow.graph.positions import Position, SourceOffsets, SourcePartition
from windrow.graph.routing import RoutingPin
from windrow.graph.snapshot import ProcessorUid, Snapshot


class Mark(NamedTuple):
    """The first place of a source partition that was not written yet."""

    index: int  # type: ignore[assignment]  # hides a tuple's search, which nobody wants here
    ordinal: int = 0


NOTHING = Mark(0)


@dataclass(frozen=True, slots=True)
class HighWaters:
    """Every mark of one processor in one target partition, and who wrote them how.

    Attributes:
        uid: The processor.
        target: The partition.
        marks: How far each source partition has come.
        routing: By which rows were sent here.
        epoch: Of the owner that wrote last; a writer of an earlier one is fenced.
    """

    uid: ProcessorUid
    target: int
    marks: Mapping[SourcePartition, Mark] = field(default_factory=dict)
    routing: RoutingPin | None = None
    epoch: int = 0

    @property
    def is_blank(self) -> bool:
        """Whether nothing was ever written here: a compare-and-set then expects nothing."""
        return not self.marks and self.routing is None and self.epoch == 0

    def owned_by(self, epoch: int) -> HighWaters:
        """The same, in the hands of a later owner; it shuts out the earlier ones."""
        return replace(self, epoch=max(epoch, self.epoch))

    def mark(self, origin: SourcePartition) -> Mark:
        """How far a source partition has come here."""
        return self.marks.get(origin, NOTHING)

    def covers(self, positions: Iterable[Position]) -> bool:
        """Whether a row is here already: all its coordinates are at or below the high-water."""
        return all(Mark(at.index, at.ordinal) < self.mark(at.origin) for at in positions)

    def over(self, rows: Iterable[Sequence[Position]], routing: RoutingPin) -> HighWaters:
        """After these rows were written; it never goes back."""
        reached = (
            (at.origin, Mark(at.index, at.ordinal + 1)) for positions in rows for at in positions
        )
        return self._raised(reached, routing)

    def to_ends(self, snapshot: Snapshot) -> HighWaters:
        """After every row that the snapshot has for this target was written."""
        ends = ((span.origin, Mark(span.end)) for span in snapshot.spans if span)
        return self._raised(ends, snapshot.routing)

    def is_beyond(self, offsets: SourceOffsets) -> bool:
        """Whether something was written here that these offsets do not hold."""
        return any(mark > Mark(offsets.get(origin)) for origin, mark in self.marks.items())

    def check_routing(self, snapshot: Snapshot, floor: SourceOffsets) -> None:
        """See that what was written beyond the floor was routed as the snapshot routes.

        Raises:
            RoutingChanged: It was not, so rows could be missed here or doubled elsewhere.
        """
        if self.routing is None or self.routing == snapshot.routing:
            return
        if self.is_beyond(floor):
            raise RoutingChanged(
                str(self.uid), self.target, str(self.routing), str(snapshot.routing)
            )

    def _raised(
        self, reached: Iterable[tuple[SourcePartition, Mark]], routing: RoutingPin
    ) -> HighWaters:
        marks = dict(self.marks)
        for origin, mark in reached:
            marks[origin] = max(mark, marks.get(origin, NOTHING))
        return replace(self, marks=marks, routing=routing)

    def to_json(self) -> dict[str, Any]:
        """One row of a progress table, or the value of a Kafka marker."""
        marks = [
            [origin.source, origin.incarnation, origin.partition, mark.index, mark.ordinal]
            for origin, mark in sorted(self.marks.items())
        ]
        return {
            "uid": self.uid.to_json(),
            "target": self.target,
            "routing": self.routing.to_json() if self.routing else None,
            "epoch": self.epoch,
            "marks": marks,
        }

    @classmethod
    def from_json(cls, tree: Any) -> HighWaters:
        """What ``to_json`` wrote.

        Raises:
            InvalidBacking: It is not of that form.
        """
        try:
            return cls(
                uid=ProcessorUid.from_json(tree["uid"]),
                target=tree["target"],
                marks=dict(map(_mark_from_json, tree["marks"])),
                routing=RoutingPin.from_json(tree["routing"]) if tree["routing"] else None,
                epoch=tree["epoch"],
            )
        except (KeyError, TypeError, ValueError, InvalidOffsets) as error:
            raise InvalidBacking("high-water", repr(error)) from error


def _mark_from_json(value: Any) -> tuple[SourcePartition, Mark]:
    source, incarnation, partition, index, ordinal = value
    return SourcePartition(source, incarnation, partition), Mark(index, ordinal)


@dataclass(frozen=True, slots=True)
class Delivered:
    """The last snapshot that a sink holds whole; a sink keeps one for each processor.

    It moves by compare-and-set when a snapshot is complete in every target partition. It is the
    first of the three truths: what it says was delivered, was.
    """

    uid: ProcessorUid
    number: int
    delivery_hash: str
    ends: SourceOffsets
    epoch: int = 0

    def to_json(self) -> dict[str, Any]:
        """For a progress table or a Kafka marker."""
        return {
            "uid": self.uid.to_json(),
            "number": self.number,
            "hash": self.delivery_hash,
            "ends": self.ends.to_json(),
            "epoch": self.epoch,
        }

    @classmethod
    def from_json(cls, tree: Any) -> Delivered:
        """What ``to_json`` wrote.

        Raises:
            InvalidBacking: It is not of that form.
        """
        try:
            return cls(
                uid=ProcessorUid.from_json(tree["uid"]),
                number=tree["number"],
                delivery_hash=tree["hash"],
                ends=SourceOffsets.from_json(tree["ends"]),
                epoch=tree["epoch"],
            )
        except (KeyError, TypeError) as error:
            raise InvalidBacking("delivered record", repr(error)) from error


def transactional_id(uid: ProcessorUid, target: int) -> str:
    """Who writes to a target of Kafka: a new writer of the same target fences the old one.

    It names the target and not the task: which task writes to it changes with every setting.
    """
    return f"windrow-{uid.digest}-{target}"


def shared_floor(delivered: Delivered | None) -> SourceOffsets:
    """What every target holds, whichever rule routed it: nothing below is ever written again."""
    return delivered.ends if delivered else SourceOffsets()
