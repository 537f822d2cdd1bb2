"""The recovery component: what a processor finds when it starts, and where it goes on. Pure.

The steps have the numbers that the algorithm gives them:

1. Look at the last entry of the backing journal: (a) none: the processor never tried; (b) a
   snapshot: the attempt failed, make it again and take no new snapshot; (c) the choice of an alts
   processor: it is in the snapshot's ranges; (d, e) attempt-output, attempt-error: the delivery
   hash is read back from the sink; (f) attempt-nil: it is in the attempt.
2. Take the nearest snapshot before it, and compute its hash.
3. (a) The hashes are the same: it was delivered. (b) They are not: make the attempt again.
4. Go on.

Three truths may disagree, and they have a rank: sink, backing journal, checkpoint. What the sink
holds was delivered, whatever the journal says; a sink that was set back makes the processor rewind;
a checkpoint that says something else is dropped, for it is a cache. Only where it holds state is it
more than that, and then one that is lost or disagrees is refused.

First of all the processor is taken over, so that an earlier owner can change nothing any more of
what is read here. Doing all of it again changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from windrow.graph.backing import BackingState, Rewound, SnapshotTaken
from windrow.graph.delivery_errors import (
    CodeChanged,
    InputGone,
    SinkBehind,
    SinkLost,
    SourceBehind,
    StateLost,
)
from windrow.graph.high_water import Delivered, HighWaters
from windrow.graph.planning import Available, readable
from windrow.graph.positions import Position, SourceOffsets, SourcePartition
from windrow.graph.routing import RoutingPin
from windrow.graph.snapshot import ProcessorUid


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What Spark remembers: where its next batch begins, or the batch that it would repeat."""

    start: SourceOffsets
    planned_end: SourceOffsets | None = None


@dataclass(frozen=True, slots=True)
class Situation:
    """All that recovery looks at, beside the backing journal and the sink's record.

    Attributes:
        uid: The processor.
        inputs: The queues that it reads now.
        available: What every partition of them holds.
        code_version: Of the function now.
        is_stateful: The checkpoint holds state.
        checkpoint: What Spark remembers, if there is one.
        begin: Where to begin with inputs that were never read.
        marks: The high-waters of every target.
        when_sink_behind: Whether to deliver again what a sink that was set back has lost.
        accept_sink_loss: An operator says that the sink is to be filled anew.
        accept_state_loss: An operator says that state may begin empty.
    """

    uid: ProcessorUid
    inputs: frozenset[str]
    available: Sequence[Available] = ()
    code_version: str = ""
    is_stateful: bool = False
    checkpoint: Checkpoint | None = None
    begin: SourceOffsets = SourceOffsets()  # noqa: RUF009 - frozen
    marks: Sequence[HighWaters] = ()
    when_sink_behind: Literal["rewind", "refuse"] = "rewind"
    accept_sink_loss: bool = False
    accept_state_loss: bool = False


@dataclass(frozen=True, slots=True)
class Recovered:
    """Where the processor goes on.

    Attributes:
        start: Where the next snapshot begins.
        number: The number it will have.
        delivered: The sink's record, as it was read.
        in_doubt: The snapshot to be delivered first, under the strategy and routing it has.
        attempts: How often that was tried.
        reason: Why it was tried again last.
        poisoned: Messages of it that the function is not called with.
        keep_checkpoint: Whether Spark's checkpoint agrees; if not it is dropped.
        rewound: To be appended to the backing journal first.
        late: A delivered snapshot without output that the sink's record has not heard of.
        pinned: How rows were routed that a target holds although no snapshot is known to have them,
            and up to where: that snapshot was lost with the backing journal.
        steps: The numbers of the steps that led here.
    """

    start: SourceOffsets
    number: int
    delivered: Delivered | None = None
    in_doubt: SnapshotTaken | None = None
    attempts: int = 0
    reason: str = ""
    poisoned: tuple[Position, ...] = ()
    keep_checkpoint: bool = False
    rewound: Rewound | None = None
    late: Delivered | None = None
    pinned: tuple[RoutingPin, SourceOffsets] | None = None
    steps: tuple[str, ...] = ()


def recover(backing: BackingState, sink: Delivered | None, situation: Situation) -> Recovered:
    """Decide where to go on.

    Raises:
        Refused: Going on would lose or double something; the error says what to do.
    """
    recovered = _by_rank(backing, sink, situation)
    _check_sources(recovered, situation)
    if recovered.in_doubt is not None:
        _check_in_doubt(recovered.in_doubt, situation)
    return _with_checkpoint(recovered, situation)


def _by_rank(backing: BackingState, sink: Delivered | None, situation: Situation) -> Recovered:
    taken = backing.taken
    if taken is None:
        return _without_snapshot(backing, sink, situation)
    snapshot = taken.snapshot
    held = sink.delivery_hash if sink else ""
    steps = _first_step(backing)
    if held == snapshot.delivery_hash:
        # 3a. The sink holds it whole.
        return _go_on(backing, sink, _ends(sink, situation), (*steps, "3a", "4"))
    if sink and sink.number > snapshot.number:
        # The backing journal lost its tail: the sink knows better.
        return _follow_sink(backing, sink, "the backing journal is behind the sink")
    if held != taken.previous:
        return _after_setback(backing, sink, situation)
    if _is_delivered_nil(backing):
        late = Delivered(
            uid=situation.uid,
            number=snapshot.number,
            delivery_hash=snapshot.delivery_hash,
            ends=_ends(sink, situation).advanced(snapshot.spans),
            epoch=backing.epoch,
        )
        return _go_on(backing, sink, late.ends, (*steps, "3a", "4"), late)
    # 1b and 3b. The attempt failed; the sink stands where it stood before.
    return Recovered(
        start=_ends(sink, situation).moved_to(snapshot.starts),
        number=snapshot.number,
        delivered=sink,
        in_doubt=taken,
        attempts=backing.attempts,
        reason=backing.reason,
        poisoned=backing.poisoned,
        steps=(*steps, "4") if steps == ("1b",) else (*steps, "3b", "4"),
    )


def _first_step(backing: BackingState) -> tuple[str, ...]:
    if backing.attempt is None:
        return ("1b",)
    by_kind = {"attempt-output": "1d", "attempt-error": "1e", "attempt-nil": "1f"}
    return by_kind[backing.attempt.kind], "2"


def _is_delivered_nil(backing: BackingState) -> bool:
    attempt, taken = backing.attempt, backing.taken
    return (
        attempt is not None
        and taken is not None
        and attempt.kind == "attempt-nil"
        and attempt.delivery_hash == taken.snapshot.delivery_hash
    )


def _without_snapshot(
    backing: BackingState, sink: Delivered | None, situation: Situation
) -> Recovered:
    """1a. Never tried, as far as the journal says; or set elsewhere and not tried since."""
    held = sink.delivery_hash if sink else ""
    rewound = backing.rewound
    if rewound is not None and rewound.previous == held:
        return _go_on(backing, sink, rewound.offsets, ("1a", "4"))
    if rewound is not None and sink is None:
        return _after_setback(backing, sink, situation)
    if sink is not None:
        return _follow_sink(backing, sink, "the backing journal knows no snapshot, the sink does")
    return _go_on(backing, None, situation.begin, ("1a", "4"))


def _go_on(
    backing: BackingState,
    sink: Delivered | None,
    start: SourceOffsets,
    steps: tuple[str, ...],
    late: Delivered | None = None,
) -> Recovered:
    number = max(backing.number, sink.number if sink else 0) + 1
    return Recovered(start, number, delivered=sink, late=late, steps=steps)


def _follow_sink(backing: BackingState, sink: Delivered, reason: str) -> Recovered:
    return Recovered(
        start=sink.ends,
        number=max(backing.number, sink.number) + 1,
        delivered=sink,
        rewound=Rewound(sink.ends, sink.delivery_hash, reason),
        steps=("1a", "4") if backing.taken is None else (*_first_step(backing), "3a", "4"),
    )


def _after_setback(
    backing: BackingState, sink: Delivered | None, situation: Situation
) -> Recovered:
    """The sink holds less than was delivered to it: deliver the difference again, or refuse."""
    name = str(situation.uid)
    if sink is None:
        if not situation.accept_sink_loss:
            raise SinkLost(name, backing.number)
        rewound = Rewound(situation.begin, "", "the sink was lost, and is filled anew")
        return Recovered(situation.begin, backing.number + 1, rewound=rewound, steps=("3b", "4"))
    if situation.when_sink_behind == "refuse":
        raise SinkBehind(name, sink.number, backing.number)
    return _follow_sink(backing, sink, "the sink was set back")


def _ends(sink: Delivered | None, situation: Situation) -> SourceOffsets:
    return sink.ends if sink else situation.begin


def _check_sources(recovered: Recovered, situation: Situation) -> None:
    """What is to be read next must be there, in the sources that were read before."""
    found = [one.origin for one in situation.available]
    recovered.start.check_incarnations(found)
    if recovered.in_doubt is not None:
        recovered.in_doubt.snapshot.starts.check_incarnations(found)
    readable(recovered.start, situation.available)


def _check_in_doubt(taken: SnapshotTaken, situation: Situation) -> None:
    snapshot = taken.snapshot
    name = str(situation.uid)
    gone = snapshot.inputs - situation.inputs
    if gone:
        raise InputGone(name, snapshot.number, tuple(sorted(gone)))
    ends = {one.origin: one.end for one in situation.available}
    for span in snapshot.spans:
        if span and span.end > ends.get(span.origin, span.end):
            raise SourceBehind(span.source, span.partition, span.end, ends[span.origin])
    # With one target the high-water is all that matters; with several, new code could send a row
    # that one of them holds to another.
    is_half_written = any(waters.is_beyond(snapshot.starts) for waters in situation.marks)
    changed = snapshot.code_version != situation.code_version
    if changed and is_half_written and snapshot.routing.targets > 1:
        raise CodeChanged(name, snapshot.number, snapshot.code_version, situation.code_version)


def _with_checkpoint(recovered: Recovered, situation: Situation) -> Recovered:
    """Keep the checkpoint only if it goes on exactly where the other truths do."""
    keeps = _agrees(recovered, situation)
    if situation.is_stateful and not keeps and not situation.accept_state_loss:
        was_begun = recovered.delivered is not None or recovered.in_doubt is not None
        if situation.checkpoint is None and was_begun:
            raise StateLost(str(situation.uid), "is lost")
        if situation.checkpoint is not None:
            raise StateLost(str(situation.uid), "does not go on where the last delivery ended")
    known = recovered.start
    if recovered.in_doubt is not None:
        known = known.moved_to(recovered.in_doubt.snapshot.ends)
    pinned = _routed_beyond(known, situation.marks)
    return replace(recovered, keep_checkpoint=keeps, pinned=pinned)


def _routed_beyond(
    start: SourceOffsets, marks: Sequence[HighWaters]
) -> tuple[RoutingPin, SourceOffsets] | None:
    """How rows were routed that are written but belong to no snapshot that is known."""
    until: dict[SourcePartition, int] = {}
    routing: RoutingPin | None = None
    for waters in marks:
        if waters.is_beyond(start):
            routing = waters.routing
            for origin, mark in waters.marks.items():
                end = mark.index + (1 if mark.ordinal else 0)
                until[origin] = max(end, until.get(origin, 0))
    return (routing, SourceOffsets.of(until)) if routing else None


def _agrees(recovered: Recovered, situation: Situation) -> bool:
    checkpoint = situation.checkpoint
    if checkpoint is None:
        return False
    if recovered.in_doubt is None:
        # A batch that Spark would repeat although it was delivered would only be read in vain.
        return checkpoint.planned_end is None and checkpoint.start.agrees_with(recovered.start)
    snapshot = recovered.in_doubt.snapshot
    if not checkpoint.start.of_inputs(snapshot.starts.sources).agrees_with(snapshot.starts):
        return False
    end = checkpoint.planned_end
    return end is None or end.of_inputs(snapshot.ends.sources).agrees_with(snapshot.ends)
