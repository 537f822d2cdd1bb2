"""Transactional mode against real PostgreSQL and Kafka: exactly once for read_committed readers."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any
from uuid import uuid4

import pytest

from tests.fixtures.relaying import OutboxDatabase, RelayKit, consume, wait_for
from tests.integration.relay.test_barrier import by_key, expected, spread
from windrow.embedded.ports import free_port
from windrow.outbox.errors import BatchMismatch, Fenced
from windrow.outbox.marked import Marked
from windrow.outbox.stores.postgres_batches import PostgresBatches
from windrow.relay.batch_machine import BatchName, Committed, CommitUnknown, ReadBack
from windrow.relay.errors import LeaderFencedByTarget
from windrow.relay.events import LaneHeld
from windrow.relay.targets import kafka_fence
from windrow.relay.targets.kafka_transactions import KafkaTransactions


@pytest.fixture
def batches(outbox: OutboxDatabase) -> Iterator[PostgresBatches]:
    with PostgresBatches(outbox.dsn, outbox.table) as store:
        store.raise_epoch("test")
        yield store


def transactions(kafka: str, identity: str) -> KafkaTransactions:
    target = KafkaTransactions(
        {"bootstrap.servers": kafka}, transactional_id=identity, state_topic=f"state-{identity}"
    )
    target.open()
    return target


def test_every_record_arrives_exactly_once_in_the_order_of_its_key(
    outbox: OutboxDatabase, kafka: str, topic: str, relay_kit: RelayKit
) -> None:
    outbox.write(topic, spread(20_000, keys=50))
    relay_kit.start(mode="transactional")
    wait_for(lambda: outbox.count() == 0, "the outbox is empty")
    assert by_key(consume(kafka, topic)) == expected(20_000, keys=50)


def test_a_batch_committed_by_a_dead_leader_is_purged_and_not_sent_again(
    outbox: OutboxDatabase, kafka: str, topic: str, relay_kit: RelayKit, batches: PostgresBatches
) -> None:
    """The leader died between Kafka's commit and the purge."""
    outbox.write(topic, spread(100, keys=5))
    target = transactions(kafka, relay_kit.identity)
    assert target.fence() is None
    batch = uuid4()
    rows = batches.purge_and_mark(None, [], batch, limit=60)
    assert target.publish(BatchName(batch, len(rows)), rows) == Committed()
    relay_kit.start(mode="transactional")
    wait_for(lambda: outbox.count() == 0, "the outbox is empty")
    assert by_key(consume(kafka, topic)) == expected(100, keys=5)


def test_a_batch_that_was_never_committed_is_sent_under_a_new_name(
    outbox: OutboxDatabase, kafka: str, topic: str, relay_kit: RelayKit, batches: PostgresBatches
) -> None:
    """The leader died with its transaction open: fenced, it is aborted."""
    outbox.write(topic, spread(100, keys=5))
    target = transactions(kafka, relay_kit.identity)
    assert target.fence() is None
    rows = batches.purge_and_mark(None, [], uuid4(), limit=60)
    target._producer.begin_transaction()
    target._produce(target._producer, rows, [])
    target._producer.flush(10)
    relay_kit.start(mode="transactional")
    wait_for(lambda: outbox.count() == 0, "the outbox is empty")
    assert by_key(consume(kafka, topic)) == expected(100, keys=5)


def test_whoever_takes_over_asks_again_sooner_than_kafkas_client_would(
    kafka: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the brokers undo what a killed leader left open they refuse its successor."""
    taken = {kafka_fence.ASK_INTERVAL: math.inf, 20.0: math.inf}  # ours, and one patient call
    for _ in range(3):
        for interval in taken:
            monkeypatch.setattr(kafka_fence, "ASK_INTERVAL", interval)
            killed, successor = (transactions(kafka, topic) for _ in range(2))
            assert killed.fence() is None
            killed._producer.begin_transaction()
            killed._producer.produce(topic, b"never committed")
            killed._producer.flush(10)
            began = time.monotonic()
            assert successor.fence() is None
            taken[interval] = min(taken[interval], time.monotonic() - began)
    ours, patient = taken.values()
    assert ours < 0.8 * patient


def test_a_right_to_write_that_is_never_given_is_asked_for_once(kafka: str, topic: str) -> None:
    target = KafkaTransactions(
        {"bootstrap.servers": kafka, "transaction.timeout.ms": 2**31 - 1},
        transactional_id=topic,
        state_topic="state",
        operation_timeout=60.0,
    )
    began = time.monotonic()
    outcome = target.fence()
    assert time.monotonic() - began < 60.0
    assert isinstance(outcome, CommitUnknown)
    assert outcome.failure.code == "INVALID_TRANSACTION_TIMEOUT"


def test_brokers_that_are_not_there_are_asked_until_the_time_is_up() -> None:
    target = KafkaTransactions(
        {"bootstrap.servers": f"127.0.0.1:{free_port()}", "log_level": 0},
        transactional_id="nobody",
        state_topic="state",
        operation_timeout=0.3,
    )
    began = time.monotonic()
    outcome = target.fence()
    assert time.monotonic() - began >= 0.3
    assert isinstance(outcome, CommitUnknown)
    assert outcome.failure.code == "_TIMED_OUT"


def test_batches_of_large_rows_are_bounded_by_their_bytes(
    outbox: OutboxDatabase,
    kafka: str,
    topic: str,
    relay_kit: RelayKit,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first one by a number, as long as nobody knows how large they are."""
    value = "x" * 10_000
    outbox.write(topic, [(f"key-{n % 5}", f"{n:05}{value}") for n in range(400)])
    sizes: list[int] = []
    mark = PostgresBatches.purge_and_mark

    def noted(store: PostgresBatches, *arguments: Any) -> Sequence[Marked]:
        rows = mark(store, *arguments)
        sizes.append(len(rows))
        return rows

    monkeypatch.setattr(PostgresBatches, "purge_and_mark", noted)
    relay_kit.start(mode="transactional", batch_bytes=300_000)
    wait_for(lambda: outbox.count() == 0, "the outbox is empty")
    assert [size for size in sizes if size] == [36, *[29] * 12, 16]
    seen = by_key(consume(kafka, topic))
    assert {key: [int((one or "")[:5]) for one in values] for key, values in seen.items()} == {
        f"key-{n}": [*range(n, 400, 5)] for n in range(5)
    }


def test_a_zombie_is_stopped_at_both_ends(
    outbox: OutboxDatabase, kafka: str, topic: str, relay_kit: RelayKit, batches: PostgresBatches
) -> None:
    outbox.write(topic, spread(10, keys=2))
    zombie = transactions(kafka, relay_kit.identity)
    assert zombie.fence() is None
    batch = uuid4()
    rows = batches.purge_and_mark(None, [], batch, limit=60)
    relay_kit.start(mode="transactional")
    wait_for(lambda: outbox.count() == 0, "the outbox is empty")
    with pytest.raises(LeaderFencedByTarget):
        zombie.publish(BatchName(batch, len(rows)), rows)
    outbox.write(topic, [("key-0", "later")])
    with pytest.raises(Fenced):
        batches.purge_and_mark(None, [], uuid4(), limit=60)
    wait_for(lambda: outbox.count() == 0, "the outbox is empty")
    assert len(consume(kafka, topic)) == 11


def test_an_outbox_that_stays_empty_costs_one_statement_a_look(
    outbox: OutboxDatabase, batches: PostgresBatches, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction would be four, and an idle relay looks for days."""
    look = partial(batches.purge_and_mark, None, [], limit=60)
    assert not look(uuid4())
    with monkeypatch.context() as patch:
        patch.setattr(batches._reading, "transaction", None)
        assert not look(uuid4())
        outbox.write("topic", [("key", "1")])
        with pytest.raises(TypeError):  # there is something to name, in a transaction
            look(uuid4())
    assert len(look(uuid4())) == 1


def test_a_leader_that_looks_and_finds_nothing_finds_that_it_was_replaced(
    batches: PostgresBatches, outbox: OutboxDatabase
) -> None:
    assert not batches.purge_and_mark(None, [], uuid4(), limit=60)
    with PostgresBatches(outbox.dsn, outbox.table) as later:
        later.raise_epoch("later")
    with pytest.raises(Fenced):
        batches.purge_and_mark(None, [], uuid4(), limit=60)


def test_reading_back_goes_past_aborted_transactions_to_the_very_end(
    kafka: str, topic: str, relay_kit: RelayKit
) -> None:
    target = transactions(kafka, relay_kit.identity)
    assert target.fence() is None
    wait_for(lambda: target.read_back() == ReadBack(None), "the state topic is served")
    last = BatchName(uuid4(), 0)
    assert target.publish(last, []) == Committed()
    for _ in range(40):  # more than the first look goes back over
        target._producer.begin_transaction()
        target._producer.produce(target.state_topic, b"{}", b"x", 0)
        target._producer.flush(10)
        target._producer.abort_transaction(10)
    assert transactions(kafka, relay_kit.identity).read_back() == ReadBack(last)


def test_a_purge_that_would_hit_part_of_a_batch_halts_the_relay(
    outbox: OutboxDatabase, kafka: str, topic: str, relay_kit: RelayKit, batches: PostgresBatches
) -> None:
    """Somebody has touched rows of the batch in doubt: to go on would lose or double."""
    outbox.write(topic, spread(10, keys=2))
    target = transactions(kafka, relay_kit.identity)
    target.fence()
    batch = uuid4()
    rows = batches.purge_and_mark(None, [], batch, limit=60)
    assert target.publish(BatchName(batch, len(rows)), rows) == Committed()
    with outbox.connect() as connection:
        connection.execute("UPDATE outbox SET leader_id = NULL WHERE id = 3")
    relay = relay_kit.start(mode="transactional")
    with pytest.raises(BatchMismatch, match=r"with 10 rows, but the outbox holds 9"):
        relay.wait(20.0)
    relay_kit.relays.clear()
    assert outbox.count() == 10
    assert len(consume(kafka, topic)) == 10


def test_one_refused_record_is_isolated_and_the_rest_goes_on(
    outbox: OutboxDatabase, kafka: str, topic: str, relay_kit: RelayKit
) -> None:
    outbox.write(topic, [*spread(50, keys=5), ("big", "x" * 200_000), ("big", "behind")])
    outbox.write(topic, spread(50, keys=5))
    relay_kit.start(mode="transactional", producer={"message.max.bytes": 100_000})
    wait_for(lambda: outbox.count() == 2, "all but the held key is sent")
    values = by_key(consume(kafka, topic))
    assert values == {key: records * 2 for key, records in expected(50, keys=5).items()}
    held = [event for event in relay_kit.events if isinstance(event, LaneHeld)]
    assert [event.failure.code for event in held] == ["MSG_SIZE_TOO_LARGE"]
