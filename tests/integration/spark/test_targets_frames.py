"""Any frame that says where its rows come from, as rows of a sink."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from windrow.graph.positions import Position
from windrow.graph.routing import RoutingPin
from windrow.graph.sink_rows import SinkRow
from windrow.graph.snapshot import ProcessorUid, delivery_hash
from windrow.spark.stores import Content
from windrow.spark.targets.errors import (
    PositionRepeated,
    PositionsMissing,
    TargetOutOfRange,
    ValueMissing,
)
from windrow.spark.targets.frames import GIVEN, FrameForm

UID = ProcessorUid("@standalone", "pricing", "journal/prices")
POSITION = {"_source": "orders", "_incarnation": "first", "_partition": 0}


def batch(*rows: dict[str, Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{**POSITION, **row} for row in rows])


def read(
    *batches: pa.RecordBatch, targets: int = 1, makes_values: bool = False
) -> dict[int, list[SinkRow]]:
    form = FrameForm.of(UID, batches[0].schema.names, targets, makes_values)
    return form.by_target(batches)


def contents(found: dict[int, list[SinkRow]]) -> list[Content]:
    values = [row.value for rows in found.values() for row in rows]
    assert all(isinstance(value, Content) for value in values)
    return values  # type: ignore[return-value]


def test_row_holds_what_its_columns_say() -> None:
    time = datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)
    headers = [{"key": "a", "value": b"1"}, {"key": "b", "value": None}]
    one = {"key": "k", "value": "{}", "headers": headers, "topic": "t", "time": time}
    (row,) = read(batch({"_index": 7, **one}))[0]
    at = Position("orders", "first", 0, 7)
    stamp = int(time.timestamp()) * 1_000_000 + 6
    kept = (("a", b"1"), ("b", None))
    digest = delivery_hash(UID, [at])
    assert row == SinkRow((at,), Content(b"{}", b"k", kept, "t", stamp, digest))


def test_columns_that_are_absent_or_empty_say_nothing() -> None:
    bare = batch({"_index": 0, "value": b"x"})
    empty = batch({"_index": 1, "value": None, "key": None, "headers": None, "time": None})
    assert [(c.value, c.key, c.headers, c.time) for c in contents(read(bare))] == [
        (b"x", None, (), 0)
    ]
    empty = empty.set_column(
        empty.schema.get_field_index("time"), "time", pa.array([None], pa.timestamp("us", tz="UTC"))
    )
    assert [(c.value, c.key, c.headers, c.time) for c in contents(read(empty))] == [
        (None, None, (), 0)
    ]


def test_value_is_made_of_the_other_columns_where_that_is_wanted() -> None:
    row = {"_index": 0, "id": 1, "day": date(2026, 1, 2), "sum": Decimal("1.50"), "raw": b"\x01"}
    (content,) = contents(read(batch(row), makes_values=True))
    expected = b'{"id": 1, "day": "2026-01-02", "sum": "1.50", "raw": "\\\\x01"}'
    assert content.value == expected


def test_rows_go_by_their_key_or_where_they_say() -> None:
    rows = [{"_index": n, "value": b"", "key": b"k%d" % n} for n in range(20)]
    routed = read(batch(*rows), targets=3)
    pin = RoutingPin(3)
    for target, found in routed.items():
        assert all(
            pin.route(b"k%d" % r.positions[0].index, r.positions[0]) == target for r in found
        )
    assert sorted(routed) == [0, 1, 2]
    said = batch(*({**row, "_target": n % 2} for n, row in enumerate(rows)))
    assert [len(found) for _, found in sorted(read(said, targets=2).items())] == [10, 10]
    assert FrameForm.of(UID, said.schema.names, 2, False).routing == RoutingPin(2, GIVEN)
    with pytest.raises(TargetOutOfRange, match="_target is 1, and there are 1"):
        read(said, targets=1)


def test_hash_that_is_given_stays_and_outputs_of_one_input_share_it() -> None:
    given = batch({"_index": 0, "value": b"", "_hash": "ab" * 32})
    assert [c.delivery_hash for c in contents(read(given))] == ["ab" * 32]
    many = batch(*({"_index": 0, "value": b"", "_ordinal": n} for n in range(3)))
    assert len({c.delivery_hash for c in contents(read(many))}) == 1


def test_frame_that_cannot_be_known_again_is_refused() -> None:
    form = ("_source", "_partition", "value")
    with pytest.raises(PositionsMissing, match="a row has no _incarnation, _index"):
        FrameForm.of(UID, form, 1, False)
    with pytest.raises(ValueMissing, match=r'columns _source, .* and no "value"'):
        read(batch({"_index": 0, "id": 1}))
    with pytest.raises(PositionsMissing):
        read(batch({"_index": 0, "value": b""}, {"_index": None, "value": b""}))
    once, again = batch({"_index": 4, "value": b"a"}), batch({"_index": 4, "value": b"b"})
    with pytest.raises(PositionRepeated, match="index 4 as output 0"):
        read(once, again)
