"""By which of its two producers a record goes, against a real broker or none."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.fixtures.relaying import consume, wait_for
from windrow.embedded.ports import free_port
from windrow.outbox.marked import Marked
from windrow.relay.machine import Lane
from windrow.relay.targets.kafka import MANY, KafkaTarget

QUICK_END = {"delivery.timeout.ms": 300, "log_level": 0}
ALONE = 3


class Counted:
    """A producer, and how often it was given each key."""

    def __init__(self, producer: Any) -> None:
        self._producer = producer
        self.keys: Counter[str] = Counter()
        self.delay = 0.0

    def produce(self, topic: str, value: bytes, key: str, *more: Any) -> None:
        self.keys[key] += 1
        time.sleep(self.delay)  # before the first: as on a busy machine
        self.delay = 0.0
        self._producer.produce(topic, value, key, *more)

    def __len__(self) -> int:
        return len(self._producer)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._producer, name)


@contextmanager
def counted(config: dict[str, Any]) -> Iterator[tuple[KafkaTarget, Counted, Counted]]:
    """A target whose two producers are counted, the eager one first."""
    target = KafkaTarget(config)
    target.open()
    eager, gathering = Counted(target._eager), Counted(target._gathering)
    target._eager, target._gathering = eager, gathering
    yield target, eager, gathering
    target.close(10.0)


def lanes(topic: str, count: int) -> list[Lane]:
    return [Lane(Marked(n, topic, f"key-{n}", b"%d" % n, None, None)) for n in range(count)]


def poll_until(target: KafkaTarget, settled: int, *, timeout: float = 0.1) -> None:
    def is_settled() -> bool:
        target.poll(timeout)
        return len(target.acknowledged) + len(target.failed) >= settled

    wait_for(is_settled, f"{settled} reports")


def test_many_records_at_once_are_gathered_and_few_are_not(kafka: str, topic: str) -> None:
    with counted({"bootstrap.servers": kafka}) as (target, eager, gathering):
        target.send(lanes(topic, MANY))
        poll_until(target, MANY)
        target.send(lanes(topic, ALONE))
        poll_until(target, MANY + ALONE)
    assert eager.keys == {"key-0": 1, "key-1": 1, "key-2": 1, f"key-{MANY - 1}": 1}
    assert gathering.keys == {f"key-{n}": 1 for n in range(MANY - 1)}
    expected = Counter(str(n) for n in [*range(MANY), *range(ALONE)])
    assert Counter(seen.value for seen in consume(kafka, topic)) == expected


def test_whoever_waits_for_reports_hears_of_many_records_that_another_sends(
    kafka: str, topic: str
) -> None:
    """He waits at one producer when they are given to the other; the naive one waits to the end.

    So would one that has the eager producer send first: its report may come before the others are
    handed over.
    """
    patience = 10.0
    with counted({"bootstrap.servers": kafka}) as (target, _, gathering):
        gathering.delay = 1.0
        target.send(lanes(topic, 1))
        poll_until(target, 1)
        waiting = threading.Thread(
            target=poll_until, args=(target, 1 + MANY), kwargs={"timeout": patience}
        )
        waiting.start()
        began = time.monotonic()
        target.send(lanes(topic, MANY))
        waiting.join()
        assert time.monotonic() - began < patience
    assert not target.failed


@pytest.mark.parametrize("alone", [True, False])
def test_what_failed_goes_again_by_the_same_producer(alone: bool, topic: str) -> None:
    """Its first copy may be under way yet, and brokers refuse it to nobody but its own producer."""
    nobody = {"bootstrap.servers": f"127.0.0.1:{free_port()}", **QUICK_END}
    with counted(nobody) as (target, eager, gathering):
        failing = lanes(topic, MANY)
        target.send(failing)
        poll_until(target, MANY)
        assert len(target.failed) == MANY
        if alone:
            for lane in failing:
                target.send([lane])
        else:
            target.send(failing)
        poll_until(target, 2 * MANY)
    assert eager.keys == {f"key-{MANY - 1}": 2}
    assert gathering.keys == {f"key-{n}": 2 for n in range(MANY - 1)}


@pytest.mark.parametrize("name", ["linger.ms", "queue.buffering.max.ms"])
def test_who_says_how_long_records_linger_has_one_producer(name: str, topic: str) -> None:
    target = KafkaTarget({"bootstrap.servers": "127.0.0.1:1", "log_level": 0, name: 3})
    target.open()
    assert target._gathering is target._eager
    assert target.close(0.0) == 0
