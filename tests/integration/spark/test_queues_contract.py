"""What every queue keeps, on journals as on Kafka: spans are exact, or refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

import pytest

from tests.integration.spark.filling import (
    NOW,
    STORED,
    JournalKit,
    KafkaKit,
    Kit,
    rows_of,
    small,
    values_of,
    whole,
)
from windrow.graph.delivery_errors import IncarnationChanged, SourceTrimmed
from windrow.graph.positions import Span
from windrow.journal.message.record import Record
from windrow.spark.columns import message_schema
from windrow.spark.queues import ensure_journals, ensure_topics, open_queue
from windrow.spark.queues.errors import PartitionsDiffer, QueueMissing

MakeKit = Callable[..., Kit]


@pytest.fixture(params=["journal", "kafka"])
def make(request: pytest.FixtureRequest) -> MakeKit:
    if request.param == "journal":
        broker = request.getfixturevalue("queue_broker")
        return partial(JournalKit, broker)
    bootstrap = request.getfixturevalue("kafka")
    return partial(KafkaKit, bootstrap)


@pytest.fixture
def kit(make: MakeKit) -> Kit:
    kit = make(None)
    kit.create()
    return kit


def test_empty_queue_has_one_partition_and_nothing_in_it(kit: Kit) -> None:
    (one,) = open_queue(kit.place).available()
    assert (one.source, one.partition, one.first, one.end) == ("orders", 0, 0, 0)
    assert one.incarnation


def test_what_is_there_is_not_made_again(kit: Kit) -> None:
    (before,) = open_queue(kit.place).available()
    assert ensure_journals([kit.place]) == ensure_topics([kit.place]) == ()
    (after,) = open_queue(kit.place).available()
    assert after.incarnation == before.incarnation


def test_every_field_comes_as_it_was_written(kit: Kit) -> None:
    """An empty value is not a tombstone, and a header may have no value."""
    records = [
        Record(key=b"k", value=b"v", topic=kit.place.address, time=NOW + 123_000),
        Record(key=None, value=None, topic=kit.place.address, time=NOW),
        Record(key=b"", value=b"", topic=kit.place.address, time=NOW),
        Record(
            value="ü".encode(),
            topic=kit.place.address,
            time=NOW,
            headers=(("a", b"1"), ("ü", None), ("a", b"")),
        ),
    ]
    kit.fill(records)
    reader = open_queue(kit.place)
    (one,) = reader.available()
    rows = rows_of(reader, whole(one))
    assert [row["_index"] for row in rows] == [0, 1, 2, 3]
    where = {(row["_source"], row["_incarnation"], row["_partition"]) for row in rows}
    assert where == {("orders", one.incarnation, 0)}
    assert [(row["key"], row["value"]) for row in rows] == [(r.key, r.value) for r in records]
    assert [[(h["name"], h["value"]) for h in row["headers"]] for row in rows] == [
        list(record.headers) for record in records
    ]
    assert {row["topic"] for row in rows} == {kit.place.address}
    assert rows[0]["time"] == datetime.fromtimestamp(NOW // 1_000_000, UTC).replace(
        microsecond=123_000
    )
    assert one.mean_bytes > 0


def test_batches_have_the_columns_of_a_message(kit: Kit) -> None:
    kit.fill(small(3))
    reader = open_queue(kit.place)
    (one,) = reader.available()
    for batch in reader.read(whole(one)):
        assert batch.schema.equals(message_schema())
        batch.validate(full=True)


def test_any_span_holds_exactly_its_messages(kit: Kit) -> None:
    for begin in range(0, 120, 40):
        kit.fill(small(40, begin))
    seasoned = open_queue(kit.place)
    (one,) = seasoned.available()
    assert (one.first, one.end) == (0, 120)
    for start, end in [(0, 120), (0, 1), (119, 120), (39, 41), (40, 80), (1, 119), (7, 7)]:
        expected = [b"v%d" % n for n in range(start, end)]
        span = whole(one).part(start, end)
        assert values_of(seasoned, span) == expected, (start, end)
        assert values_of(open_queue(kit.place), span) == expected, "by one who knows nothing yet"


def test_messages_that_come_later_are_found(kit: Kit) -> None:
    reader, other = open_queue(kit.place), open_queue(kit.place)
    for round in range(4):
        kit.fill(small(10, 10 * round))
        (one,) = reader.available()
        assert one.end == 10 * round + 10
        span = whole(one).part(10 * round, 10 * round + 10)
        assert values_of(other, span) == [b"v%d" % n for n in range(span.start, span.end)]


def test_partitions_have_indices_of_their_own(make: MakeKit) -> None:
    kit = make(3)
    kit.create()
    for partition, count in ((0, 4), (2, 7)):
        kit.fill(small(count, 100 * partition), partition)
    for place in (kit.place, replace(kit.place, partitions=None)):
        reader = open_queue(place)
        found = reader.available()
        assert [(one.partition, one.first, one.end) for one in found] == [
            (0, 0, 4),
            (1, 0, 0),
            (2, 0, 7),
        ]
        assert values_of(reader, whole(found[2])) == [b"v%d" % n for n in range(200, 207)]
    with pytest.raises(PartitionsDiffer, match="declared with 2 partitions and has 3"):
        open_queue(replace(kit.place, partitions=2)).available()


def test_large_messages_come_whole_and_between_small_ones(kit: Kit) -> None:
    large = [Record(value=bytes([n]) * 900_000, time=1) for n in range(6)]
    kit.fill(small(3))
    kit.fill(large)
    kit.fill(small(3, 3))
    reader = open_queue(kit.place)
    (one,) = reader.available()
    values = values_of(reader, whole(one))
    assert values == [r.value for r in [*small(3), *large, *small(3, 3)]]
    assert values_of(open_queue(kit.place), whole(one).part(7, 10)) == values[7:10]


def test_queue_made_again_is_another_one(kit: Kit) -> None:
    """Its indices mean other messages: reading on would pass them off as those of before."""
    kit.fill(small(5))
    reader = open_queue(kit.place)
    (old,) = reader.available()
    assert values_of(reader, whole(old).part(0, 2)) == [b"v0", b"v1"]
    kit.delete()
    kit.create()
    kit.fill(small(9, 50))
    with pytest.raises(IncarnationChanged, match="made again"):
        values_of(reader, whole(old).part(2, 5))
    (new,) = reader.available()
    assert new.incarnation != old.incarnation
    assert values_of(reader, whole(new)) == [b"v%d" % n for n in range(50, 59)]


def test_queue_that_is_replaced_while_it_is_read_is_not_taken_for_the_old_one(kit: Kit) -> None:
    """All batches may have been read by then; the task must fail all the same."""
    kit.fill(small(5))
    reader = open_queue(kit.place)
    (old,) = reader.available()
    batches = reader.read(whole(old))
    assert next(batches).num_rows == 5
    kit.delete()
    kit.create()
    with pytest.raises(IncarnationChanged):
        next(batches)


def test_messages_that_are_gone_are_missed(make: MakeKit) -> None:
    kit = make(None, **STORED)
    kit.create()
    for begin in range(0, 40, 10):
        kit.fill(Record(value=b"v%d" % n + bytes(600), time=NOW) for n in range(begin, begin + 10))
    seasoned = open_queue(kit.place)
    (before,) = seasoned.available()
    assert len(values_of(seasoned, whole(before))) == 40
    kit.trim()
    for reader in (seasoned, open_queue(kit.place)):
        with pytest.raises(SourceTrimmed) as refused:
            values_of(reader, whole(before))
        assert refused.value.wanted == 0
        (now,) = reader.available()
        assert 0 < now.first < now.end == 40
        assert refused.value.first == now.first
        assert now.incarnation == before.incarnation
        kept = values_of(reader, whole(now))
        assert kept == [b"v%d" % n + bytes(600) for n in range(now.first, 40)]


def test_missing_queue_is_named(make: MakeKit) -> None:
    kit = make(2)
    with pytest.raises(QueueMissing, match=r'queue "orders": .* does not exist; create it: '):
        open_queue(kit.place).available()
    with pytest.raises(QueueMissing):
        values_of(open_queue(kit.place), Span("orders", "x", 0, 0, 1))
