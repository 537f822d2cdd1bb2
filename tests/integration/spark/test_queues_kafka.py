"""What only Kafka has: transactions, offsets with gaps, numbers as headers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.spark.filling import KafkaKit, produce, rows_of, small, values_of, whole
from windrow.errors import Unreachable
from windrow.graph.delivery_errors import SourceTrimmed
from windrow.journal.message.record import Record
from windrow.spark.places import Connections, Place
from windrow.spark.queues import kafka_clients, open_queue
from windrow.spark.queues.errors import NoSequence, ReadTimedOut
from windrow.spark.queues.kafka import KafkaQueue


@pytest.fixture
def kit(kafka: str) -> KafkaKit:
    kit = KafkaKit(kafka, None)
    kit.create()
    return kit


@pytest.fixture
def transactions(kit: KafkaKit) -> Iterator[Any]:
    producer = kit.producer(**{"transactional.id": kit.place.address})
    producer.init_transactions(20)
    yield producer
    producer.purge()
    producer.flush(20)


def transact(kit: KafkaKit, producer: Any, records: list[Record], commits: bool = True) -> None:
    producer.begin_transaction()
    for record in records:
        produce(producer, kit.place.address, record)
    producer.flush(20)
    producer.commit_transaction(20) if commits else producer.abort_transaction(20)


def numbered(count: int, begin: int = 0) -> list[Record]:
    return [
        Record(value=b"v%d" % n, headers=(("windrow-seq", b"%d" % n),))
        for n in range(begin, begin + count)
    ]


def test_span_with_gaps_holds_what_was_committed(kit: KafkaKit, transactions: Any) -> None:
    """The marks of transactions take offsets, and so does what was taken back."""
    transact(kit, transactions, small(3))
    transact(kit, transactions, small(4, 100), commits=False)
    transact(kit, transactions, small(2, 3))
    reader = open_queue(kit.place)
    (one,) = reader.available()
    assert one.end == 3 + 1 + 4 + 1 + 2 + 1
    rows = rows_of(reader, whole(one))
    assert [(row["_index"], row["value"]) for row in rows] == [
        (0, b"v0"),
        (1, b"v1"),
        (2, b"v2"),
        (9, b"v3"),
        (10, b"v4"),
    ]
    assert values_of(reader, whole(one).part(3, 9)) == [], "nothing but gaps"
    assert values_of(reader, whole(one).part(11, 12)) == [], "a mark at the very end"
    assert values_of(reader, whole(one).part(2, 10)) == [b"v2", b"v3"]


def test_what_is_not_committed_yet_is_not_there(kit: KafkaKit, transactions: Any) -> None:
    kit.fill(small(2))
    transactions.begin_transaction()
    produce(transactions, kit.place.address, Record(value=b"open"))
    transactions.flush(20)
    kit.fill(small(1, 2))
    reader = open_queue(kit.place)
    (one,) = reader.available()
    assert one.end == 2, "up to the first open transaction"
    impatient = KafkaQueue(kit.place, read_timeout=1.0)
    with pytest.raises(ReadTimedOut, match="gave nothing for 1 s at 2"):
        values_of(impatient, whole(one).part(0, 4))
    impatient.close()
    transactions.commit_transaction(20)
    assert values_of(reader, whole(one).part(0, 4)) == [b"v0", b"v1", b"open", b"v2"]


def test_headers_of_a_graph_become_fields_again(kit: KafkaKit) -> None:
    headers = (("a", b"1"), ("windrow-seq", b"7"), ("windrow-uuid", b"x"), ("windrow-topic", b"t"))
    kit.fill([Record(value=b"v", headers=headers), Record(value=b"w", headers=(("a", None),))])
    reader = open_queue(kit.place)
    (one,) = reader.available()
    first, second = rows_of(reader, whole(one))
    assert first["headers"] == [{"name": "a", "value": b"1"}]
    assert (first["topic"], second["topic"]) == ("t", kit.place.address)
    assert second["headers"] == [{"name": "a", "value": None}]


def test_two_spans_are_read_at_the_same_time(kit: KafkaKit) -> None:
    kit.fill(small(10))
    reader = open_queue(kit.place)
    (one,) = reader.available()
    left, right = reader.read(whole(one).part(0, 5)), reader.read(whole(one).part(5, 10))
    first, second = next(left), next(right)
    assert first.column("value").to_pylist() == [b"v%d" % n for n in range(5)]
    assert second.column("value").to_pylist() == [b"v%d" % n for n in range(5, 10)]
    assert (list(left), list(right)) == ([], [])
    reader.close()
    reader.close()


def test_brokers_that_do_not_answer_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_clients, "ANSWER_TIMEOUT", 0.5)
    connections = Connections(kafka={"bootstrap.servers": "127.0.0.1:1", "socket.timeout.ms": 200})
    place = Place("orders", "kafka", "orders", None, {}, connections)
    with pytest.raises(Unreachable, match=r"cannot reach Kafka at 127\.0\.0\.1:1"):
        KafkaQueue(place).available()


# -- by sequence -------------------------------------------------------------------------------


def test_numbers_have_no_gaps_where_offsets_have(kit: KafkaKit, transactions: Any) -> None:
    for begin in range(0, 30, 3):
        transact(kit, transactions, numbered(3, begin))
        transact(kit, transactions, numbered(2, begin), commits=False)
    reader = open_queue(kit.by_sequence())
    (one,) = reader.available()
    assert (one.first, one.end) == (0, 30)
    for start, end in [(0, 30), (29, 30), (7, 20), (0, 1)]:
        rows = rows_of(open_queue(kit.by_sequence()), whole(one).part(start, end))
        assert [(row["_index"], row["value"]) for row in rows] == [
            (n, b"v%d" % n) for n in range(start, end)
        ]


def test_number_far_from_its_offset_is_found(kit: KafkaKit, transactions: Any) -> None:
    transact(kit, transactions, numbered(25_000))
    for begin in range(25_000, 25_400, 4):
        transact(kit, transactions, numbered(4, begin))
    reader = open_queue(kit.by_sequence())
    (one,) = reader.available()
    assert one.end == 25_400
    span = whole(one).part(25_300, 25_310)
    assert values_of(reader, span) == [b"v%d" % n for n in range(25_300, 25_310)]


def test_join_of_messages_without_numbers_is_refused(kit: KafkaKit) -> None:
    kit.fill(small(2))
    with pytest.raises(NoSequence, match="has no header windrow-seq"):
        open_queue(kit.by_sequence()).available()


def test_numbers_that_are_gone_are_missed(kit: KafkaKit) -> None:
    kit.fill(numbered(20))
    reader = open_queue(kit.by_sequence())
    (before,) = reader.available()
    kit.trim()
    (after,) = reader.available()
    assert (after.first, after.end) == (5, 20)
    with pytest.raises(SourceTrimmed, match="begins at 5"):
        values_of(reader, whole(before))
