"""Queues, targets and backing journals in memory, and a driver that does what Spark does.

Nothing of it is a mock of what is tested: plans, sources, sinks and recovery are the real ones, and
the marks are packed as in a journal's registers. What is played is Spark: its calls, in their
order, and the files of its checkpoint.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from windrow.graph import Graph
from windrow.graph.backing import BackingState, Owned, Record, decode, encode, fold
from windrow.graph.delivery_steps import (
    BackingAppended,
    BackingRefused,
    DeliveredMismatched,
    DeliveredMoved,
)
from windrow.graph.high_water import Delivered, HighWaters
from windrow.graph.messages import Message
from windrow.graph.packing import pack_delivered, pack_marks, unpack_delivered, unpack_marks
from windrow.graph.planning import Available
from windrow.graph.positions import SourcePartition, Span
from windrow.graph.recovery_machine import Taken
from windrow.graph.sink_rows import SinkRow
from windrow.graph.sink_task import Mismatched, Written
from windrow.graph.snapshot import ProcessorUid
from windrow.spark.places import Connections, Place
from windrow.spark.query.encoding import Raw, message_of
from windrow.spark.query.encoding import encode as encode_message
from windrow.spark.query.leg_plan import LegPlan, QuerySettings, QueueForm, plan_legs
from windrow.spark.query.rows import message_batches
from windrow.spark.query.sink import LegSink, TaskCount, read_facts
from windrow.spark.query.source import LegSource
from windrow.spark.query.start import Accepted, Started, recover_leg
from windrow.spark.runner.files import LocalFiles
from windrow.spark.stores import Content

POINTS = (
    "graph.plan-before", "graph.snapshot-before", "graph.snapshot-after", "graph.read-before",
    "graph.read-after", "graph.run-during", "graph.write-before", "graph.write-after",
    "graph.attempt-before", "graph.attempt-after", "graph.deliver-before", "graph.deliver-after",
    "graph.recover-before", "graph.recover-after",
)  # fmt: skip


class Died(BaseException):
    """A process ended: no handler of errors is asked."""


@dataclass
class MemoryQueue:
    """Messages by partition, and the registers of each."""

    partitions: list[list[Content]]
    registers: list[dict[str, str]]
    incarnation: str = "one"
    lost: int = 0
    """How many messages at the beginning are gone."""

    @classmethod
    def of(cls, partitions: int) -> MemoryQueue:
        return cls([[] for _ in range(partitions)], [{} for _ in range(partitions)])

    def swap(self, number: int, expected: Mapping[str, str], new: Mapping[str, str]) -> bool:
        """Replace a family of registers, if it is the expected one."""
        registers = self.registers[number]
        names = {*expected, *new}
        prefix = next(iter(names)).rsplit("/", 1)[0] if names else ""
        found = {name: value for name, value in registers.items() if name.startswith(prefix)}
        if names and found != dict(expected):
            return False
        for name in found:
            del registers[name]
        registers.update(new)
        return True


@dataclass
class MemoryReader:
    name: str
    queue: MemoryQueue

    def available(self) -> Sequence[Available]:
        return [
            Available(self.name, self.queue.incarnation, number, self.queue.lost, len(rows), 100.0)
            for number, rows in enumerate(self.queue.partitions)
        ]

    def cuts(self, origin: SourcePartition) -> Sequence[int]:
        return range(0, len(self.queue.partitions[origin.partition]), 7)

    def read(self, span: Span) -> Iterator[pa.RecordBatch]:
        rows = self.queue.partitions[span.partition][span.start : span.end]
        for begin in range(0, len(rows), 5):
            raws = [
                {self.name: Raw(span.start + begin + n, c.key, c.value, c.headers, c.topic, c.time)}
                for n, c in enumerate(rows[begin : begin + 5])
            ]
            yield message_batches(raws, [span.position(0)])[self.name]

    def close(self) -> None:
        pass


@dataclass
class MemoryTarget:
    queue: MemoryQueue

    def targets(self) -> int:
        return len(self.queue.partitions)

    def read_high_water(self, uid: ProcessorUid, target: int) -> HighWaters:
        return unpack_marks(uid, target, self.queue.registers[target])

    def write(
        self, rows: Sequence[SinkRow], expected: HighWaters, marks: HighWaters
    ) -> Written | Mismatched:
        if not self.queue.swap(marks.target, pack_marks(expected), pack_marks(marks)):
            return Mismatched()
        contents = [row.value for row in rows]
        self.queue.partitions[marks.target] += [c for c in contents if isinstance(c, Content)]
        return Written()

    def read_delivered(self, uid: ProcessorUid) -> Delivered | None:
        return unpack_delivered(uid, self.queue.registers[0])

    def commit_delivered(
        self, expected: Delivered | None, delivered: Delivered
    ) -> DeliveredMoved | DeliveredMismatched:
        old = pack_delivered(expected) if expected else {}
        if not self.queue.swap(0, old, pack_delivered(delivered)):
            return DeliveredMismatched(self.read_delivered(delivered.uid))
        return DeliveredMoved()

    def fence(self, uid: ProcessorUid, epoch: int) -> Sequence[HighWaters]:
        found = []
        for number in range(self.targets()):
            waters = self.read_high_water(uid, number)
            owned = waters.owned_by(epoch)
            self.queue.swap(number, pack_marks(waters), pack_marks(owned))
            found.append(owned)
        return found

    def close(self) -> None:
        pass


@dataclass
class MemoryBacking:
    lines: list[bytes] = field(default_factory=list)
    epoch: int = 0

    def take(self, owner: str) -> Taken:
        self.epoch += 1
        self.lines.append(encode(Owned(owner, self.epoch)))
        return Taken(self.epoch)

    def read(self) -> BackingState:
        return fold(map(decode, self.lines))

    def append(self, record: Record, epoch: int) -> BackingAppended | BackingRefused:
        if epoch != self.epoch:
            return BackingRefused(self.epoch)
        self.lines.append(encode(record))
        return BackingAppended()

    def close(self) -> None:
        pass


@dataclass
class MemorySuspects:
    noted: tuple[str, str] = ("", "")
    count: int = 0

    def note(self, delivery_hash: str, position: str) -> None:
        self.noted = delivery_hash, position
        self.count += 1

    def read(self, delivery_hash: str) -> str:
        return self.noted[1] if self.noted[0] == delivery_hash else ""


class MemoryStores:
    """Everything that is durable, by address."""

    def __init__(self) -> None:
        self.queues: dict[str, MemoryQueue] = {}
        self.backings: dict[str, MemoryBacking] = defaultdict(MemoryBacking)
        self.notes: dict[str, MemorySuspects] = defaultdict(MemorySuspects)
        self.posted: list[SinkRow] = []

    def queue(self, place: Place) -> MemoryQueue:
        return self.queues.setdefault(place.address, MemoryQueue.of(place.partitions or 1))

    def reader(self, place: Place) -> MemoryReader:
        return MemoryReader(place.queue, self.queue(place))

    def target(self, place: Place) -> MemoryTarget:
        return MemoryTarget(self.queue(place))

    def backing(self, plan: LegPlan) -> MemoryBacking:
        return self.backings[plan.name]

    def poster(self, place: Place) -> Callable[[Sequence[SinkRow]], None]:
        return self.posted.extend

    def suspects(self, plan: LegPlan) -> MemorySuspects:
        return self.notes[plan.name]

    def ensure(self, places: Sequence[Place]) -> None:
        for place in places:
            self.queue(place)


@dataclass
class World:
    """One graph on memory, and Spark as it drives each of its legs."""

    graph: Graph
    directory: Path
    settings: QuerySettings = field(default_factory=QuerySettings)
    stores: MemoryStores = field(default_factory=MemoryStores)
    rng: random.Random = field(default_factory=lambda: random.Random(1))
    now: float = 1_700_000_000.0
    replays: int = 0
    drops: int = 0

    @property
    def legs(self) -> list[LegPlan]:
        return plan_legs(self.graph, Connections(), self.settings)

    def leg(self, name: str) -> LegPlan:
        return next(leg for leg in self.legs if leg.name == name)

    def place(self, queue: str) -> Place:
        for leg in self.legs:
            for place in (*leg.sources.values(), *leg.outputs.values(), *leg.by_hand.values()):
                if place.queue == queue:
                    return place
        raise KeyError(queue)

    def queue(self, name: str) -> MemoryQueue:
        return self.stores.queue(self.place(name))

    def send(self, queue: str, messages: Iterable[Any], partition: int = 0) -> None:
        form = QueueForm(self.graph.queue(queue).values, self.graph.meta_of(queue))
        for message in messages:
            whole = message if isinstance(message, Message) else Message(message)
            body = encode_message(whole, queue, form, 1.0)
            content = Content(body.value, body.key, tuple(body.headers), body.topic, 1)
            self.queue(queue).partitions[partition].append(content)

    def messages(self, queue: str) -> list[Message]:
        form = QueueForm(self.graph.queue(queue).values)
        return [
            message_of(Raw(at, c.key, c.value, c.headers, c.topic, c.time), queue, form)
            for rows in self.queue(queue).partitions
            for at, c in enumerate(rows)
        ]

    def values(self, queue: str) -> list[Any]:
        return [message.value for message in self.messages(queue)]

    # -- Spark -----------------------------------------------------------------------------------

    def checkpoint(self, leg: LegPlan) -> Path:
        return self.directory / leg.name.replace("/", "-")

    def recover(self, leg: LegPlan, accepted: Accepted | None = None) -> Started:
        started = recover_leg(
            leg,
            str(self.checkpoint(leg)),
            owner="driver",
            accepted=accepted,
            files=LocalFiles(),
            stores=self.stores,
        )
        self.drops += started.dropped_checkpoint
        return started

    def run_leg(self, leg: LegPlan, batches: int | None = None) -> Started:
        """Recover, and deliver what is there, batch by batch, as Spark would."""
        started = self.recover(leg)
        query = MemoryQuery(self, started)
        while batches is None or batches > 0:
            if not query.step():
                break
            batches = None if batches is None else batches - 1
        return started

    def run(self) -> None:
        for leg in self.legs:
            self.run_leg(leg)

    def clock(self) -> float:
        self.now += 1
        return self.now


class MemoryQuery:
    """Spark's side of one query: its calls in their order, and its two logs."""

    def __init__(self, world: World, started: Started) -> None:
        self._world = world
        self._plan = started.plan
        self.source = LegSource(started.plan, world.stores, world.clock)
        self._path = world.checkpoint(started.plan)

    def step(self) -> bool:
        """One batch; whether there was one."""
        offsets, commits = self._numbers("offsets"), self._numbers("commits")
        if offsets and offsets[-1] not in commits:
            number = offsets[-1]
            self._world.replays += 1
        else:
            number = offsets[-1] + 1 if offsets else 0
            start = self.start_of(number)
            end = self.source.latest_offset(start)
            if end == start:
                return False
            self._log("offsets", number, json.dumps(end))
        end = json.loads(self._path.joinpath("offsets", str(number)).read_text().splitlines()[2])
        self._run(self.start_of(number), end)
        self._log("commits", number, "{}")
        return True

    def start_of(self, number: int) -> dict[str, Any]:
        """Where a batch begins."""
        if number == 0:
            return self.source.initial_offset()
        text = self._path.joinpath("offsets", str(number - 1)).read_text().splitlines()[2]
        found: dict[str, Any] = json.loads(text)
        return found

    def _run(self, start: dict[str, Any], end: dict[str, Any]) -> None:
        rng, stores = self._world.rng, self._world.stores
        parts = self.source.partitions(start, end)
        rng.shuffle(parts)
        batches = [batch for part in parts for batch in self.source.read(part)]
        facts = read_facts(self._plan, stores)
        tasks = max(1, rng.randint(1, self._plan.routing.targets))
        counts: list[TaskCount] = []
        for task in range(tasks):
            own = [_of_task(batch, task, tasks) for batch in batches]
            for _ in range(1 + (self._plan.effect is None and rng.random() < 0.2)):
                # Now and then a task runs twice, as retries and speculation have it.
                count = LegSink(self._plan, facts, stores).write(iter(own), task)
            counts.append(count)
        LegSink(self._plan, read_facts(self._plan, stores), stores).commit(counts)

    def _numbers(self, log: str) -> list[int]:
        directory = self._path / log
        return sorted(int(f.name) for f in directory.iterdir()) if directory.exists() else []

    def _log(self, log: str, number: int, line: str) -> None:
        file = self._path / log / str(number)
        file.parent.mkdir(parents=True, exist_ok=True)
        lines = ["v1", '{"batchTimestampMs": 1}', line] if log == "offsets" else ["v1", line]
        file.write_text("\n".join(lines))


def _of_task(batch: pa.RecordBatch, task: int, tasks: int) -> pa.RecordBatch:
    places = [
        n for n, target in enumerate(batch.column("_target").to_pylist()) if target % tasks == task
    ]
    return batch.take(pa.array(places, pa.int64()))


@dataclass
class Strike:
    """Ends the process at the nth time that a point is passed."""

    point: str
    nth: int = 1
    passed: int = 0
    has_struck: bool = False

    def __call__(self, point: str) -> None:
        if point == self.point and not self.has_struck:
            self.passed += 1
            if self.passed == self.nth:
                self.has_struck = True
                raise Died(point)


def arm(monkeypatch: pytest.MonkeyPatch, strike: Callable[[str], None]) -> None:
    """Have every point of a query lead to the strike."""
    for module in ("source", "sink", "start", "reading", "effects", "arrow_function"):
        monkeypatch.setattr(f"windrow.spark.query.{module}.pass_by", strike)
    monkeypatch.setattr("windrow.spark.targets.perform.pass_by", strike)


def run_with_crashes(world: World, strike: Strike) -> int:
    """Run all legs to their end, starting again after each death; how often it died."""
    deaths = 0
    for leg in world.legs:
        while True:
            try:
                world.run_leg(leg)
                break
            except Died:
                deaths += 1
                assert deaths < 10
    return deaths
