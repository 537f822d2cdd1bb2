"""By which names a row is known at its target."""

from __future__ import annotations

import pickle

import pytest

from windrow.errors import WindrowError
from windrow.graph.positions import Position
from windrow.graph.sink_rows import SinkRow
from windrow.spark.stores import Content
from windrow.spark.targets import errors
from windrow.spark.targets.kafka_markers import (
    MARKER_PARTITIONS,
    delivered_partition,
    marks_partition,
)
from windrow.spark.targets.kafka_records import headers_of
from windrow.spark.targets.rows import content_of, idempotency_key, position_text, row_uuid

HASH = "ab" * 32


def row(ordinal: int = 0) -> SinkRow:
    return SinkRow((Position("orders", "i", 2, 7, ordinal),), Content(b"", delivery_hash=HASH))


def test_names_of_one_input_are_the_same_on_every_attempt_and_tell_outputs_apart() -> None:
    assert row_uuid(HASH, 0) == bytes.fromhex("ab" * 16)
    assert len({row_uuid(HASH, ordinal) for ordinal in range(100)}) == 100
    assert row_uuid(HASH, 5) == row_uuid(HASH, 5)
    assert idempotency_key(row()) == HASH
    assert idempotency_key(row(3)) == f"{HASH}-3"


def test_position_is_told_for_people() -> None:
    assert position_text(row()) == '"orders" partition 2 index 7'
    assert position_text(row(1)) == '"orders" partition 2 index 7 (output 1)'


def test_value_that_is_no_content_is_refused() -> None:
    with pytest.raises(TypeError, match="a Content, not str"):
        content_of(SinkRow((Position("o", "i", 0, 0),), "text"))


def test_numbers_of_an_earlier_topic_do_not_stay_in_the_headers() -> None:
    content = Content(b"", headers=(("windrow-seq", b"9"), ("a", None)), delivery_hash=HASH)
    made = headers_of(SinkRow((Position("o", "i", 0, 0),), content), "topic", 3)
    assert made == [("a", None), ("windrow-seq", b"3"), ("windrow-uuid", b"ab" * 16)]


def test_markers_of_rows_and_of_deliveries_lie_apart() -> None:
    half = MARKER_PARTITIONS // 2
    targets = {marks_partition("digest", target) for target in range(half)}
    assert targets == set(range(half))
    assert half <= delivered_partition("digest") < MARKER_PARTITIONS


@pytest.mark.parametrize(
    "error",
    [
        errors.TargetUnusable("table", "t", "it is gone"),
        errors.RowRefused("table t", position_text(row()), "too large"),
        errors.WriteFailed("table t", "deadlock detected"),
        errors.NoTransaction(),
        errors.PositionsMissing(("_index",)),
        errors.ValueMissing(("_index", "id")),
        errors.PositionRepeated("orders", 0, 1, 0),
        errors.TargetOutOfRange(None, 2),
        errors.OverwriteRefused("windrow-kafka"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_survive_the_way_out_of_a_worker(error: WindrowError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert str(error)[-1] != "."
