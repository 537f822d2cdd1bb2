"""Where does a message stand? Its position is its identity, the only one that survives everything.

A batch, a task, a partition of a stage and the id of a query change when a plan, a checkpoint or a
number of cores does. The place of a message in its source does not: the source's name, the
incarnation that tells it from an earlier one of that name, the partition, and the index in it. An
ordinal counts the outputs made from one input.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from windrow.graph.delivery_errors import IncarnationChanged, InvalidOffsets

SNAPSHOTS = "@snapshots"
"""The source of what no single input caused: windows and timers. The index is the snapshot's."""


class SourcePartition(NamedTuple):
    """One partition of one incarnation of a source; sorted by name first."""

    source: str
    incarnation: str
    partition: int


class Position(NamedTuple):
    """The identity of a message: sorted, messages are in the order of their sources.

    A tuple, like all that is made for every message: it is made, hashed and compared in a fifth of
    the time.
    """

    source: str
    incarnation: str
    partition: int
    index: int  # type: ignore[assignment]  # hides a tuple's search, which nobody wants here
    ordinal: int = 0

    @property
    def origin(self) -> SourcePartition:
        """The partition it stands in."""
        return SourcePartition(self.source, self.incarnation, self.partition)

    def to_json(self) -> list[Any]:
        """Compact: the ordinal only where there is one."""
        head = [self.source, self.incarnation, self.partition, self.index]
        return [*head, self.ordinal] if self.ordinal else head

    @classmethod
    def from_json(cls, value: object) -> Position:
        """What ``to_json`` wrote.

        Raises:
            InvalidOffsets: It is not of that form.
        """
        match value:
            case [str() as source, str() as incarnation, int() as partition, int() as index]:
                return cls(source, incarnation, partition, index)
            case [str() as source, str() as inc, int() as partition, int() as index, int() as nth]:
                return cls(source, inc, partition, index, nth)
        raise InvalidOffsets("position", repr(value))

    @classmethod
    def of_snapshot(cls, incarnation: str, number: int, ordinal: int) -> Position:
        """Of an output that no single input caused: the nth of a snapshot."""
        return cls(SNAPSHOTS, incarnation, 0, number, ordinal)


def numbered(positions: Sequence[Position], ordinal: int) -> tuple[Position, ...]:
    """The positions of the nth output of an input."""
    if not ordinal:
        return tuple(positions)
    return tuple([at._replace(ordinal=ordinal) for at in positions])


def places_text(positions: Iterable[Position]) -> str:
    """Positions as canonical JSON, put together with less work than of their ``to_json``."""
    return f"[{','.join([_place_text(*at) for at in positions])}]"


def _place_text(source: str, incarnation: str, partition: int, index: int, ordinal: int) -> str:
    tail = f",{ordinal}]" if ordinal else "]"
    return f"{_head_text(source, incarnation)}{partition},{index}{tail}"


@lru_cache(maxsize=1024)
def _head_text(source: str, incarnation: str) -> str:
    names = [json.dumps(name, ensure_ascii=False) for name in (source, incarnation)]
    return f"[{','.join(names)},"


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A range of one source partition: from ``start`` up to and without ``end``."""

    source: str
    incarnation: str
    partition: int
    start: int
    end: int

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.end:
            raise InvalidOffsets("span", f"from {self.start} to {self.end}")

    def __len__(self) -> int:
        return self.end - self.start

    def __bool__(self) -> bool:
        """Whether anything is in it."""
        return self.end > self.start

    @property
    def origin(self) -> SourcePartition:
        """The partition it is a range of."""
        return SourcePartition(self.source, self.incarnation, self.partition)

    def __contains__(self, position: Position) -> bool:
        return self.origin == position.origin and self.start <= position.index < self.end

    def position(self, index: int) -> Position:
        """The position at an index."""
        return Position(self.source, self.incarnation, self.partition, index)

    def part(self, start: int, end: int) -> Span:
        """A range of the same partition."""
        return Span(self.source, self.incarnation, self.partition, start, end)

    def to_json(self) -> list[Any]:
        """Compact."""
        return [self.source, self.incarnation, self.partition, self.start, self.end]

    @classmethod
    def from_json(cls, value: object) -> Span:
        """What ``to_json`` wrote.

        Raises:
            InvalidOffsets: It is not of that form.
        """
        match value:
            case [str() as source, str() as inc, int() as partition, int() as start, int() as end]:
                return cls(source, inc, partition, start, end)
        raise InvalidOffsets("span", repr(value))


@dataclass(frozen=True)
class SourceOffsets:
    """Where reading stands in every input, by name: for each partition the next index to read.

    One value for all inputs of a processor, so that inputs can be added, removed or listed in
    another order without one taking the offsets of another. Inputs that were removed stay in it,
    so that one which returns goes on where it was.
    """

    entries: tuple[tuple[SourcePartition, int], ...] = ()

    def __post_init__(self) -> None:
        seen: dict[tuple[str, int], str] = {}
        for origin, index in self.entries:
            place = origin.source, origin.partition
            if seen.setdefault(place, origin.incarnation) != origin.incarnation:
                raise InvalidOffsets(f"offset of {place}", "it has two incarnations")
            if index < 0:
                raise InvalidOffsets(f"offset of {place}", f"it is {index}")
        object.__setattr__(self, "entries", tuple(sorted(self.entries)))

    @classmethod
    def of(cls, offsets: Mapping[SourcePartition, int]) -> SourceOffsets:
        """From a mapping."""
        return cls(tuple(offsets.items()))

    @classmethod
    def starts(cls, spans: Iterable[Span]) -> SourceOffsets:
        """Where spans begin."""
        return cls(tuple((span.origin, span.start) for span in spans))

    @classmethod
    def ends(cls, spans: Iterable[Span]) -> SourceOffsets:
        """Where spans end."""
        return cls(tuple((span.origin, span.end) for span in spans))

    @cached_property
    def by_origin(self) -> dict[SourcePartition, int]:
        """The same as a mapping."""
        return dict(self.entries)

    @property
    def sources(self) -> frozenset[str]:
        """The names of all inputs."""
        return frozenset(origin.source for origin, _ in self.entries)

    def get(self, origin: SourcePartition) -> int:
        """The next index to read; 0 where nothing was read yet."""
        return self.by_origin.get(origin, 0)

    def covers(self, positions: Iterable[Position]) -> bool:
        """Whether all of these were read already."""
        offsets = self.by_origin
        return all(at.index < offsets.get(at.origin, 0) for at in positions)

    def advanced(self, spans: Iterable[Span]) -> SourceOffsets:
        """After these were read, too; what they do not name stays."""
        return self.moved_to(SourceOffsets.ends(spans))

    def moved_to(self, other: SourceOffsets) -> SourceOffsets:
        """Where the other stands in what it names, a new incarnation in place of an old one."""
        places = {(origin.source, origin.partition) for origin, _ in other.entries}
        kept = (
            (origin, index)
            for origin, index in self.entries
            if (origin.source, origin.partition) not in places
        )
        return SourceOffsets((*kept, *other.entries))

    def is_within(self, other: SourceOffsets) -> bool:
        """Whether the other stands at least as far in everything that this one names."""
        return all(index <= other.get(origin) for origin, index in self.entries)

    def agrees_with(self, other: SourceOffsets) -> bool:
        """Whether both say the same; an input at its beginning may as well be absent."""
        return self.is_within(other) and other.is_within(self)

    def of_inputs(self, names: Iterable[str]) -> SourceOffsets:
        """Only these inputs."""
        wanted = frozenset(names)
        return SourceOffsets(tuple(entry for entry in self.entries if entry[0].source in wanted))

    def check_incarnations(self, found: Iterable[SourcePartition]) -> None:
        """See that the sources are the ones that were read.

        Raises:
            IncarnationChanged: One was deleted and made again: its indices mean other messages.
        """
        known = {(origin.source, origin.partition): origin for origin, _ in self.entries}
        for origin in found:
            old = known.get((origin.source, origin.partition))
            if old is not None and old != origin:
                raise IncarnationChanged(
                    old.source, old.partition, old.incarnation, origin.incarnation, self.get(old)
                )

    def to_json(self) -> dict[str, dict[str, dict[str, Any]]]:
        """Inputs by name, partitions by number: made of nothing but mappings and primitives."""
        tree: dict[str, dict[str, dict[str, Any]]] = {}
        for origin, index in self.entries:
            entry = {"incarnation": origin.incarnation, "index": index}
            tree.setdefault(origin.source, {})[str(origin.partition)] = entry
        return tree

    @classmethod
    def from_json(cls, tree: object) -> SourceOffsets:
        """What ``to_json`` wrote.

        Raises:
            InvalidOffsets: It is not of that form.
        """
        try:
            return cls(tuple(_entries(tree)))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise InvalidOffsets("offsets", f"{tree!r} ({error})") from error

    def __str__(self) -> str:
        return json.dumps(self.to_json(), separators=(",", ":"), ensure_ascii=False)


def _entries(tree: Any) -> Iterable[tuple[SourcePartition, int]]:
    for source, partitions in tree.items():
        for number, entry in partitions.items():
            yield SourcePartition(source, str(entry["incarnation"]), int(number)), entry["index"]
