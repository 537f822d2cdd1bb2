"""Small graphs for the world, and what every queue of them must hold in the end."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from tests.unit.graph.delivery.world import (
    Message,
    Processor,
    Queue,
    World,
    key_of,
    misordered,
    number_of,
    values_in,
)
from windrow.graph.planning import Taking
from windrow.graph.positions import Position
from windrow.graph.snapshot import ProcessorUid
from windrow.graph.staging import Destination, Failure, Outputs

ERRORS = Destination("errors", "error")


def function_of(
    name: str, outputs: Sequence[str], has_errors: bool
) -> Callable[[Sequence[Any]], Outputs | Failure]:
    """One output, several, none, or an error: whatever the value says, and always the same."""

    def function(values: Sequence[Any]) -> Outputs | Failure:
        value = "+".join(map(str, values)) + f">{name}"
        nature = number_of(value) % 8
        if nature == 0:
            return Outputs({})
        if nature == 1 and has_errors:
            return Failure(f"{value}!")
        if nature in (2, 3):
            return Outputs({queue: [f"{value}{letter}" for letter in "abc"] for queue in outputs})
        if nature == 4:
            return Outputs({outputs[0]: [value]})
        return Outputs({queue: [value] for queue in outputs})

    return function


def processor(
    name: str,
    taking: Taking,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    *,
    has_errors: bool = False,
) -> Processor:
    destinations = tuple(map(Destination, outputs)) + ((ERRORS,) if has_errors else ())
    function = function_of(name, outputs, has_errors)
    return Processor(ProcessorUid("graph", name), taking, inputs, destinations, function)


def fill(world: World, queue: Queue, count: int) -> None:
    """A producer adds messages; where a key goes never changes."""
    for _ in range(count):
        serial = sum(map(len, queue.partitions))
        partition = serial % len(queue.partitions)
        value = f"{queue.name}{serial}"
        queue.partitions[partition].append(Message(key_of(value), value))


def random_graph(rng: random.Random) -> World:
    """One processor of any kind between two sources and a second one behind it."""
    taking: Taking = rng.choice(["alts", "join"])
    inputs = ("s1", "s2") if taking == "join" or rng.random() < 0.6 else ("s1",)
    outputs = ("mid", "side") if rng.random() < 0.4 else ("mid",)
    first = processor("first", taking, inputs, outputs, has_errors=rng.random() < 0.4)
    first.is_deterministic = rng.random() < 0.6
    second = processor("second", "alts", ("mid",), ("last",))
    world = World(rng, [first, second])
    lanes = rng.randint(1, 2)
    for name in inputs:
        fill(world, world.add_source(name, lanes), rng.randint(3, 9))
    return world


def expected_of(world: World, processor: Processor) -> dict[str, Counter[str]]:
    """What a processor makes of all that its inputs hold, by queue."""
    held: dict[str, Counter[str]] = {d.queue: Counter() for d in processor.destinations}
    for values in _steps(world, processor):
        result = processor.function(values)
        if isinstance(result, Failure):
            held["errors"][str(result.error)] += 1
        else:
            for queue, messages in result.by_queue.items():
                held[queue].update(map(str, messages))
    return held


def _steps(world: World, processor: Processor) -> list[list[Any]]:
    parts = [world.queues[name].partitions for name in sorted(processor.inputs)]
    if processor.taking == "alts":
        return [[message.value] for queue in parts for part in queue for message in part]
    lanes = zip(*parts, strict=True)
    return [
        [message.value for message in row] for lane in lanes for row in zip(*lane, strict=False)
    ]


def faults_in(world: World) -> list[str]:
    """What is missing, too much or out of order in any queue."""
    found = []
    for one in world.processors.values():
        for name, wanted in expected_of(world, one).items():
            held = values_in(world.queues[name])
            if held != wanted:
                found.append(f"{name}: missing {wanted - held}, extra {held - wanted}")
            if misordered(world.queues[name]):
                found.append(f"{name}: out of order {misordered(world.queues[name])}")
    return found


def positions_read(world: World, queue: str) -> set[tuple[Position, ...]]:
    """Every position that a queue has."""
    return {
        (Position(one.source, one.incarnation, one.partition, index),)
        for one in world.queues[queue].available()
        for index in range(one.first, one.end)
    }
