"""What does a task of the source do? It reads its part and gives rows that are ready to be written.

The function runs here, where the messages are. What it needs beside them are facts of the snapshot,
and those are in the part; so a retry, a speculative copy and a replay all give the same rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, repeat, zip_longest
from typing import TYPE_CHECKING, Any

from windrow.graph.delivery_steps import RunBatch
from windrow.graph.planning import Split
from windrow.graph.positions import Position, Span
from windrow.graph.staging import Destination, Staged
from windrow.points import pass_by
from windrow.spark.query.by_hand import ByHand
from windrow.spark.query.encoding import Encoded, Raw, from_plain, raw_rows, to_plain
from windrow.spark.query.errors import PairMissing
from windrow.spark.query.function import Caller, Note, Result
from windrow.spark.query.hashing import SplitHasher
from windrow.spark.query.leg_plan import LegPlan
from windrow.spark.query.opened import Stores
from windrow.spark.query.rows import DeliveryRows
from windrow.spark.query.staged import FanOut, Route, StagedRows
from windrow.spark.stores import QueueReader

if TYPE_CHECKING:
    import pyarrow as pa


_tuple = tuple.__new__


@dataclass(frozen=True, slots=True)
class BatchPart:
    """What one task reads: some splits of a snapshot, and all facts of the attempt at it."""

    splits: tuple[Split, ...]
    run: RunBatch


def read_part(plan: LegPlan, part: BatchPart, stores: Stores) -> Iterator[pa.RecordBatch]:
    """The rows of a part; of frames the messages as they are, of all else rows to be delivered."""
    pass_by("graph.read-before")
    yield from _read(plan, part, stores)
    pass_by("graph.read-after")


def _read(plan: LegPlan, part: BatchPart, stores: Stores) -> Iterator[pa.RecordBatch]:
    from windrow.spark.query.arrow_function import run_arrow

    if plan.is_frame:
        for split in part.splits:
            for span in split.spans:
                yield from _reader(plan, span, stores).read(span)
    elif plan.effect == "function":
        for split in part.splits:
            yield from _raw_part(plan, split, part.run, stores)
    elif plan.leg.is_fan_out:
        for split in part.splits:
            yield from _fan_out(plan, split, part.run, stores)
    elif plan.processor.form == "arrow":
        for split in part.splits:
            yield from run_arrow(plan, split, part.run, stores)
    else:
        yield from _run_messages(plan, part, stores)


# -- the function, message by message ------------------------------------------------------------


def _run_messages(plan: LegPlan, part: BatchPart, stores: Stores) -> Iterator[pa.RecordBatch]:
    run = part.run
    note, rest = notes_of(plan, run.is_isolated, run.delivery_hash, stores)
    by_hand = ByHand(plan, stores) if plan.by_hand else None
    extend = by_hand.extend if by_hand else None
    caller = Caller(plan, run.snapshot, run.attempt, run.poisoned, note, extend)
    for split in part.splits:
        yield from _run_split(plan, split, run, caller, stores)
    if by_hand is not None:
        by_hand.keep()
    rest()


def _run_split(
    plan: LegPlan, split: Split, run: RunBatch, caller: Caller, stores: Stores
) -> Iterator[pa.RecordBatch]:
    hasher = SplitHasher(plan.uid, split)
    rows, write = _writer(plan, split, run, hasher)
    hash_of = hasher.hash
    call = caller.call
    first_source = split.spans[0].source
    first = True
    for nth, positions, raws in inputs_of(plan, split, stores):
        digest = hash_of(nth)
        key = raws[first_source].key
        write(nth, positions[0], digest, key, call(positions, digest, raws))
        if first:
            pass_by("graph.run-during")
            first = False
        if rows.is_full:
            yield from rows.take()
    yield from rows.finish()


Write = Callable[[int, Position, str, bytes | None, Result], None]


def _writer(
    plan: LegPlan, split: Split, run: RunBatch, hasher: SplitHasher
) -> tuple[DeliveryRows | StagedRows, Write]:
    """What gathers results, and how: whole on a stage, else their part for the queue."""
    route = route_of(run)
    destination = plan.leg.destination
    assert destination is not None
    if plan.leg.is_stage:
        return _stager(new_stage(plan, split, run), route)
    rows = new_rows(plan, split, run)

    def deliver(nth: int, at: Position, digest: str, key: bytes | None, result: Result) -> None:
        outputs = part_of(result, destination)
        if not outputs:
            rows.add_nil(route(key, at), nth)
            return
        for ordinal, body in enumerate(outputs):
            if ordinal:
                digest = hasher.hash(nth, ordinal)
                at = at._replace(ordinal=ordinal)
            rows.add(route(body.key, at), nth, ordinal, digest, body)

    return rows, deliver


def _stager(rows: StagedRows, route: Route) -> tuple[StagedRows, Write]:
    def stage(nth: int, at: Position, digest: str, key: bytes | None, result: Result) -> None:
        # By the key of the input: what a function returns may differ on a replay.
        rows.add(route(key, at), nth, digest, key, result)

    return rows, stage


def part_of(result: Result, destination: Destination) -> Sequence[Encoded]:
    """What one destination gets of a result."""
    return Staged((), result).part_for(destination)


def new_rows(plan: LegPlan, split: Split, run: RunBatch) -> DeliveryRows:
    """What gathers the rows of one split."""
    return DeliveryRows(split, time_of(run), plan.settings.arrow_rows)


def new_stage(plan: LegPlan, split: Split, run: RunBatch) -> StagedRows:
    """What gathers the whole results of one split."""
    return StagedRows(plan.uid, split, time_of(run), plan.settings.arrow_rows)


def time_of(run: RunBatch) -> int:
    """The time of all rows of a snapshot, in microseconds since 1970."""
    return round(run.snapshot.batch_time * 1_000_000)


def route_of(run: RunBatch) -> Route:
    """Where rows go, as the snapshot pins it."""
    routing = run.snapshot.routing
    if routing.targets == 1:
        return lambda key, position: 0
    return routing.route


# -- what was staged -----------------------------------------------------------------------------


def _fan_out(
    plan: LegPlan, split: Split, run: RunBatch, stores: Stores
) -> Iterator[pa.RecordBatch]:
    destination = plan.leg.destination
    assert destination is not None
    route = None if run.snapshot.routing.targets == 1 else route_of(run)
    fan_out = FanOut(destination, split, time_of(run), route)
    span = split.spans[0]
    pass_by("graph.fan-out-before")
    for staged in _reader(plan, span, stores).read(span):
        yield from fan_out.take(staged)
    yield from fan_out.finish()
    pass_by("graph.fan-out-after")


# -- messages on their way to a task that acts ---------------------------------------------------


def _raw_part(
    plan: LegPlan, split: Split, run: RunBatch, stores: Stores
) -> Iterator[pa.RecordBatch]:
    """Rows with all that was read, sent by their partition: who acts on one claims it alone."""
    rows = new_rows(plan, split, run)
    targets = run.snapshot.routing.targets
    for nth, positions, raws in inputs_of(plan, split, stores):
        body = Encoded(envelope(raws))
        rows.add(positions[0].partition % targets, nth, 0, "", body)
        if rows.is_full:
            yield from rows.take()
    yield from rows.finish()


def envelope(raws: Mapping[str, Raw]) -> bytes:
    """All inputs of one step as one value."""
    tree = {
        queue: [raw.at, raw.time, to_plain(Encoded(raw.value, raw.key, raw.headers, raw.topic))]
        for queue, raw in raws.items()
    }
    return json.dumps(tree, separators=(",", ":"), ensure_ascii=False).encode()


def opened_envelope(value: bytes) -> dict[str, Raw]:
    """What ``envelope`` wrote."""
    raws: dict[str, Raw] = {}
    for queue, (index, time, tree) in json.loads(value).items():
        body = from_plain(tree)
        raws[queue] = Raw(index, body.key, body.value, body.headers, body.topic, time)
    return raws


# -- reading -------------------------------------------------------------------------------------


def inputs_of(
    plan: LegPlan, split: Split, stores: Stores
) -> Iterator[tuple[int, tuple[Position, ...], dict[str, Raw]]]:
    """Each input of a split: its number, where it stands, and what was read, by queue.

    Raises:
        PairMissing: An input of a join has gaps.
    """
    if len(split.spans) == 1:
        yield from _single_inputs(plan, split.spans[0], stores)
        return
    spans = split.spans
    heads = [(span.source, span.incarnation, span.partition, span.start) for span in spans]
    sources = [span.source for span in spans]
    columns = [_rows_of(plan, span, stores) for span in spans]
    for nth, pair in zip(range(len(split)), _to_the_last(columns), strict=False):
        # Made as plain tuples are: of every pair there are two, and this takes half the time.
        positions = tuple([_tuple(Position, (*head[:3], head[3] + nth, 0)) for head in heads])
        for at, raw in zip(positions, pair, strict=True):
            if raw is None or raw.at != at.index:
                raise PairMissing(at.source, at.index, raw.at if raw else None)
        yield nth, positions, dict(zip(sources, pair, strict=True))


def _to_the_last(columns: Sequence[Iterator[Raw]]) -> Iterator[tuple[Any, ...]]:
    """One of each; None where there is no more, for ever."""
    return chain(zip_longest(*columns), repeat((None,) * len(columns)))


def _single_inputs(
    plan: LegPlan, span: Span, stores: Stores
) -> Iterator[tuple[int, tuple[Position, ...], dict[str, Raw]]]:
    source, incarnation, partition, start = (
        span.source,
        span.incarnation,
        span.partition,
        span.start,
    )
    for raw in _rows_of(plan, span, stores):
        index = raw.at
        yield index - start, (Position(source, incarnation, partition, index),), {source: raw}


def _rows_of(plan: LegPlan, span: Span, stores: Stores) -> Iterator[Raw]:
    for batch in _reader(plan, span, stores).read(span):
        yield from raw_rows(batch)


def _reader(plan: LegPlan, span: Span, stores: Stores) -> QueueReader:
    return stores.reader(plan.sources[span.source])


# -- suspicion -----------------------------------------------------------------------------------


def notes_of(
    plan: LegPlan, is_isolated: bool, delivery_hash: str, stores: Stores
) -> tuple[Note | None, Callable[[], None]]:
    """What notes the message that is about to be run, and what says that all were run."""
    if not is_isolated:
        return None, lambda: None
    suspects = stores.suspects(plan)

    def note(position: Position) -> None:
        suspects.note(delivery_hash, json.dumps(position.to_json()))

    return note, lambda: suspects.note(delivery_hash, "")
