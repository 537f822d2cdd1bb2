"""Whatever goes wrong, and in which order: nothing lost, and nothing sent again without cause."""

from __future__ import annotations

from random import Random

import pytest

from tests.unit.relay.competing.simulation import SETTINGS, Faults, SimulatedRelay, World

TOPICS = ["a/1", "a/2", "b/1", "c/1"]


def fill(world: World, count: int, seconds: float) -> None:
    """Messages come one by one, over so many seconds."""
    for row in range(1, count + 1):
        topic = world.random.choice(TOPICS)
        world.at(
            world.random.uniform(0, seconds),
            lambda row=row, topic=topic: world.store.put(row, topic=topic),  # type: ignore[misc]
        )


def heal(world: World) -> None:
    world.faults = Faults()
    world.database_is_up = True
    world.silent.clear()


def drain(world: World, limit: float = 600.0) -> None:
    end = world.now + limit
    while world.store.rows and world.now < end:
        world.run_until(world.now + 1.0)
    assert not world.store.rows, "not delivered, with everything well again"


def check(world: World, count: int) -> None:
    for row in range(1, count + 1):
        assert row in world.store.dead or world.arrived[row], f"message {row} is lost"
    for row, reason in world.store.dead.items():
        if reason == "400":
            assert row in world.refused
        else:
            assert world.failed[row] + world.orphaned[row] >= SETTINGS.max_attempts
    assert world.repeated == []


@pytest.mark.parametrize("seed", range(4))
def test_without_faults_each_message_is_sent_once(seed: int) -> None:
    world = World(Random(seed), Faults())
    fill(world, 200, 5.0)
    relays = [world.start() for _ in range(3)]
    world.run_until(5.0)
    drain(world)
    assert world.sent == world.arrived == dict.fromkeys(range(1, 201), 1)
    assert sum(relay.machine.counts.delivered for relay in relays) == 200
    assert sum(relay.machine.counts.lost for relay in relays) == 0


@pytest.mark.parametrize("seed", range(4))
def test_attempts_are_counted_one_by_one_and_outages_are_not(seed: int) -> None:
    world = World(Random(seed), Faults(failure=0.3, refusal=0.05))
    fill(world, 100, 5.0)
    for _ in range(2):
        world.start()
    world.silent |= {"a", "b"}
    world.run_until(30.0)
    assert world.store.rows
    assert all(row.attempts == world.failed[row.id] for row in world.store.rows.values())
    world.silent.clear()
    drain(world)
    check(world, 100)
    exhausted = {row for row, reason in world.store.dead.items() if reason != "400"}
    assert {row for row in world.failed if world.failed[row] == SETTINGS.max_attempts} == exhausted
    assert max(world.failed.values()) <= SETTINGS.max_attempts


@pytest.mark.parametrize("seed", range(4))
def test_silent_destination_is_tried_by_one_message_at_a_time_and_others_go_on(seed: int) -> None:
    world = World(Random(seed), Faults())
    world.silent.add("a")
    fill(world, 400, 20.0)
    world.start()
    world.run_until(20.0)
    open_since = dict(world.sent)
    world.run_until(60.0)
    assert {row.topic[0] for row in world.store.rows.values()} == {"a"}
    probes = sum(world.sent.values()) - sum(open_since.values())
    assert probes <= 40 / SETTINGS.circuit.open_for + 1
    heal(world)
    drain(world)
    check(world, 400)


@pytest.mark.parametrize("seed", range(12))
def test_with_every_fault_nothing_is_lost_and_nothing_sent_again_without_cause(seed: int) -> None:
    faults = Faults(
        lost_statement=0.05, crash=0.01, stall=0.01, refusal=0.01, failure=0.1, swallowed=0.05
    )
    world = World(Random(seed), faults)
    fill(world, 300, 40.0)
    for _ in range(3):
        world.start()
    for _ in range(10):
        world.database_is_up = world.random.random() < 0.8
        world.silent = {name for name in "abc" if world.random.random() < 0.2}
        world.run_until(world.now + world.random.uniform(1.0, 8.0))
    heal(world)
    world.run_until(max(world.now, 41.0))
    drain(world)
    check(world, 300)


@pytest.mark.parametrize("seed", range(8))
def test_message_that_kills_its_relays_is_buried_and_those_beside_it_are_not(seed: int) -> None:
    world = World(Random(seed), Faults())
    world.poison = set(world.random.sample(range(1, 201), 1 + seed % 3))
    fill(world, 200, 5.0)
    for _ in range(2):
        world.start()
    world.run_until(5.0)
    drain(world)
    assert set(world.store.dead) == world.poison
    assert {world.sent[row] for row in world.poison} == {SETTINGS.max_attempts}
    check(world, 200)


@pytest.mark.parametrize("seed", range(5))
def test_stopped_relays_hold_nothing_and_leave_the_rest_to_others(seed: int) -> None:
    world = World(Random(seed), Faults(failure=0.1, swallowed=0.05))
    fill(world, 200, 5.0)
    first: list[SimulatedRelay] = [world.start() for _ in range(2)]
    world.run_until(2.0)
    for relay in first:
        relay.stop(drain=0.03)
    world.run_until(3.0)
    assert all(relay.has_ended and relay.machine.held == 0 for relay in first)
    assert all(row.token is None for row in world.store.rows.values())
    world.start()
    world.run_until(6.0)
    drain(world)
    check(world, 200)
