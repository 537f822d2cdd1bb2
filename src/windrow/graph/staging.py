"""How does an input end as exactly one of output or error, if there are several destinations?

Two queues cannot be written in one step. So the whole result of an input, its outputs for every
queue or its error, is written once to a staging queue, and from there each destination takes its
part by itself: a leg with a backing journal and high-waters of its own. What is staged is settled:
no crash, no commit of unknown outcome and no second run of the function can turn an output into an
error, or have both.

A leg that fans out has no error queue; it holds until its destination takes the rows. So what a
destination could refuse for ever, such as a message too large for it, is found before staging.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from windrow.graph.positions import Position, SourceOffsets
from windrow.graph.snapshot import ProcessorUid

Role = Literal["output", "error"]


@dataclass(frozen=True, slots=True)
class Destination:
    """A queue that a processor writes to, and what for."""

    queue: str
    role: Role = "output"


@dataclass(frozen=True, slots=True)
class Leg:
    """One query: it reads some queues and writes to one destination, or to none.

    Attributes:
        uid: By which its progress is kept.
        inputs: What it reads.
        destination: What it writes to; ``None`` for effects alone.
        is_stage: The destination is the staging queue, and takes whole results.
        is_fan_out: It reads the staging queue, and copies one destination's part.
    """

    uid: ProcessorUid
    inputs: tuple[str, ...]
    destination: Destination | None
    is_stage: bool = False
    is_fan_out: bool = False


def staging_queue(uid: ProcessorUid) -> str:
    """The name of a processor's staging queue; no declared queue begins with an underscore."""
    return f"_stage/{uid.graph}/{uid.processor}"


def must_stage(destinations: Sequence[Destination], is_deterministic: bool) -> bool:
    """Whether results go through a staging queue.

    They do if there are several destinations, or if a replay could give another result: a row that
    is routed by what the function returned would meet another target's high-water then.
    """
    return len(destinations) > 1 or (bool(destinations) and not is_deterministic)


def legs_of(
    uid: ProcessorUid,
    inputs: Iterable[str],
    destinations: Sequence[Destination],
    is_deterministic: bool,
) -> tuple[Leg, ...]:
    """The queries that a processor is made of."""
    names = tuple(sorted(inputs))
    if not must_stage(destinations, is_deterministic):
        return (Leg(uid, names, destinations[0] if destinations else None),)
    queue = staging_queue(uid)
    stage = Leg(uid, names, Destination(queue), is_stage=True)
    return (
        stage,
        *(
            Leg(_leg_uid(uid, destination), (queue,), destination, is_fan_out=True)
            for destination in destinations
        ),
    )


def _leg_uid(uid: ProcessorUid, destination: Destination) -> ProcessorUid:
    return ProcessorUid(uid.graph, uid.processor, f"{destination.role}/{destination.queue}")


@dataclass(frozen=True, slots=True)
class Outputs:
    """What a function returned, by queue; a queue may get several messages, or none."""

    by_queue: Mapping[str, Sequence[Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Failure:
    """What the error queue gets instead."""

    error: Any


@dataclass(frozen=True, slots=True)
class Staged:
    """The whole result of one input (of a join, of one from each): outputs or an error.

    Attributes:
        positions: Where the input stands.
        result: What became of it.
    """

    positions: tuple[Position, ...]
    result: Outputs | Failure

    def part_for(self, destination: Destination) -> Sequence[Any]:
        """What one destination gets, in order: the place in it is the ordinal."""
        match self.result, destination.role:
            case Failure() as failure, "error":
                return (failure.error,)
            case Outputs() as outputs, "output":
                return outputs.by_queue.get(destination.queue, ())
        return ()


def oversized(
    staged: Staged, limits: Mapping[str, int], sizes: Mapping[str, Sequence[int]]
) -> tuple[str, int, int] | None:
    """The first output that its queue would refuse for ever: (queue, size, limit).

    To be asked before staging: the result then becomes an error, which it could not any more.
    """
    if isinstance(staged.result, Failure):
        return None
    for queue in sorted(staged.result.by_queue):
        limit = limits.get(queue)
        for size in sizes.get(queue, ()):
            if limit is not None and size > limit:
                return queue, size, limit
    return None


def trim_below(readers: Iterable[SourceOffsets], queue: str) -> SourceOffsets:
    """Up to where a staging queue may be trimmed: what its slowest reader has delivered."""
    lowest: SourceOffsets | None = None
    for offsets in readers:
        own = offsets.of_inputs([queue])
        lowest = own if lowest is None else _lower(lowest, own)
    return lowest or SourceOffsets()


def _lower(one: SourceOffsets, other: SourceOffsets) -> SourceOffsets:
    """The lower of both in every partition that both know; one that is unknown was never read."""
    return SourceOffsets.of(
        {
            origin: min(index, other.get(origin))
            for origin, index in one.entries
            if origin in other.by_origin
        }
    )
