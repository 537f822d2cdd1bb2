"""What a function of frames made, as whole results on their way to the staging queue.

All rows of a batch are in one task and go into one write, so their order does not matter: a second
attempt, with the rows in another order, finds all of them there or none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from windrow.graph.positions import Position, numbered
from windrow.graph.sink_rows import SinkRow
from windrow.graph.snapshot import DeliveryHasher, Snapshot
from windrow.graph.staging import Outputs
from windrow.spark.chunks import headers_of
from windrow.spark.query.encoding import Encoded
from windrow.spark.query.leg_plan import LegPlan
from windrow.spark.query.staged import bodies_of, messages_of
from windrow.spark.stores import Content

if TYPE_CHECKING:
    import pyarrow as pa

SNAPSHOTS_INCARNATION: Final = "0"
"""Snapshots are counted on for as long as the processor lives: there is no second series."""

Made = tuple[str, Position | None, Encoded]


def staged_rows(
    plan: LegPlan, snapshot: Snapshot, batches: Iterable[pa.RecordBatch]
) -> Iterator[SinkRow]:
    """A row for each input that something was made from; of state, one for each row."""
    hasher = DeliveryHasher(plan.uid.base)
    time = round(snapshot.batch_time * 1_000_000)
    results = _of_state if plan.is_stateful else _of_inputs
    made = sorted((row for batch in batches for row in _rows(batch)), key=_order)
    for position, outputs in results(made, snapshot.number):
        content = _staged(position, outputs, hasher, time)
        yield SinkRow((position,), content)


def _staged(position: Position, outputs: Outputs, hasher: DeliveryHasher, time: int) -> Content:
    digest = hasher.hash((position,))
    made = messages_of(outputs, digest, lambda n: hasher.hash(numbered((position,), n)))
    names = [name for name, _, _ in made]
    headers = tuple(zip(names, bodies_of(made).to_pylist(), strict=True))
    return Content(None, None, headers, None, time, digest)


def _of_inputs(made: list[Made], number: int) -> Iterator[tuple[Position, Outputs]]:
    found: dict[Position, dict[str, list[Encoded]]] = defaultdict(dict)
    for queue, position, body in made:
        assert position is not None
        found[position].setdefault(queue, []).append(body)
    for position, by_queue in found.items():
        yield position, Outputs(by_queue)


def _of_state(made: list[Made], number: int) -> Iterator[tuple[Position, Outputs]]:
    for ordinal, (queue, _, body) in enumerate(made):
        position = Position.of_snapshot(SNAPSHOTS_INCARNATION, number, ordinal)
        yield position, Outputs({queue: [body]})


def _rows(batch: pa.RecordBatch) -> Iterator[Made]:
    column = batch.column
    places = zip(
        column("_source").to_pylist(),
        column("_incarnation").to_pylist(),
        column("_partition").to_pylist(),
        column("_index").to_pylist(),
        strict=True,
    )
    bodies = map(
        Encoded,
        column("value").to_pylist(),
        column("key").to_pylist(),
        headers_of(column("headers")),
        column("topic").to_pylist(),
    )
    for queue, place, body in zip(column("_queue").to_pylist(), places, bodies, strict=True):
        yield queue, None if place[0] is None else Position(*place), body


def _order(row: Made) -> tuple[bytes, bytes]:
    body = row[2]
    return body.key or b"", body.value or b""
