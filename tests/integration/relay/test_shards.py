"""Several relays share one outbox, against real PostgreSQL and Kafka."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Iterator
from itertools import groupby
from typing import Any

import pytest

from tests.fixtures.relaying import OutboxDatabase, consume, wait_for
from tests.integration.relay.desks import opened
from tests.integration.relay.test_barrier import by_key, expected, spread
from windrow.config import Config
from windrow.relay.election.errors import AloneAmongShards, PlanNotReady
from windrow.relay.election.plan import Plan
from windrow.relay.election.plan_table import PlanTable
from windrow.relay.election.postgres_lease import lease_session
from windrow.relay.election.shard_leases import ShardLeases
from windrow.relay.election.single import SingleElection
from windrow.relay.events import (
    LeaderAcquired,
    LeaderFenced,
    LeaderOverran,
    LeaderRevoked,
    ShardsSettled,
)
from windrow.relay.service import Relay
from windrow.relay.status import Thresholds, find_problems, read_status
from windrow.telemetry.events import Event, EventBus

MODES = ["barrier", "transactional"]
ELECTIONS = ["lease", "neli"]


class Team:
    """Relays on one outbox, as a configuration makes them, and what each told."""

    def __init__(self, outbox: OutboxDatabase, kafka: str) -> None:
        self.outbox, self.kafka = outbox, kafka
        self.identity = secrets.token_hex(6)
        self.relays: list[Relay] = []
        self.events: dict[Relay, list[tuple[float, Event]]] = {}

    def start(self, **relay: Any) -> Relay:
        settings = {"name": f"relay-{len(self.relays)}", **relay}
        election = {"group": f"group-{self.identity}", "heartbeat_timeout": "1s"}
        settings["election"] = election | settings.get("election", {})
        config = Config.model_validate(
            {
                "database": {"dsn": self.outbox.dsn},
                "kafka": {"bootstrap": self.kafka, "state_topic": f"state-{self.identity}"},
                "relay": settings,
            }
        )
        bus = EventBus()
        member = Relay(config, bus)
        told: list[tuple[float, Event]] = []
        self.events[member] = told
        bus.subscribe(lambda event: told.append((time.monotonic(), event)))
        self.relays.append(member)
        return member.start()

    def led(self) -> list[list[int]]:
        return [relay.shards for relay in self.relays]

    def wait_led(self, *counts: int, timeout: float = 60.0) -> None:
        """Wait until each relay leads so many shards."""
        wait_for(
            lambda: [len(shards) for shards in self.led()] == list(counts),
            f"the relays lead {counts} shards",
            timeout,
        )

    def wait_plan(self, plan: Plan) -> None:
        """Wait until this one holds, with nothing of an earlier one left."""
        wait_for(lambda: plan_of(self.outbox) == plan, f"{plan} holds", 60.0)

    def delivered(self) -> int:
        return sum(relay.delivered for relay in self.relays)

    def wait_for_more(self) -> None:
        before = self.delivered()
        wait_for(lambda: self.delivered() > before + 200, "it goes on")

    def told(self, relay: Relay, *kinds: type[Event]) -> list[Any]:
        return [event for _, event in self.events[relay] if isinstance(event, kinds)]

    def told_of_lapse(self) -> bool:
        """Whether a relay has found its right to lead gone, by no hand-over."""
        return any(self.told(relay, LeaderFenced, LeaderOverran) for relay in self.relays)

    def stop(self) -> None:
        for relay in self.relays:
            relay.stop()
        for relay in self.relays:
            assert relay.wait(60.0)


@pytest.fixture
def team(outbox: OutboxDatabase, kafka: str) -> Iterator[Team]:
    team = Team(outbox, kafka)
    yield team
    team.stop()


def plan_of(outbox: OutboxDatabase) -> Plan:
    table = PlanTable(lease_session(outbox.dsn), outbox.table, "test")
    try:
        return table.look().plan
    finally:
        table.close()


# -- relays --------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("election", ELECTIONS)
def test_two_relays_share_an_outbox_and_each_key_keeps_its_order(
    mode: str, election: str, outbox: OutboxDatabase, kafka: str, topic: str, team: Team
) -> None:
    settings: Any = {"mode": mode, "shards": 4, "election": {"kind": election}}
    first, second = team.start(**settings), team.start(**settings)
    team.wait_led(2, 2)
    outbox.write(topic, spread(4_000, keys=60))
    wait_for(lambda: outbox.count() == 0, "the outbox is empty", timeout=60.0)
    assert by_key(consume(kafka, topic)) == expected(4_000, keys=60)
    assert plan_of(outbox) == Plan(2, 4)
    assert min(first.delivered, second.delivered) > 400


@pytest.mark.parametrize("mode", MODES)
def test_a_joining_relay_takes_its_part_and_the_shards_that_stay_do_not_pause(
    mode: str, outbox: OutboxDatabase, kafka: str, topic: str, team: Team
) -> None:
    first = team.start(mode=mode, shards=4)
    team.wait_led(4)
    with Writing(outbox, topic) as written:
        wait_for(lambda: first.delivered > 100, "it delivers")
        second = team.start(mode=mode, shards=4)
        team.wait_led(2, 2)
        wait_for(lambda: second.delivered > 100, "the other delivers too")
    wait_for(lambda: outbox.count() == 0, "the outbox is empty")
    seen = by_key(consume(kafka, topic))
    assert sum(map(len, seen.values())) == len(written)
    for key, values in seen.items():
        assert values == [value for k, value in written if k == key]
    # Of the two that stay nothing ended; the two that moved changed hands within a second.
    assert team.told(first, LeaderFenced) == []
    moved = {event.shard for event in team.told(first, LeaderRevoked)}
    assert moved == set(second.shards)
    for shard in moved:
        gap = at(team, second, LeaderAcquired, shard) - at(team, first, LeaderRevoked, shard)
        print(f"{mode}: shard {shard} paused for {gap:.2f} s")
        assert gap < 2.0  # the figure to hold is a second; a lease that ran out takes more


def at(team: Team, relay: Relay, kind: Any, shard: int) -> float:
    times = [when for when, event in team.events[relay] if isinstance(event, kind)]
    events = team.told(relay, kind)
    return next(when for when, event in zip(times, events, strict=True) if event.shard == shard)


class Writing:
    """Writes records from a thread of its own while the block runs; gives what was written."""

    def __init__(self, outbox: OutboxDatabase, topic: str, keys: int = 40) -> None:
        self.outbox, self.topic, self.keys = outbox, topic, keys
        self.written: list[tuple[str, str]] = []
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self.ended.wait(0.01):
            numbers = range(len(self.written), len(self.written) + 20)
            rows = [(f"key-{number % self.keys}", str(number)) for number in numbers]
            self.outbox.write(self.topic, rows)
            self.written += rows

    def __enter__(self) -> list[tuple[str, str]]:
        self.thread.start()
        return self.written

    def __exit__(self, *error: object) -> None:
        self.ended.set()
        self.thread.join()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("election", ELECTIONS)
def test_another_number_of_shards_under_load_loses_and_doubles_nothing(
    mode: str, election: str, outbox: OutboxDatabase, kafka: str, topic: str, team: Team
) -> None:
    """4, then 5, then 1: the old relays follow, and what they had sent is settled first."""
    chosen: Any = {"mode": mode, "election": {"kind": election}}
    team.start(shards=4, **chosen)
    follower = team.start(**chosen)  # proposes nothing
    with Writing(outbox, topic) as written:
        wait_for(lambda: follower.delivered > 0, "the follower delivers")
        for generation, shards in ((3, 5), (4, 1)):
            proposer = team.relays[-1] if shards == 1 else team.relays[0]
            proposer.stop()
            assert proposer.wait(60.0)
            team.start(shards=shards, **chosen)
            team.wait_plan(Plan(generation, shards))
            team.wait_for_more()
    wait_for(lambda: outbox.count() == 0, "the outbox is empty", 60.0)
    seen = by_key(consume(kafka, topic))
    if mode == "barrier" and team.told_of_lapse():
        # On a busy machine a lease of a second can run out: then the latest of a key may repeat.
        seen = {key: [value for value, _ in groupby(values)] for key, values in seen.items()}
    for key, values in seen.items():
        assert values == [value for k, value in written if k == key]
    assert sum(map(len, seen.values())) == len(written)


def test_relays_that_disagree_change_nothing(outbox: OutboxDatabase, team: Team) -> None:
    team.start(shards=2)
    team.wait_led(2)
    team.start(shards=3)
    wait_for(lambda: sum(map(len, team.led())) == 2 and all(team.led()), "both lead")
    assert plan_of(outbox) == Plan(2, 2)
    team.relays[0].stop()
    assert team.relays[0].wait(30.0)
    wait_for(lambda: plan_of(outbox) == Plan(3, 3), "the other has its way")
    wait_for(lambda: team.relays[1].shards == [0, 1, 2], "and leads all of them")
    assert len(team.told(team.relays[1], ShardsSettled)) == 1


def test_the_status_tells_of_every_shard(outbox: OutboxDatabase, topic: str, team: Team) -> None:
    relay = team.start(shards=3)
    team.wait_led(3)
    with opened(outbox) as desk:
        seen = read_status(desk)
        assert [(each.shard, each.name, each.leads) for each in seen.leaders] == [
            (shard, "relay-0", True) for shard in range(3)
        ]
        assert (seen.generation, seen.shards, seen.is_settled) == (2, 3, True)
        relay.stop()
        assert relay.wait(30.0)
        outbox.write(topic, [("a", "1")])
        problems = find_problems(read_status(desk), Thresholds())
    assert len(problems) == 3
    assert problems[1].startswith("nobody leads shard 1")


def test_a_relay_that_leads_alone_refuses_a_shared_outbox(
    outbox: OutboxDatabase, team: Team
) -> None:
    team.start(shards=2)
    team.wait_led(2)
    election = SingleElection(lease_session(outbox.dsn), outbox.table, "alone")
    with pytest.raises(AloneAmongShards, match=r"divided into 2 shards.*run: windrow relay"):
        election.pulse()
    election.close()


# -- leases --------------------------------------------------------------------------------------


@pytest.fixture
def leases(outbox: OutboxDatabase) -> Iterator[Any]:
    made: list[ShardLeases] = []

    def make(name: str, wanted: int | None = None) -> ShardLeases:
        session = lease_session(outbox.dsn)
        made.append(ShardLeases(session, outbox.table, name, wanted=wanted, lease_ttl=1.0))
        return made[-1]

    yield make
    for each in made:
        each.close()


def pulsed(*members: ShardLeases, until: Any, timeout: float = 15.0) -> None:
    """Pulse them in turn, each handing over what it is asked for, until something holds."""
    deadline = time.monotonic() + timeout
    led: list[dict[int, Any]] = []
    while not led or not until(*led):
        assert time.monotonic() < deadline, f"still {led}"
        time.sleep(0.02)
        led = [member.pulse_shards() for member in members]
        for member, rights in zip(members, led, strict=True):
            for shard, right in rights.items():
                if right.is_asked_back:
                    member.resign_shard(shard)


def settle(outbox: OutboxDatabase, leases: ShardLeases) -> None:
    right = leases.pulse_shards()[0]
    assert leases.plan_table.settle(leases.plan_table.look().plan, right.epoch)


def test_an_outbox_that_nobody_shares_costs_one_statement_for_each_pulse(
    leases: Any, outbox: OutboxDatabase
) -> None:
    only = leases("only")
    only.pulse_shards()
    ran: list[str] = []
    run = only._session.run

    def counted(query: str, parameters: dict[str, Any]) -> Any:
        ran.append(query)
        return run(query, parameters)

    only._session.run = counted
    deadline = time.monotonic() + 2.0
    while time.monotonic() < deadline:
        time.sleep(only.pulse_interval)
        assert list(only.pulse_shards()) == [0]
    assert len(ran) <= 6
    assert all("outbox_lease" in query for query in ran)


def test_a_generation_that_is_not_settled_lets_only_its_first_shard_be_led(
    leases: Any, outbox: OutboxDatabase
) -> None:
    member = leases("member", 3)
    pulsed(member, until=lambda led: list(led) == [0])
    for _ in range(5):
        assert list(member.pulse_shards()) == [0]
        time.sleep(0.1)
    with pytest.raises(PlanNotReady):
        member.plan_table.raise_epoch(1, member.plan_table.look().plan)
    settle(outbox, member)
    pulsed(member, until=lambda led: list(led) == [0, 1, 2])


def test_leases_are_balanced_and_a_dead_members_are_taken(
    leases: Any, outbox: OutboxDatabase
) -> None:
    first, second = leases("first", 4), leases("second", 4)
    pulsed(first, until=lambda led: list(led) == [0])
    settle(outbox, first)
    pulsed(first, until=lambda led: len(led) == 4)
    pulsed(first, second, until=lambda *led: [len(each) for each in led] == [2, 2])
    # The first falls silent.
    pulsed(second, until=lambda led: len(led) == 4)
    assert first.pulse_shards() == {}


def test_a_lease_cannot_be_renewed_into_another_generation(
    leases: Any, outbox: OutboxDatabase
) -> None:
    """Not even by one whose statement was under way: the row itself says which it is of."""
    old = leases("old")
    pulsed(old, until=lambda led: list(led) == [0])
    lease = old._held[0].lease
    table = PlanTable(lease_session(outbox.dsn), outbox.table, "test")
    assert table.divide(table.look().plan, 2)
    assert lease.pulse() is None
    table.close()


def test_of_two_that_divide_at_once_one_does(outbox: OutboxDatabase) -> None:
    tables = [PlanTable(lease_session(outbox.dsn), outbox.table, str(n)) for n in range(4)]
    plan = tables[0].look().plan
    done: list[bool] = []
    threads = [
        threading.Thread(target=lambda table=table: done.append(table.divide(plan, 3)))
        for table in tables
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done) == [False, False, False, True]
    assert tables[0].look().plan == Plan(2, 3, 1)
    for table in tables:
        table.close()


def test_a_plan_that_a_zombie_settles_stays_unsettled(outbox: OutboxDatabase) -> None:
    table = PlanTable(lease_session(outbox.dsn), outbox.table, "relay")
    assert table.divide(table.look().plan, 2)
    plan = table.look().plan
    stale = table.raise_epoch(0, plan)
    current = table.raise_epoch(0, plan)
    assert not table.settle(plan, stale)
    assert not table.look().plan.is_settled
    assert table.settle(plan, current)
    assert table.look().plan.is_settled
    table.close()
