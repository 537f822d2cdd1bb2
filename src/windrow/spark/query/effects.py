"""Functions whose deeds are effects: run by the task that keeps the mark of what it has done.

At least once, the task acts and then moves its mark; a second attempt may do it again, with the
same delivery hash. At most once, it moves its mark and then acts; a second attempt finds it moved.
What such a function returns is written to its queues by the same task: it may be lost, too, and for
the same reason is never there twice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

from windrow.graph.delivery_steps import RunBatch
from windrow.graph.planning import Split
from windrow.graph.policies import EXACTLY_ONCE
from windrow.graph.positions import Position, Span, numbered
from windrow.graph.sink_rows import SinkRow
from windrow.graph.sink_task import SinkTask
from windrow.graph.snapshot import DeliveryHasher, ProcessorUid
from windrow.graph.staging import Destination
from windrow.points import pass_by
from windrow.spark.query.by_hand import ByHand
from windrow.spark.query.encoding import Encoded, Raw
from windrow.spark.query.function import NOTHING, Caller, Result
from windrow.spark.query.leg_plan import LegPlan, routing_of
from windrow.spark.query.opened import Stores
from windrow.spark.query.reading import notes_of, opened_envelope, part_of
from windrow.spark.query.rows import message_batches
from windrow.spark.stores import Content
from windrow.spark.targets.perform import Effect, run_sink_task

if TYPE_CHECKING:
    from windrow.spark.query.sink import BatchFacts

Ran = tuple[tuple[Position, ...], Result]
Written = dict[Destination, list[tuple[tuple[Position, ...], Encoded]]]


def function_effect(plan: LegPlan, facts: BatchFacts, stores: Stores) -> Effect:
    """What calls the function with rows, each a whole step."""
    acting = _Acting(plan, facts, stores)
    return acting.act


def _raws(row: SinkRow) -> dict[str, Raw]:
    assert isinstance(row.value, Content)
    return opened_envelope(row.value.value or b"{}")


class _Acting:
    def __init__(self, plan: LegPlan, facts: BatchFacts, stores: Stores) -> None:
        self._plan, self._facts, self._stores = plan, facts, stores
        self._hasher = DeliveryHasher(plan.uid.base)
        note, self._rest = notes_of(plan, facts.is_isolated, facts.delivery_hash, stores)
        self._by_hand = ByHand(plan, stores) if plan.by_hand else None
        extend = self._by_hand.extend if self._by_hand else None
        self._caller = Caller(plan, facts.snapshot, facts.attempts, facts.poisoned, note, extend)

    def act(self, rows: Sequence[SinkRow]) -> None:
        """Call the function with each row; write what it returns."""
        written: Written = defaultdict(list)
        destinations = self._destinations()
        run = self._run_batches if self._plan.processor.form == "arrow" else self._run_messages
        for nth, (positions, result) in enumerate(run(rows)):
            if nth == 0:
                pass_by("graph.run-during")
            for destination in destinations:
                self._gather(destination, positions, result, written)
        for destination, outputs in written.items():
            self._write(destination, outputs)
        if self._by_hand is not None:
            self._by_hand.keep()
        self._rest()

    def _run_messages(self, rows: Sequence[SinkRow]) -> Iterator[Ran]:
        for row in rows:
            digest = self._hasher.hash(row.positions)
            yield row.positions, self._caller.call(row.positions, digest, _raws(row))

    def _run_batches(self, rows: Sequence[SinkRow]) -> Iterator[Ran]:
        """As many rows of one lane at a time as an Arrow batch holds."""
        from windrow.spark.query.arrow_function import ArrowRun

        run = RunBatch(
            self._facts.snapshot,
            self._facts.delivery_hash,
            self._facts.attempts,
            self._facts.floor,
            self._plan.epoch,
            self._facts.poisoned,
        )
        size = self._plan.settings.arrow_rows
        for _, lane in groupby(rows, key=lambda row: [at.origin for at in row.positions]):
            own = list(lane)
            for begin in range(0, len(own), size):
                cut = own[begin : begin + size]
                first, last = cut[0].positions, cut[-1].positions
                spans = [
                    Span(a.source, a.incarnation, a.partition, a.index, z.index + 1)
                    for a, z in zip(first, last, strict=True)
                ]
                arrow = ArrowRun(self._plan, Split(tuple(spans)), run)
                results = arrow.results(message_batches([_raws(row) for row in cut], first))
                for row in cut:
                    number = row.positions[0].index - first[0].index
                    yield row.positions, results.get(number, NOTHING)

    def _destinations(self) -> list[Destination]:
        error_queue = self._plan.description.get("errors")
        return [
            Destination(queue, "error" if queue == error_queue else "output")
            for queue in self._plan.outputs
        ]

    @staticmethod
    def _gather(
        destination: Destination,
        positions: tuple[Position, ...],
        result: Result,
        written: Written,
    ) -> None:
        for ordinal, body in enumerate(part_of(result, destination)):
            written[destination].append((numbered(positions, ordinal), body))

    def _write(
        self, destination: Destination, outputs: list[tuple[tuple[Position, ...], Encoded]]
    ) -> None:
        """Write outputs with marks of their own, under the name of the processor's destination."""
        place = self._plan.outputs[destination.queue]
        time = round(self._facts.snapshot.batch_time * 1_000_000)
        if place.backend == "http":
            rows = [self._row(positions, body, time) for positions, body in outputs]
            self._stores.poster(place)(rows)
            return
        target = self._stores.target(place)
        routing = routing_of(place, target.targets())
        base = self._plan.uid
        uid = ProcessorUid(base.graph, base.processor, f"{destination.role}/{destination.queue}")
        snapshot = replace(self._facts.snapshot, uid=uid, routing=routing, strategy=EXACTLY_ONCE)
        by_target: dict[int, list[SinkRow]] = defaultdict(list)
        for positions, body in outputs:
            number = 0 if routing.targets == 1 else routing.route(body.key, positions[0])
            by_target[number].append(self._row(positions, body, time))
        for number, rows in sorted(by_target.items()):
            task = SinkTask(snapshot, number, rows, self._facts.floor, 0, self._plan.epoch)
            run_sink_task(task, uid, target)

    def _row(self, positions: tuple[Position, ...], body: Encoded, time: int) -> SinkRow:
        digest = self._hasher.hash(positions)
        content = Content(body.value, body.key, tuple(body.headers), body.topic, time, digest)
        return SinkRow(positions, content)
