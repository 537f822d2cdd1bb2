"""What does the next batch read, and who reads which part of it? Pure.

A processor's query has one source that carries all inputs by name, so one plan covers them all:

- A pipe, and every alts processor, takes from all inputs what there is. Under a limit each gets a
  fair share, and what is left over goes by name.
- A join by position takes the same number from every input: as many as the shortest has. The first
  of one pairs with the first of the others; so it needs no state.

A plan for a start that was planned before must end where that one ended. A run that takes what is
available now fixes its end when it begins.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from windrow.graph.delivery_errors import LanesDiffer, SourceBehind, SourceTrimmed
from windrow.graph.positions import Position, SourceOffsets, SourcePartition, Span
from windrow.graph.snapshot import Snapshot

Taking = Literal["alts", "join"]
"""How inputs are taken: a pipe is an alts of one."""


@dataclass(frozen=True, slots=True)
class Available:
    """What a source partition holds now: from ``first`` up to and without ``end``."""

    source: str
    incarnation: str
    partition: int
    first: int
    end: int
    mean_bytes: float = 0.0
    """Of a message; 0 if it is not known, and then no limit of bytes applies."""

    @property
    def origin(self) -> SourcePartition:
        """The partition it speaks of."""
        return SourcePartition(self.source, self.incarnation, self.partition)


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one batch may take; ``None`` is all. Something is always taken."""

    max_rows: int | None = None
    max_bytes: int | None = None


UNLIMITED = Limits()


@dataclass(frozen=True, slots=True)
class Backlog:
    """What waits to be read: rows by input, and of a join those that wait for their pair."""

    rows: Mapping[str, int]
    unpaired: int = 0

    @property
    def total(self) -> int:
        """Rows that the next batches can take."""
        return sum(self.rows.values()) - self.unpaired


def plan(
    taking: Taking,
    start: SourceOffsets,
    available: Sequence[Available],
    limits: Limits = UNLIMITED,
    until: SourceOffsets | None = None,
) -> tuple[Span, ...] | None:
    """The ranges of the next batch, those that are empty included; ``None`` if all are.

    Args:
        taking: How inputs are taken.
        start: Where reading stands; an input that is not in it begins with what it has.
        available: Of every partition of every input.
        limits: How much to take.
        until: The end of a run that takes what was available when it began.

    Raises:
        IncarnationChanged: A source is not the one that was read.
        SourceTrimmed: What comes next is gone.
        SourceBehind: A source ends before what was read from it.
        LanesDiffer: A join's inputs have different partitions.
    """
    ahead = readable(start, available, until)
    taken = _take_pairs(ahead, limits) if taking == "join" else _take_shares(ahead, limits)
    spans = tuple(
        span.part(span.start, span.start + count)
        for (span, _), count in zip(ahead, taken, strict=True)
    )
    return spans if any(spans) else None


def readable(
    start: SourceOffsets, available: Sequence[Available], until: SourceOffsets | None = None
) -> list[tuple[Span, float]]:
    """What can be read of every partition, sorted, with the mean size of its messages."""
    start.check_incarnations(partition.origin for partition in available)
    known = start.by_origin
    ahead = []
    for one in sorted(available, key=lambda one: one.origin):
        begin = known.get(one.origin, one.first)
        if begin < one.first:
            raise SourceTrimmed(one.source, one.partition, begin, one.first)
        if begin > one.end:
            raise SourceBehind(one.source, one.partition, begin, one.end)
        end = one.end if until is None else max(begin, min(one.end, until.get(one.origin)))
        ahead.append((_span(one.origin, begin, end), one.mean_bytes))
    return ahead


def spans_between(
    start: SourceOffsets, end: SourceOffsets, known: Snapshot | None = None
) -> tuple[Span, ...]:
    """The ranges of a batch of which only the offsets are left, as in Spark's log.

    Args:
        start: Where it begins.
        end: Where it ends.
        known: The last snapshot; if it is this one its ranges count, since an input that was read
            for the first time then has no start in the log.
    """
    if known is not None and known.ends.agrees_with(end.of_inputs(known.ends.sources)):
        return known.spans
    return tuple(
        _span(origin, min(index, start.get(origin)), index) for origin, index in end.entries
    )


def available_now(available: Iterable[Available]) -> SourceOffsets:
    """Where a run ends that takes what there is when it begins."""
    return SourceOffsets.of({one.origin: one.end for one in available})


def backlog(
    taking: Taking,
    start: SourceOffsets,
    available: Sequence[Available],
) -> Backlog:
    """What waits to be read."""
    rows: dict[str, int] = defaultdict(int)
    ahead = readable(start, available)
    for span, _ in ahead:
        rows[span.source] += len(span)
    if taking != "join":
        return Backlog(dict(rows))
    pairs = sum(_take_pairs(ahead, UNLIMITED))
    return Backlog(dict(rows), unpaired=sum(rows.values()) - pairs)


def _span(origin: SourcePartition, start: int, end: int) -> Span:
    return Span(origin.source, origin.incarnation, origin.partition, start, end)


def _take_shares(ahead: Sequence[tuple[Span, float]], limits: Limits) -> list[int]:
    """A fair share for everyone: the largest level to which all can be filled, the rest by name."""
    wanted = [len(span) for span, _ in ahead]
    room = _rows_allowed(ahead, wanted, limits)
    if sum(wanted) <= room:
        return wanted
    taken = [0] * len(wanted)
    open_places = [place for place, count in enumerate(wanted) if count]
    while room and open_places:
        share = max(1, room // len(open_places))
        for place in list(open_places):
            count = min(share, wanted[place] - taken[place], room)
            taken[place] += count
            room -= count
            if taken[place] == wanted[place]:
                open_places.remove(place)
            if not room:
                break
    return taken


def _rows_allowed(
    ahead: Sequence[tuple[Span, float]], wanted: Sequence[int], limits: Limits
) -> int:
    """How many rows the limits allow; at least one, or a large message would hold up all."""
    total = sum(wanted)
    allowed = total if limits.max_rows is None else limits.max_rows
    size = sum(count * mean for count, (_, mean) in zip(wanted, ahead, strict=True))
    if limits.max_bytes is not None and size > limits.max_bytes:
        allowed = min(allowed, int(total * limits.max_bytes / size))
    return max(1, allowed) if total else 0


def _take_pairs(ahead: Sequence[tuple[Span, float]], limits: Limits) -> list[int]:
    """The same number from every input of a lane: what the shortest has, within the limits."""
    lanes = _lanes(span for span, _ in ahead)
    width = max(1, len({span.source for span, _ in ahead}))
    lengths = {lane: min(len(span) for span in spans) for lane, spans in lanes.items()}
    joined = [
        (_span(SourcePartition("", "", lane), 0, length), _lane_bytes(ahead, lane))
        for lane, length in sorted(lengths.items())
    ]
    per_pair = None if limits.max_rows is None else max(1, limits.max_rows // width)
    shares = _take_shares(joined, Limits(per_pair, limits.max_bytes))
    by_lane = {span.partition: share for (span, _), share in zip(joined, shares, strict=True)}
    return [by_lane[span.partition] for span, _ in ahead]


def _lane_bytes(ahead: Iterable[tuple[Span, float]], lane: int) -> float:
    return sum(mean for span, mean in ahead if span.partition == lane)


def _lanes(spans: Iterable[Span]) -> dict[int, list[Span]]:
    """The spans of each partition number; every input of a join must have all of them."""
    lanes: dict[int, list[Span]] = defaultdict(list)
    by_source: dict[str, list[int]] = defaultdict(list)
    for span in spans:
        lanes[span.partition].append(span)
        by_source[span.source].append(span.partition)
    numbers = {tuple(sorted(partitions)) for partitions in by_source.values()}
    if len(numbers) > 1:
        sides = ((name, tuple(sorted(own))) for name, own in sorted(by_source.items()))
        raise LanesDiffer(tuple(sides))
    return dict(lanes)


@dataclass(frozen=True, slots=True)
class Split:
    """What one task reads: one span, or of a join a span of the same length from every input."""

    spans: tuple[Span, ...]

    def __len__(self) -> int:
        return max((len(span) for span in self.spans), default=0)

    def positions(self, nth: int) -> tuple[Position, ...]:
        """Of the nth row, sorted by source."""
        return tuple(span.position(span.start + nth) for span in self.spans)


def splits(
    taking: Taking,
    snapshot: Snapshot,
    fragments: Mapping[SourcePartition, Sequence[int]] | None = None,
    max_rows: int | None = None,
) -> list[Split]:
    """Cut a snapshot into parts that are read in parallel. Nothing depends on how it is cut.

    Args:
        taking: How inputs are taken.
        snapshot: What is delivered.
        fragments: Indices at which fragments of a partition begin: good places for a cut.
        max_rows: The most rows in a part; ``None`` cuts at fragments only.
    """
    if taking == "join":
        lanes = _lanes(snapshot.spans)
        whole = [Split(tuple(sorted(spans))) for _, spans in sorted(lanes.items())]
    else:
        whole = [Split((span,)) for span in snapshot.spans]
    parts: list[Split] = []
    for split in whole:
        if len(split):
            parts.extend(_cut(split, fragments or {}, max_rows))
    return parts


def whole_partitions(snapshot: Snapshot) -> list[Split]:
    """One part for each source partition, as at most once needs it.

    There a task claims by moving the high-water of its source partition; two tasks in one partition
    would each find it moved by the other.
    """
    return [Split((span,)) for span in snapshot.spans if span]


def _cut(
    split: Split, fragments: Mapping[SourcePartition, Sequence[int]], max_rows: int | None
) -> Iterable[Split]:
    cuts = {0, len(split)}
    for span in split.spans:
        for index in fragments.get(span.origin, ()):
            if span.start < index < span.end:
                cuts.add(index - span.start)
    if max_rows is not None:
        cuts |= set(range(0, len(split), max(1, max_rows)))
    edges = sorted(cuts)
    for begin, end in pairwise(edges):
        yield Split(tuple(s.part(s.start + begin, s.start + end) for s in split.spans))
