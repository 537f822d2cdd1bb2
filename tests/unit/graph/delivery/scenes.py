"""Worlds with one processor, and ways to end its driver at a certain step."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from tests.unit.graph.delivery.graphs import ERRORS, fill, function_of
from tests.unit.graph.delivery.world import Driver, Processor, World
from windrow.graph.backing import Record, Retried, SnapshotTaken, decode
from windrow.graph.delivery import DeliverySettings
from windrow.graph.planning import Taking
from windrow.graph.positions import Position, SourceOffsets, SourcePartition, Span
from windrow.graph.routing import RoutingPin
from windrow.graph.snapshot import ProcessorUid, Snapshot
from windrow.graph.staging import Destination, Leg

UID = ProcessorUid("graph", "only")
STEPS = {
    "own": "TakeOwnership",
    "plan": "PlanBatch",
    "snapshot": "AppendSnapshotTaken",
    "read": "ReadHighWater",
    "write": "WriteRows",
    "attempt": "AppendAttempt",
    "deliver": "CommitDelivered",
    "retried": "AppendRetried",
}


def scene(
    taking: Taking = "alts",
    inputs: tuple[str, ...] = ("s1",),
    outputs: tuple[str, ...] = ("out",),
    *,
    seed: int = 1,
    has_errors: bool = False,
    messages: int = 12,
    lanes: int = 1,
    targets: int = 2,
    **options: Any,
) -> World:
    """A world with one processor and full sources."""
    destinations = tuple(map(Destination, outputs)) + ((ERRORS,) if has_errors else ())
    function = options.pop("function", None) or function_of("only", outputs, has_errors)
    only = Processor(UID, taking, inputs, destinations, function, **options)
    world = World(random.Random(seed), [only])
    for leg in world.legs:
        if leg.destination is not None:
            world.routing[leg.uid] = RoutingPin(targets)
    for name in inputs:
        fill(world, world.add_source(name, lanes), messages)
    return world


def end_at(world: World, point: str, *, leg: Leg | None = None, nth: int = 1) -> Driver:
    """Walk a new driver to the nth time it stands at ``step:moment``, and leave it there."""
    step, moment = point.split(":")
    wanted = f"{moment} {STEPS[step]}"
    driver = world.begin(leg or world.legs[0])
    for _ in range(nth):
        world.walk(driver)
        while driver.at != wanted:
            if driver.is_over or driver.is_idle:
                raise AssertionError(f"never came to {point}: {driver.at} {driver.error}")
            world.walk(driver)
    return driver


def lose_the_answer(world: World, point: str, *, leg: Leg | None = None) -> Driver:
    """Let the write at a point be made, and its answer be lost; the driver ends by itself."""
    driver = end_at(world, f"{point}:before", leg=leg)
    world.lose_answers = 1.0
    world.walk(driver)
    world.lose_answers = 0.0
    while not driver.is_over:
        world.walk(driver)
    return driver


def records(world: World, leg: Leg | None = None) -> list[Record]:
    """What the backing journal holds."""
    return [decode(line) for line in world.journals[(leg or world.legs[0]).uid].lines]


def snapshots(world: World) -> list[Snapshot]:
    """Every snapshot that was taken, by whichever leg."""
    return [
        record.snapshot
        for leg in world.legs
        for record in records(world, leg)
        if isinstance(record, SnapshotTaken)
    ]


def retries(world: World) -> int:
    """How often a snapshot was attempted again."""
    return sum(isinstance(record, Retried) for leg in world.legs for record in records(world, leg))


def settings(**changes: Any) -> DeliverySettings:
    return replace(DeliverySettings(UID, Destination("out")), **changes)


def span(source: str = "s1", start: int = 0, end: int = 5, partition: int = 0) -> Span:
    return Span(source, f"{source}-1", partition, start, end)


def at(source: str, index: int, ordinal: int = 0, partition: int = 0) -> Position:
    return Position(source, f"{source}-1", partition, index, ordinal)


def offsets(**indices: int) -> SourceOffsets:
    """``offsets(s1=5)``: partition 0 of source s1 was read up to 5."""
    return SourceOffsets.of(
        {SourcePartition(name, f"{name}-1", 0): index for name, index in indices.items()}
    )
