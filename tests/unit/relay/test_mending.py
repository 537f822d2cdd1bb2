"""A target's client that breaks is made anew, and what the old one held has to expire first."""

from __future__ import annotations

import time

import pytest

from tests.unit.relay.scripted import QUICK, ScriptedTarget, Stage, wait_for
from windrow.relay.charge import Charge
from windrow.relay.errors import TargetBroken
from windrow.relay.events import LeaderAcquired
from windrow.relay.machine import Lane, Limits
from windrow.relay.road import BarrierRoad
from windrow.relay.service import Relay

DELIVERY = 0.4
LONG_DELIVERY = 5.0
"""Longer than any busy machine takes to send again at once."""


class BreakingTarget(ScriptedTarget):
    """Breaks with what it was sent; what it held arrives a delivery time-out later, at the most."""

    def __init__(self) -> None:
        super().__init__()
        self.sent_at: list[tuple[float, int]] = []
        self.is_broken = False

    def open(self) -> None:
        super().open()
        self.is_broken = False

    def send(self, lanes: list[Lane]) -> None:
        self.sent_at += [(time.monotonic(), lane.head.id) for lane in lanes]
        super().send(lanes)

    def poll(self, timeout: float) -> int:
        if self.is_broken:
            raise TargetBroken("Kafka", "simulated")
        return super().poll(timeout)


def broken_once(
    stage: Stage, target: BreakingTarget, delivery_timeout: float
) -> list[tuple[float, int]]:
    """Both times a record was sent, before its client broke and after."""
    (row,) = stage.store.add("key")
    stage.bus.subscribe(stage.events.append)
    road = BarrierRoad(
        stage.store,  # type: ignore[arg-type]
        target,  # type: ignore[arg-type]
        stage.bus,
        limits=Limits(records=1_000),
        policy_of=lambda topic: QUICK,
        delivery_timeout=delivery_timeout,
    )
    relay = Relay.of(lambda shard: road, stage.election, events=stage.bus, margin=0.05)
    stage.election.acquire()
    relay.start()
    wait_for(lambda: len(target.sent_at) == 1, "it is sent")
    target.is_broken = True
    wait_for(lambda: len(target.sent_at) == 2, "it is sent again")
    relay.stop(0.0)
    assert relay.wait(delivery_timeout + 10.0)
    assert [number for _, number in target.sent_at] == [row.id, row.id]
    assert len(stage.told(LeaderAcquired)) == 2
    assert target.opened == 2
    return target.sent_at


def test_a_new_client_sends_nothing_before_what_the_old_one_held_has_expired() -> None:
    (first, _), (again, _) = broken_once(Stage(), BreakingTarget(), DELIVERY)
    assert again - first >= DELIVERY


def test_a_naive_relay_sends_at_once_and_the_old_copy_may_arrive_behind_its_successor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    never = property(lambda self: 0.0, lambda self, at: None)
    monkeypatch.setattr(Charge, "rests_until", never, raising=False)
    (first, _), (again, _) = broken_once(Stage(), BreakingTarget(), LONG_DELIVERY)
    assert again - first < LONG_DELIVERY
