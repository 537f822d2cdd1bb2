"""A topic as a target: headers, markers, and who shuts out whom."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from secrets import token_bytes
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.integration.spark.target_stages import ROUTING, KafkaStage, row, texts
from windrow.graph.high_water import transactional_id
from windrow.graph.positions import Position
from windrow.graph.sink_rows import SinkRow
from windrow.graph.sink_task import TaskDone, WriteUnknown, Written
from windrow.spark.places import Place
from windrow.spark.stores import Content
from windrow.spark.targets.errors import RowRefused, TargetUnusable
from windrow.spark.targets.kafka import KafkaTarget
from windrow.spark.targets.kafka_markers import MARKER_TOPIC, MarkerReader, marks_partition


@pytest.fixture
def stage(kafka: str) -> Iterator[KafkaStage]:
    stage = KafkaStage(kafka)
    yield stage
    stage.close()


@pytest.fixture
def target(stage: KafkaStage) -> Iterator[KafkaTarget]:
    with stage.opened() as target:
        assert isinstance(target, KafkaTarget)
        yield target


def transaction(stage: KafkaStage, name: str) -> Any:
    """A producer in the middle of a transaction."""
    producer = Producer({"bootstrap.servers": stage.bootstrap, "transactional.id": name})
    producer.init_transactions(20)
    producer.begin_transaction()
    return producer


def test_record_has_number_and_identity_as_headers_and_nothing_of_an_earlier_topic(
    stage: KafkaStage, target: KafkaTarget
) -> None:
    old = (("windrow-seq", b"99"), ("note", b"n"), ("windrow-uuid", b"old"), ("none", None))
    content = Content(b'{"text": "a"}', b"k", old, "prices", 1_767_323_045_123_456, "ab" * 32)
    stage.run(target, [SinkRow((Position("orders", "first", 0, 0),), content)])
    stage.run(target, [row(index) for index in range(1, 4)])
    with stage.opened() as other:
        stage.run(other, [row(4)])
    seen = stage.seen(0)
    assert seen[0].headers == [
        ("note", b"n"),
        ("none", None),
        ("windrow-seq", b"0"),
        ("windrow-uuid", b"ab" * 16),
        ("windrow-topic", b"prices"),
    ]
    assert (seen[0].key, seen[0].timestamp) == ("k", 1_767_323_045_123)
    assert [dict(one.headers)["windrow-seq"] for one in seen] == [b"%d" % n for n in range(5)]


def test_writer_that_moved_to_another_worker_and_back_goes_on(stage: KafkaStage) -> None:
    """Tasks wander between workers: one that was shut out by its successor begins anew."""
    with stage.opened() as one, stage.opened() as other:
        for index in range(0, 6, 2):
            assert stage.run(one, [row(index)]).written == 1
            assert stage.run(other, [row(index + 1)]).written == 1
    assert stage.contents(0) == texts(range(6))


def test_write_of_a_writer_that_was_shut_out_by_its_equal_is_to_be_read_back(
    stage: KafkaStage, target: KafkaTarget
) -> None:
    held = target.read_high_water(stage.uid, 0)
    with stage.opened() as other:
        other.read_high_water(stage.uid, 0)
        ahead = held.over([row(0).positions], ROUTING)
        assert target.write([row(0)], held, ahead) == WriteUnknown()
        assert other.write([row(0)], held, ahead) == Written()
    assert stage.contents(0) == texts([0])


def test_transaction_of_a_dead_worker_is_taken_back_and_its_rows_written_again(
    stage: KafkaStage, target: KafkaTarget
) -> None:
    dead = transaction(stage, transactional_id(stage.uid, 0))
    dead.produce(stage.topic, b'{"text": "never"}', partition=0)
    dead.flush(20)
    assert stage.run(target, [row(0)]) == TaskDone(0, 1, 0)
    assert stage.contents(0) == texts([0])


def test_marker_behind_an_open_transaction_of_others_is_waited_for(
    stage: KafkaStage, target: KafkaTarget
) -> None:
    """A read that stopped at the last stable offset would take an older marker for the last."""
    stage.run(target, [row(0)])
    partition = marks_partition(stage.uid.digest, 0)
    other = transaction(stage, f"another-{stage.topic}")
    other.produce(MARKER_TOPIC, b"{}", b"another-writer", partition)
    other.flush(20)
    stage.run(target, [row(1)])
    found: list[Any] = []
    reader = MarkerReader({"bootstrap.servers": stage.bootstrap})
    name = transactional_id(stage.uid, 0)
    thread = threading.Thread(target=lambda: found.append(reader.read(name, partition)))
    thread.start()
    thread.join(1.0)
    assert not found
    other.commit_transaction(20)
    thread.join(20)
    reader.close()
    (marker,) = found
    assert marker["waters"]["marks"] == [["orders", "first", 0, 1, 1]]
    assert marker["seq"] == 2


@pytest.mark.parametrize(
    "code", [KafkaError.UNKNOWN_LEADER_EPOCH, KafkaError.NOT_LEADER_FOR_PARTITION]
)
def test_brokers_between_two_leaders_are_asked_again_for_the_end_of_the_markers(
    stage: KafkaStage, target: KafkaTarget, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A topic that was just made is known to the client a moment before it is to its leaders."""
    stage.run(target, [row(0)])
    reader = MarkerReader({"bootstrap.servers": stage.bootstrap})
    refusals: list[int] = [code]
    ask = AdminClient.list_offsets

    def list_offsets(self: AdminClient, wanted: dict[TopicPartition, Any], **options: Any) -> Any:
        if not refusals:
            return ask(self, wanted, **options)
        refused: Future[Any] = Future()
        refused.set_exception(KafkaException(KafkaError(refusals.pop())))
        return dict.fromkeys(wanted, refused)

    monkeypatch.setattr(AdminClient, "list_offsets", list_offsets)
    name, partition = transactional_id(stage.uid, 0), marks_partition(stage.uid.digest, 0)
    marker = reader.read(name, partition)
    reader.close()
    assert not refusals
    assert marker is not None
    assert marker["seq"] == 1


@pytest.mark.parametrize("size", [50_000, 2_000_000], ids=["for the topic", "for the client"])
def test_row_that_is_too_large_is_named_and_nothing_of_its_write_is_kept(
    kafka: str, size: int
) -> None:
    stage = KafkaStage(kafka, {"max.message.bytes": "20000"})
    large = Content(token_bytes(size), delivery_hash="ab" * 32)
    at = Position("orders", "first", 0, 1)
    with stage.opened() as target:
        with pytest.raises(RowRefused, match=r'made from "orders" partition 0 index 1: .*large'):
            stage.run(target, [row(0), SinkRow((at,), large), row(2)])
        assert stage.run(target, [row(0)]) == TaskDone(0, 1, 0)
    assert stage.contents(0) == texts([0])
    stage.close()


def test_marker_topic_that_forgets_is_refused(stage: KafkaStage) -> None:
    """Its own topic will do: records of it are deleted when they are old."""
    options = {"marker_topic": stage.topic}
    place = Place("p", "kafka", stage.topic, 2, options, stage.place.connections)
    with pytest.raises(TargetUnusable, match="has to be 'compact'"):
        KafkaTarget(place).read_high_water(stage.uid, 0)


def test_topic_that_does_not_exist_is_refused(stage: KafkaStage) -> None:
    place = Place("p", "kafka", "absent", None, {}, stage.place.connections)
    with pytest.raises(TargetUnusable, match="'absent': it does not exist"):
        KafkaTarget(place).targets()
    assert KafkaTarget(Place(**{**vars(stage.place), "partitions": None})).targets() == 2


def test_reading_what_was_delivered_shuts_nobody_out(
    stage: KafkaStage, target: KafkaTarget
) -> None:
    stage.run(target, [row(0)])
    with stage.opened() as other:
        assert other.read_delivered(stage.uid) is None
    held = target.read_high_water(stage.uid, 0)
    assert target.write([], held, held.owned_by(1)) == Written()
