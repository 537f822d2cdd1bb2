"""What is staged is what each destination takes: its own part, in order, each under its hash."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.integration.spark.test_chunks import TIME, encoded
from windrow.graph.planning import Split
from windrow.graph.positions import Position, Span, numbered
from windrow.graph.routing import RoutingPin
from windrow.graph.sink_rows import SinkRow
from windrow.graph.snapshot import DeliveryHasher, ProcessorUid
from windrow.graph.staging import Destination, Failure, Outputs, Staged
from windrow.journal.message.record import decode_records
from windrow.spark.chunks import rows_of, unpacked
from windrow.spark.columns import message_schema
from windrow.spark.query.encoding import Encoded
from windrow.spark.query.errors import StagedOtherwise
from windrow.spark.query.function import Result
from windrow.spark.query.hashing import SplitHasher
from windrow.spark.query.staged import FanOut, StagedRows
from windrow.spark.queues.frames import decode_block
from windrow.spark.stores import Content
from windrow.spark.targets.journal_records import encode_rows

UID = ProcessorUid("shop", "pair")
READ = Split((Span("left", "i", 0, 3, 50), Span("right", "j", 0, 40, 87)))
QUEUES = ("even", "odd")

results = st.one_of(
    st.builds(Failure, encoded),
    st.dictionaries(
        st.sampled_from(QUEUES), st.lists(encoded, min_size=1, max_size=3), max_size=2
    ).map(Outputs),
)


def staged_content(listed: Sequence[Result], keys: Sequence[bytes | None]) -> bytes:
    """The journal of a stage."""
    rows, hasher = StagedRows(UID, READ, TIME, 1000), SplitHasher(UID, READ)
    for nth, (key, result) in enumerate(zip(keys, listed, strict=True)):
        rows.add(0, nth, hasher.hash(nth), key, result)
    pieces = [piece for batch in rows.finish() for _, piece in unpacked(batch)]
    return encode_rows(rows_of(pieces).present(), "stage", 7)


def as_read(content: bytes) -> tuple[Split, pa.RecordBatch]:
    block = decode_block(content, 0)
    count = len(block)
    columns = [["_stage"] * count, ["k"] * count, [0] * count, block.seqs, *block.columns()]
    batch = pa.RecordBatch.from_arrays(
        [pa.array(c, f.type) for c, f in zip(columns[:4], message_schema(), strict=False)]
        + columns[4:],
        schema=message_schema(),
    )
    return Split((Span("_stage", "k", 0, 7, 7 + count),)), batch


def taken(destination: Destination, content: bytes, targets: int) -> dict[int, list[SinkRow]]:
    split, batch = as_read(content)
    route = RoutingPin(targets).route if targets > 1 else None
    fan_out = FanOut(destination, split, TIME, route)
    found: dict[int, list[SinkRow]] = {}
    for chunk in (*fan_out.take(batch), *fan_out.finish()):
        for target, piece in unpacked(chunk):
            found.setdefault(target, []).extend(piece.listed())
    return found


def expected(
    destination: Destination, listed: Sequence[Result], keys: Sequence[bytes | None], targets: int
) -> dict[int, list[SinkRow]]:
    """As the pure form says it, message by message."""
    hasher, routing = DeliveryHasher(UID), RoutingPin(targets)
    found: dict[int, list[SinkRow]] = {}
    nils: dict[int, SinkRow] = {}
    for nth, (key, result) in enumerate(zip(keys, listed, strict=True)):
        at = (Position("_stage", "k", 0, 7 + nth),)
        part = Staged((), result).part_for(destination)
        if not part:
            nils[routing.route(key, at[0])] = SinkRow(at, None, True)
        for ordinal, body in enumerate(part):
            places = numbered(at, ordinal)
            digest = hasher.hash(numbered(READ.positions(nth), ordinal))
            content = Content(body.value, body.key, body.headers, body.topic or None, TIME, digest)
            row = SinkRow(places, content)
            found.setdefault(routing.route(body.key, places[0]), []).append(row)
    for target, row in nils.items():
        found.setdefault(target, []).append(row)
    return found


@given(
    st.lists(st.tuples(st.none() | st.binary(max_size=4), results), min_size=1, max_size=8),
    st.sampled_from([1, 3]),
)
def test_each_destination_takes_its_part_of_what_was_staged(
    given_results: list[tuple[bytes | None, Result]], targets: int
) -> None:
    keys, listed = zip(*given_results, strict=True)
    content = staged_content(listed, keys)
    for destination in (*map(Destination, QUEUES), Destination("failed", "error")):
        assert taken(destination, content, targets) == expected(destination, listed, keys, targets)


def test_an_input_ends_as_output_or_as_error_and_never_as_both() -> None:
    content = staged_content(
        [Failure(Encoded(b"no")), Outputs({"even": [Encoded(b"2")]})], [None, None]
    )
    rows = {
        name: [row.positions[0].index for row in taken(to, content, 1)[0] if not row.is_nil]
        for name, to in (("out", Destination("even")), ("err", Destination("failed", "error")))
    }
    assert rows == {"out": [8], "err": [7]}


def test_a_staged_result_goes_where_the_key_of_its_input_does() -> None:
    content = staged_content([Outputs({"even": [Encoded(b"2", b"other")]})], [b"k"])
    (record,) = decode_records(content)
    assert record.key == b"k"


@pytest.mark.parametrize("role", ["output", "error"])
def test_a_queue_called_error_is_no_error_queue(role: str) -> None:
    content = staged_content([Outputs({"error": [Encoded(b"2")]})], [None])
    (row,) = taken(Destination("error", role), content, 1)[0]  # type: ignore[arg-type]
    assert row.is_nil == (role == "error")


def test_result_that_was_staged_in_another_form_is_refused_and_not_taken_for_nothing() -> None:
    listed = [Outputs({"even": [Encoded(b"1", None, (), None)]}), Outputs({})]
    split, batch = as_read(staged_content(listed, [b"k", b"k"]))
    place = batch.schema.get_field_index("value")
    values = pa.array([None, b'{"outputs": {}}'], batch.column(place).type)
    older = batch.set_column(place, batch.schema.field(place), values)
    fan_out = FanOut(Destination("even", "output"), split, TIME, None)
    with pytest.raises(StagedOtherwise, match=r'message 8 of the staging queue "_stage"'):
        list(fan_out.take(older))
