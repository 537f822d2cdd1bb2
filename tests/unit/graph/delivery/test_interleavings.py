"""Whatever dies and whenever: nothing missing, extra, doubled or out of order in any queue.

Each seed is a graph and a storm over it. A storm walks several drivers one write or read at a time,
in any order, kills them, lets them wake up as zombies, spoils checkpoints and backing journals,
sets a sink back, loses answers, fails tasks, and changes code, routing and the size of batches.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.graph.delivery.chaos import Storm
from tests.unit.graph.delivery.graphs import faults_in, positions_read, random_graph
from tests.unit.graph.delivery.scenes import end_at, scene
from tests.unit.graph.delivery.world import Journal, Queue, World
from windrow.errors import WindrowError
from windrow.graph import recovery, sink_rows
from windrow.graph.backing import Record, encode
from windrow.graph.high_water import NOTHING, HighWaters, Mark
from windrow.graph.positions import SourcePartition

STORMS = 240
PER_TEST = 40


def storm(seed: int) -> tuple[World, Storm]:
    rng = random.Random(seed)
    world = random_graph(rng)
    raging = Storm(world, rng)
    raging.rage(rng.randint(50, 300))
    world.settle()
    return world, raging


@pytest.mark.parametrize("first", range(0, STORMS, PER_TEST))
def test_every_queue_holds_what_it_should_after_a_storm(first: int) -> None:
    for seed in range(first, first + PER_TEST):
        world, _ = storm(seed)
        assert faults_in(world) == [], f"seed {seed}"


def test_a_storm_strikes_at_every_step() -> None:
    """Else it would prove little: drivers end, and writes are refused, all over the place."""
    passed: Counter[str] = Counter()
    kills = 0
    for seed in range(30):
        world, raging = storm(seed)
        passed += world.passed
        kills += raging.kills
    for step in ("AppendRetried", "CommitDelivered", "WriteRows"):
        assert passed[f"before {step}"] > 50, step
    assert passed["before AppendRewound"] > 0
    assert kills > 20


@pytest.mark.parametrize("strategy", ["at-most-once", "at-least-once"])
def test_effects_keep_their_promise_in_a_storm(strategy: Any) -> None:
    for seed in range(40):
        world = scene(outputs=(), strategy=strategy, messages=9, lanes=3, seed=seed)
        raging = Storm(world, random.Random(seed))
        raging.rage(120)
        world.settle()
        everything = positions_read(world, "s1")
        assert set(world.effects) <= everything
        if strategy == "at-most-once":
            assert set(world.effects.values()) <= {1}
        else:
            assert set(world.effects) == everything


# -- planted bugs: the storm must see them -------------------------------------------------------


def _write_always(queue: Queue, number: int, old: dict[str, str], new: dict[str, str]) -> bool:
    queue.registers[number].update(new)
    return True


def _append_always(journal: Journal, _epoch: int, record: Record) -> bool:
    journal.lines.append(encode(record))
    return True


def _by_index(waters: HighWaters, origin: SourcePartition) -> Mark:
    mark = waters.marks.get(origin, NOTHING)
    return Mark(mark.index + (mark.ordinal > 0))


def _ignore_sink(backing: Any, sink: Any, reason: str) -> recovery.Recovered:
    start = backing.taken.snapshot.ends if backing.taken else sink.ends
    return recovery.Recovered(start, backing.number + 1, sink)


BUGS: dict[str, tuple[Any, str, Callable[..., Any]]] = {
    "no compare-and-set": (Queue, "swap", _write_always),
    "ordinals ignored": (HighWaters, "mark", _by_index),
    "nothing dropped": (HighWaters, "mark", lambda *_: NOTHING),
    "rows in reverse": (sink_rows, "_by_position", lambda row: -row.positions[0].index),
    "journal above sink": (recovery, "_follow_sink", _ignore_sink),
    "checkpoint above all": (recovery, "_agrees", lambda _, s: s.checkpoint is not None),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_seen(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*BUGS[bug])
    for seed in range(STORMS):
        try:
            world, _ = storm(seed)
        except (WindrowError, AssertionError):
            return
        if faults_in(world):
            return
    raise AssertionError(f"{STORMS} storms did not see it")


def test_the_owner_fence_stops_a_zombie_before_it_plans_anything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without it a zombie goes on: each row is written once all the same, but nobody is told."""

    def delivered_by_zombie() -> int:
        world = scene()
        zombie = end_at(world, "deliver:after")
        end_at(world, "plan:before")
        while not zombie.is_over and not zombie.is_idle:
            world.walk(zombie)
        delivered = world.delivered(world.legs[0])
        assert delivered is not None
        return delivered.number

    assert delivered_by_zombie() == 1
    monkeypatch.setattr(Journal, "append", _append_always)
    assert delivered_by_zombie() > 1
