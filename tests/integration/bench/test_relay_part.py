"""The relay's figures, taken small: what is measured is also seen to have worked."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import psycopg
import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from windrow.bench.errors import NotDelivered
from windrow.bench.relay.drains import bare_sql, drain
from windrow.bench.relay.hard_times import stop, succession, worst_mark
from windrow.bench.relay.live import delays, idle
from windrow.bench.relay.stage import Stage, Watcher, stage
from windrow.embedded.process import Child


@pytest.fixture(scope="module")
def on() -> Iterator[Stage]:
    with stage() as servers:
        yield servers


@pytest.mark.parametrize("mode", ["barrier", "transactional"])
def test_a_drain_is_timed_charged_and_checked_at_a_consumer(on: Stage, mode: str) -> None:
    measured = drain(on, 2_000, 100, {"relay.mode": mode})
    assert measured.rate > 0
    assert measured.relay_cpu > 0
    assert measured.postgres_cpu > 0
    assert measured.rows_per_purge > 1
    assert on.is_empty()


def test_a_repeat_is_counted_and_a_step_back_is_no_figure(on: Stage) -> None:
    assert on.check_arrival(_topic_of(on, [1, 2, 2, 3]), 3) == 1
    with pytest.raises(NotDelivered, match="goes back from 2 to 1"):
        on.check_arrival(_topic_of(on, [1, 2, 1, 3]), 3)
    with pytest.raises(NotDelivered, match="holds 2 records of 3"):
        on.check_arrival(_topic_of(on, [1, 3, 3]), 3)


def _topic_of(on: Stage, numbers: list[int]) -> str:
    """A topic whose one key came in that order."""
    topic = on.new_topic()
    producer = Producer({"bootstrap.servers": on.kafka.bootstrap})
    for number in numbers:
        producer.produce(topic, key="key", value=f"{number}xx", partition=0)
    assert producer.flush(30) == 0
    return topic


def test_a_broker_that_stands_still_brings_repeats_and_the_relay_says_why(
    on: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    """Longer than a record may be on its way: whether it arrived is not known, so it goes again."""
    counted = on.repeats
    still = threading.Thread(target=_stand_still_in_a_drain, args=(on, 30_000, 2.5))
    still.start()
    drain(on, 30_000, 100, {"relay.mode": "barrier"})
    still.join()
    assert on.repeats > counted
    assert "_MSG_TIMED_OUT" in caplog.text


def _stand_still_in_a_drain(on: Stage, rows: int, seconds: float) -> None:
    with psycopg.connect(on.postgres.dsn(), autocommit=True) as connection:

        def waiting() -> int:
            (count,) = connection.execute("SELECT count(*) FROM outbox").fetchone() or (0,)
            return int(count)

        on.wait(lambda: waiting() == rows, "a backlog", 60.0)
        on.wait(lambda: waiting() < rows * 3 // 4, "the drain is under way", 60.0)
    on.kafka.pause()
    time.sleep(seconds)  # the fault itself
    on.kafka.resume()


def test_a_client_that_is_refused_is_not_asked_again(on: Stage) -> None:
    """One that outlived a pause of the broker was refused for five minutes, all being there."""
    topic = _topic_of(on, [1, 2, 3])
    clients = [_Refused(), on.new_consumer()]
    watcher = Watcher(lambda: clients.pop(0), topic)
    assert [watcher.written(), watcher.written()] == [0, 3]
    watcher.close()


class _Refused:
    def get_watermark_offsets(self, partition: TopicPartition, timeout: float) -> tuple[int, int]:
        raise KafkaException(KafkaError(KafkaError.NOT_LEADER_FOR_PARTITION))

    def close(self) -> None:
        pass


def test_the_same_statements_alone_empty_the_outbox_too(on: Stage) -> None:
    bare = bare_sql(on, 5_000, 100)
    assert bare.rate > 0
    assert bare.postgres_cpu > 0
    assert on.is_empty()


def test_delays_are_those_of_records_that_arrived(on: Stage) -> None:
    p50, p99 = delays(on, 100, 2.0, {})
    assert 0 < p50 <= p99


def test_an_idle_relay_still_renews_its_right_to_lead(on: Stage) -> None:
    statements, cpu = idle(on, 2.0, {})
    assert 0 < statements < 20
    assert 0 <= cpu < 100


def test_a_stop_shows_as_a_silence_and_nothing_comes_twice(on: Stage) -> None:
    seen = succession(on, 100, 4.0, {}, stop)
    assert seen.silence > 0
    assert seen.repeats == 0


def test_a_kill_shows_as_the_silence_until_the_lease_has_run_out(on: Stage) -> None:
    settings = {"relay.mode": "transactional", "relay.election.lease_ttl": "3s"}
    seen = succession(on, 100, 8.0, settings, Child.kill)
    assert seen.silence > 1_000  # the lease was renewed at most two fifths of it ago
    assert seen.repeats == 0


def test_a_leader_that_kafka_elected_is_succeeded_too(on: Stage) -> None:
    settings = {"relay.election.kind": "neli", "relay.election.heartbeat_timeout": "1s"}
    seen = succession(on, 100, 8.0, {**settings, "relay.delivery_timeout": "500ms"}, Child.kill)
    assert seen.silence > 1_000  # a third of the session, after which it fences itself


def test_the_longest_mark_is_found_among_the_statements(on: Stage) -> None:
    assert 0 < worst_mark(on, 5_000, 100, {"relay.mode": "barrier"}) < 60
