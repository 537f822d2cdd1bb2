"""Memory as a target."""

from __future__ import annotations

from typing import Any

from windrow.outbox.marked import Marked
from windrow.relay.machine import Lane
from windrow.testing import MemoryTarget


def lane(number: int, **fields: Any) -> Lane:
    return Lane(Marked(number, "topic", f"key-{number}", b"value", None, None)._replace(**fields))


def test_records_are_kept_in_order_and_acknowledged_at_once() -> None:
    target = MemoryTarget()
    target.open()
    lanes = [lane(1), lane(2)]
    target.send(lanes)
    assert target.poll(0.0) == 1
    assert list(target.acknowledged) == lanes
    assert [record.id for record in target.records] == [1, 2]
    assert target.close(0.0) == 0


def test_what_no_target_could_take_is_refused() -> None:
    target = MemoryTarget()
    target.send([lane(1, header_keys=["a"], header_values=[])])
    ((failed, failure),) = target.failed
    assert (failed.head.id, failure.code, target.records) == (1, "malformed", [])


def test_shards_share_the_records_and_nothing_else() -> None:
    first = MemoryTarget()
    second = first.beside()
    first.send([lane(1)])
    second.send([lane(2)])
    assert [record.id for record in first.records] == [1, 2]
    assert [each.head.id for each in second.acknowledged] == [2]
