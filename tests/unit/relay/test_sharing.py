"""A relay that leads several shards: each begins, is handed over and is lost by itself."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.unit.relay.scripted import QUICK, ScriptedStore, ScriptedTarget, wait_for
from windrow.errors import Unreachable, WindrowError
from windrow.outbox.errors import Fenced
from windrow.relay.election.errors import GroupRefused
from windrow.relay.election.leading import Leading
from windrow.relay.election.plan import Plan
from windrow.relay.events import (
    DatabaseLost,
    ElectionTroubled,
    LeaderAcquired,
    LeaderFenced,
    LeaderRevoked,
)
from windrow.relay.road import BarrierRoad
from windrow.relay.service import Relay
from windrow.telemetry.events import Event, EventBus

PLAN = Plan(2, 3)


class ScriptedShares:
    """Gives and asks back shards as the test says."""

    pulse_interval = 0.002

    def __init__(self) -> None:
        self.trouble: WindrowError | None = None
        self.rights: dict[int, Leading] = {}
        self.resigned: list[int] = []
        self.has_left = False

    def give(self, shard: int, epoch: int = 1) -> None:
        self.rights |= {shard: Leading(epoch, math.inf, shard=shard, plan=PLAN)}

    def ask_back(self, shard: int) -> None:
        self.rights |= {shard: replace(self.rights[shard], is_asked_back=True)}

    def take(self, shard: int) -> None:
        self.rights = {other: right for other, right in self.rights.items() if other != shard}

    def pulse_shards(self) -> dict[int, Leading]:
        return self.rights

    def resign_shard(self, shard: int) -> None:
        self.resigned.append(shard)
        self.take(shard)

    def resign(self) -> None:
        self.has_left = True

    def close(self) -> None:
        pass


class Sharing:
    """A relay, an outbox and a target for each shard, and what was told."""

    def __init__(self) -> None:
        self.election = ScriptedShares()
        self.stores = [ScriptedStore() for _ in range(3)]
        self.targets = [ScriptedTarget() for _ in range(3)]
        self.events: list[Event] = []
        self.bus = EventBus()
        self.bus.subscribe(self.events.append)
        self.relay = Relay.of(self.road_of, self.election, events=self.bus, margin=0.0)

    def road_of(self, shard: int) -> BarrierRoad:
        return BarrierRoad(
            self.stores[shard],  # type: ignore[arg-type]
            self.targets[shard],  # type: ignore[arg-type]
            self.bus,
            policy_of=lambda topic: QUICK,
            delivery_timeout=0.0,
        )

    def lead(self, *shards: int) -> None:
        for shard in shards:
            self.election.give(shard)
        wait_for(lambda: self.relay.shards == list(shards), f"it leads {shards}")

    def send_one(self, shard: int) -> None:
        (row,) = self.stores[shard].add(f"key-{len(self.stores[shard].rows)}")
        wait_for(lambda: row in self.targets[shard].sent, f"shard {shard} sends")

    def told(self, kind: type[Event]) -> list[int]:
        return [event.shard for event in self.events if isinstance(event, kind)]  # type: ignore[attr-defined]


@pytest.fixture
def sharing() -> Iterator[Sharing]:
    sharing = Sharing()
    sharing.relay.start()
    yield sharing
    sharing.relay.stop(0.1)
    assert sharing.relay.wait(10.0)
    assert sharing.election.has_left


def test_each_shard_has_a_pipeline_of_its_own(sharing: Sharing) -> None:
    sharing.lead(0, 1, 2)
    for shard in range(3):
        sharing.send_one(shard)
    assert sharing.relay.in_flight == 3
    # It is told once the pipeline runs, which may have sent something by then.
    wait_for(lambda: sharing.told(LeaderAcquired) == [0, 1, 2], "each is told of")


def test_a_road_is_opened_when_its_shard_is_first_led(sharing: Sharing) -> None:
    assert [store.calls["open"] for store in sharing.stores] == [1, 0, 0]
    sharing.lead(2)
    assert [store.calls["open"] for store in sharing.stores] == [1, 0, 1]


def test_a_shard_that_is_asked_back_is_drained_first_and_the_others_go_on(
    sharing: Sharing,
) -> None:
    sharing.lead(0, 1)
    sharing.send_one(1)
    sharing.election.ask_back(1)
    for _ in range(20):
        sharing.send_one(0)
        sharing.targets[0].acknowledge()
    assert sharing.election.resigned == []  # its record is on its way still
    assert sharing.relay.shards == [0, 1]
    sharing.targets[1].acknowledge()
    wait_for(lambda: sharing.election.resigned == [1], "it is given up")
    wait_for(lambda: sharing.relay.shards == [0], "the other is led still")
    assert sharing.stores[1].rows == {}
    assert sharing.told(LeaderRevoked) == [1]
    assert sharing.told(LeaderFenced) == []


def test_a_shard_that_was_never_begun_is_given_back_at_once(sharing: Sharing) -> None:
    sharing.election.rights = {1: Leading(1, math.inf, shard=1, plan=PLAN, is_asked_back=True)}
    wait_for(lambda: sharing.election.resigned == [1], "it is given up")
    assert sharing.events == []


def test_a_shard_that_is_lost_ends_alone(sharing: Sharing) -> None:
    sharing.lead(0, 1)
    sharing.send_one(1)
    sharing.election.take(1)
    wait_for(lambda: sharing.relay.shards == [0], "it is lost")
    assert sharing.told(LeaderFenced) == [1]
    sharing.send_one(0)


def test_a_pipeline_that_finds_itself_fenced_resigns_from_its_shard_alone(
    sharing: Sharing,
) -> None:
    sharing.lead(0, 1)
    sharing.stores[1].fail("read", error=Fenced("outbox", 1))
    wait_for(lambda: sharing.election.resigned == [1], "it resigns")
    assert sharing.told(LeaderFenced) == [1]
    sharing.send_one(0)


def test_what_was_delivered_is_counted_over_all_shards_also_those_that_went(
    sharing: Sharing,
) -> None:
    sharing.lead(0, 1)
    for shard in (0, 1):
        sharing.send_one(shard)
        sharing.targets[shard].acknowledge()
    wait_for(lambda: sharing.relay.delivered == 2, "both are counted")
    sharing.election.ask_back(1)
    wait_for(lambda: sharing.relay.shards == [0], "one is handed over")
    assert sharing.relay.delivered == 2


@pytest.mark.parametrize(
    ("trouble", "kind"),
    [
        (GroupRefused("group", "no", "wait"), ElectionTroubled),
        (Unreachable("Kafka", "nowhere:1", "nobody there"), ElectionTroubled),
        (Unreachable("PostgreSQL", "nowhere:1", "nobody there"), DatabaseLost),
    ],
)
def test_trouble_is_told_by_whose_it_is(
    sharing: Sharing, trouble: WindrowError, kind: type[Event]
) -> None:
    sharing.election.trouble = trouble
    wait_for(lambda: bool(sharing.events), "it is told")
    assert [type(event) for event in sharing.events] == [kind]
