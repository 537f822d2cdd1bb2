"""A small world in which processors run, die anywhere, and leave zombies behind.

Queues are lists of partitions whose writes check and move registers in one step; a backing journal
checks its owner; a checkpoint is what Spark would keep. A driver is a generator that pauses around
every single write and read, so that whoever walks it can stop it there for good, or let another
driver go first. All that is decided is decided by the machines under test.
"""

from __future__ import annotations

import random
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from windrow.graph.backing import BackingState, Owned, Record, decode, encode, fold
from windrow.graph.delivery import DeliveryMachine, DeliverySettings
from windrow.graph.delivery_errors import CodeChanged, Fenced
from windrow.graph.delivery_steps import (
    AppendBacking,
    BackingAppended,
    BackingRefused,
    BatchFailed,
    BatchRan,
    CommitDelivered,
    DeliveredMismatched,
    DeliveredMoved,
    DeliveryCommand,
    DeliveryEvent,
    Finish,
    Interrupt,
    NothingPlanned,
    PlanBatch,
    Planned,
    Rest,
    RunBatch,
    Unknown,
)
from windrow.graph.high_water import Delivered, HighWaters
from windrow.graph.packing import pack_delivered, pack_marks, unpack_delivered, unpack_marks
from windrow.graph.planning import Available, Limits, Split, Taking, plan, splits, whole_partitions
from windrow.graph.policies import OnError, Retry, Strategy
from windrow.graph.positions import Position, SourcePartition
from windrow.graph.recovery import Checkpoint, Situation
from windrow.graph.recovery_machine import (
    Appended,
    AppendRewound,
    BackingRead,
    CompleteLate,
    FenceTargets,
    GoOn,
    LateDelivered,
    ReadBacking,
    ReadSink,
    RecoveryCommand,
    RecoveryEvent,
    RecoveryMachine,
    Refuse,
    SinkRead,
    TakenByOther,
    TakeOwnership,
    TargetsFenced,
)
from windrow.graph.recovery_machine import Taken as OwnershipTaken
from windrow.graph.routing import RoutingPin
from windrow.graph.sink_rows import SinkRow
from windrow.graph.sink_task import (
    Act,
    Acted,
    HighWaterRead,
    Mismatched,
    ReadHighWater,
    SinkCommand,
    SinkEvent,
    SinkTask,
    TaskDone,
    WriteRows,
    WriteUnknown,
    Written,
)
from windrow.graph.snapshot import ProcessorUid
from windrow.graph.staging import Destination, Failure, Leg, Outputs, Staged, legs_of

MAX_TARGETS = 3


@dataclass(frozen=True)
class Message:
    """What lies in a queue; where it came from is kept to check the order."""

    key: bytes
    value: Any
    came_from: tuple[Position, ...] = ()


class Queue:
    """Partitions that are only appended to, each with registers of its own."""

    def __init__(self, name: str, partitions: int) -> None:
        self.name = name
        self.incarnation = f"{name}-1"
        self.partitions: list[list[Message]] = [[] for _ in range(partitions)]
        self.registers: list[dict[str, str]] = [{} for _ in range(partitions)]
        self.first = [0] * partitions

    def available(self) -> list[Available]:
        return [
            Available(self.name, self.incarnation, number, self.first[number], len(messages))
            for number, messages in enumerate(self.partitions)
        ]

    def swap(self, number: int, old: dict[str, str], new: dict[str, str]) -> bool:
        """Move registers, if those of the same names are what was expected."""
        registers = self.registers[number]
        prefixes = {name.rsplit("/", 1)[0] for name in new}
        held = {k: v for k, v in registers.items() if k.rsplit("/", 1)[0] in prefixes}
        if held != old:
            return False
        for name in held:
            del registers[name]
        registers.update(new)
        return True

    def state(self) -> tuple[list[list[Message]], list[dict[str, str]]]:
        return [list(part) for part in self.partitions], [dict(held) for held in self.registers]

    def restore(self, state: tuple[list[list[Message]], list[dict[str, str]]]) -> None:
        self.partitions = [list(part) for part in state[0]]
        self.registers = [dict(held) for held in state[1]]


@dataclass
class Journal:
    """A backing journal: lines, and a register that names the owner."""

    lines: list[bytes] = field(default_factory=list)
    epoch: int = 0

    def append(self, epoch: int, record: Record) -> bool:
        if epoch != self.epoch:
            return False
        self.lines.append(encode(record))
        return True

    def state(self) -> BackingState:
        return fold(decode(line) for line in self.lines)


Function = Callable[[Sequence[Any]], Outputs | Failure]


@dataclass
class Processor:
    """A processor as it was declared."""

    uid: ProcessorUid
    taking: Taking
    inputs: tuple[str, ...]
    destinations: tuple[Destination, ...]
    function: Function
    is_deterministic: bool = True
    strategy: Strategy = "exactly-once"
    on_error: OnError = "stop"
    retry: Retry = Retry(attempts=None)  # noqa: RUF009 - frozen

    def legs(self) -> tuple[Leg, ...]:
        return legs_of(self.uid, self.inputs, self.destinations, self.is_deterministic)


class Died(Exception):
    """The driver is gone."""


class FunctionFailed(Exception):
    """A function raised, and the error is not handled."""

    def __init__(self, positions: tuple[Position, ...]) -> None:
        super().__init__(positions)
        self.positions = positions


@dataclass
class Driver:
    """A walk through one leg, paused between two of its steps."""

    leg: Leg
    steps: Iterator[str]
    at: str = "begun"
    is_over: bool = False
    error: Exception | None = None
    is_idle: bool = False


class World:
    """Everything durable, and the drivers."""

    def __init__(self, rng: random.Random, processors: Sequence[Processor]) -> None:
        self.rng = rng
        self.queues: dict[str, Queue] = {}
        self.processors = {p.uid.base: p for p in processors}
        self.legs = [leg for p in processors for leg in p.legs()]
        self.journals: dict[ProcessorUid, Journal] = defaultdict(Journal)
        self.checkpoints: dict[ProcessorUid, Checkpoint] = {}
        self.old_checkpoints: dict[ProcessorUid, list[Checkpoint]] = defaultdict(list)
        self.claims: dict[ProcessorUid, Queue] = {}
        self.backups: list[tuple[list[list[Message]], list[dict[str, str]]]] = []
        """Of the last queue, which nobody reads."""
        self.effects: Counter[tuple[Position, ...]] = Counter()
        self.routing: dict[ProcessorUid, RoutingPin] = {}
        self.code: dict[ProcessorUid, str] = defaultdict(lambda: "v1")
        self.limits = Limits(max_rows=5)
        self.lose_answers = 0.0
        self.fail_tasks = 0.0
        self.accept_sink_loss = False
        self.now = 1_700_000_000.0
        self.passed: Counter[str] = Counter()
        for leg in self.legs:
            self._add_queues(leg)

    def _add_queues(self, leg: Leg) -> None:
        if leg.destination is None:
            self.claims[leg.uid] = Queue(f"claims of {leg.uid}", 4)
            return
        if leg.destination.queue not in self.queues:
            self.queues[leg.destination.queue] = Queue(leg.destination.queue, MAX_TARGETS)
        self.routing[leg.uid] = RoutingPin(self.rng.randint(1, MAX_TARGETS))

    def add_source(self, name: str, partitions: int) -> Queue:
        self.queues[name] = Queue(name, partitions)
        return self.queues[name]

    def sink_of(self, leg: Leg) -> Queue:
        return self.queues[leg.destination.queue] if leg.destination else self.claims[leg.uid]

    def processor_of(self, leg: Leg) -> Processor:
        return self.processors[leg.uid.base]

    # -- walking ---------------------------------------------------------------------------------

    def begin(self, leg: Leg) -> Driver:
        return Driver(leg, self._drive(leg))

    def walk(self, driver: Driver) -> None:
        """One step of a driver."""
        try:
            driver.at = next(driver.steps)
            self.passed[driver.at] += 1
            driver.is_idle = driver.at == "idle"
        except StopIteration:
            driver.is_over = True
        except Exception as error:
            driver.is_over, driver.error = True, error

    def run_until_idle(self, leg: Leg) -> Driver:
        """Start as often as it takes, until nothing is left to do."""
        for _ in range(50):
            driver = self.begin(leg)
            while not driver.is_over and not driver.is_idle:
                self.walk(driver)
            if driver.is_idle:
                return driver
            if isinstance(driver.error, CodeChanged):
                self.code[leg.uid] = driver.error.taken_with
            elif driver.error is not None and not isinstance(driver.error, Died | Fenced):
                raise driver.error
        raise AssertionError(f"{leg.uid} does not come to rest: {driver.error}")

    def settle(self) -> None:
        """Let every leg run without faults, upstream first, until all are idle."""
        self.lose_answers = self.fail_tasks = 0.0
        for leg in self.legs:
            self.run_until_idle(leg)

    # -- the driver ------------------------------------------------------------------------------

    def _drive(self, leg: Leg) -> Generator[str]:
        recovery = RecoveryMachine(leg.uid, "driver")
        step: RecoveryCommand = recovery.start()
        while not isinstance(step, GoOn | Refuse):
            yield f"before {type(step).__name__}"
            event = self._perform_recovery(leg, step, recovery)
            yield f"after {type(step).__name__}"
            step = recovery.handle(event)
        if isinstance(step, Refuse):
            raise step.error
        if not step.recovered.keep_checkpoint:
            self.checkpoints.pop(leg.uid, None)
        settings = DeliverySettings(
            uid=leg.uid,
            destination=leg.destination,
            routing=self.routing.get(leg.uid, RoutingPin()),
            code_version=self.code[leg.uid],
            strategy=self.processor_of(leg).strategy,
            on_error=self.processor_of(leg).on_error,
            retry=self.processor_of(leg).retry,
        )
        machine = DeliveryMachine(settings, step.recovered, step.epoch)
        yield from self._deliver(leg, machine, step.epoch)

    def _deliver(self, leg: Leg, machine: DeliveryMachine, epoch: int) -> Generator[str]:
        command: DeliveryCommand = machine.start()
        while not isinstance(command, Finish):
            match command:
                case Interrupt():
                    raise command.error if not command.may_restart else Died(str(command.error))
                case Rest():
                    yield "idle"
                    return
                case RunBatch():
                    self._note_planned(leg, command)
                    event: DeliveryEvent = yield from self._run_batch(leg, command)
                case _:
                    yield f"before {_name(command)}"
                    event = self._perform(leg, command, epoch)
                    yield f"after {_name(command)}"
            command = machine.handle(event)

    def _perform_recovery(
        self, leg: Leg, step: RecoveryCommand, recovery: RecoveryMachine
    ) -> RecoveryEvent:
        journal = self.journals[leg.uid]
        match step:
            case TakeOwnership():
                journal.epoch += 1
                journal.lines.append(encode(Owned(step.owner, journal.epoch)))
                return OwnershipTaken(journal.epoch)
            case ReadBacking():
                return BackingRead(journal.state())
            case ReadSink():
                return SinkRead(self.delivered(leg), self._situation(leg))
            case FenceTargets():
                for number in range(len(self.sink_of(leg).partitions)):
                    waters = self.waters(leg, number)
                    if waters.epoch > step.epoch:
                        return TakenByOther(waters.epoch)
                    new = pack_marks(waters.owned_by(step.epoch))
                    self.sink_of(leg).swap(number, pack_marks(waters), new)
                return TargetsFenced()
            case AppendRewound():
                if not journal.append(recovery._epoch, step.record):
                    return TakenByOther(journal.epoch)
                return Appended()
            case CompleteLate():
                self._commit(leg, step.expected, step.delivered)
                return LateDelivered(self.delivered(leg))
        raise AssertionError(step)

    def _perform(self, leg: Leg, command: DeliveryCommand, epoch: int) -> DeliveryEvent:
        journal = self.journals[leg.uid]
        match command:
            case PlanBatch():
                return self._plan(leg, command)
            case AppendBacking():
                if not journal.append(epoch, command.record):
                    return BackingRefused(journal.epoch)
                return Unknown("no answer") if self._is_lost() else BackingAppended()
            case CommitDelivered():
                if not self._commit(leg, command.expected, command.delivered):
                    return DeliveredMismatched(self.delivered(leg))
                self.checkpoints[leg.uid] = Checkpoint(command.delivered.ends)
                self.old_checkpoints[leg.uid].append(self.checkpoints[leg.uid])
                if leg is self.legs[-1] and self.rng.random() < 0.5:
                    self.backups.append(self.sink_of(leg).state())
                return Unknown("no answer") if self._is_lost() else DeliveredMoved()
        raise AssertionError(command)

    def _plan(self, leg: Leg, command: PlanBatch) -> DeliveryEvent:
        checkpoint = self.checkpoints.get(leg.uid)
        # Spark goes by its checkpoint, if it has one: that must not make a difference.
        start = checkpoint.start if checkpoint else command.start
        limits = replace(self.limits, max_rows=self.rng.randint(1, self.limits.max_rows or 1))
        spans = plan(self._taking(leg), start, self.available(leg), limits)
        self.now += 1
        return Planned(spans, self.now) if spans else NothingPlanned()

    def _note_planned(self, leg: Leg, command: RunBatch) -> None:
        delivered = self.delivered(leg)
        start = (delivered.ends if delivered else command.floor).moved_to(command.snapshot.starts)
        end = start.moved_to(command.snapshot.ends)
        self.checkpoints[leg.uid] = Checkpoint(start, end)

    # -- the batch -------------------------------------------------------------------------------

    def _run_batch(self, leg: Leg, command: RunBatch) -> Generator[str, None, DeliveryEvent]:
        try:
            rows = self._rows(leg, command)
        except FunctionFailed as error:
            return BatchFailed("the function failed", error.positions[0])
        tasks = [self._task(leg, command, target, own) for target, own in rows.items()]
        # Now and then a task runs twice, as retries and speculation have it.
        for target, own in rows.items():
            if self.rng.random() < 0.2:
                tasks.append(self._task(leg, command, target, own))
        self.rng.shuffle(tasks)
        failed = False
        while tasks:
            place = self.rng.randrange(len(tasks))
            try:
                yield next(tasks[place])
            except StopIteration:
                del tasks[place]
            if tasks and self.rng.random() < self.fail_tasks:
                del tasks[self.rng.randrange(len(tasks))]
                failed = True
        if failed:
            return BatchFailed("a task was lost")
        return BatchRan(sum(not row.is_nil for own in rows.values() for row in own))

    def _rows(self, leg: Leg, command: RunBatch) -> dict[int, list[SinkRow]]:
        """Read and run the function; how the snapshot is cut must make no difference."""
        snapshot, taking = command.snapshot, self._taking(leg)
        if leg.destination is None:
            parts = whole_partitions(snapshot)
        else:
            parts = splits(taking, snapshot, max_rows=self.rng.choice([None, 1, 2, 3]))
        self.rng.shuffle(parts)
        rows: dict[int, list[SinkRow]] = defaultdict(list)
        for part in parts:
            for target, row in self._rows_of_part(leg, part, command):
                rows[target].append(row)
        return rows

    def _rows_of_part(
        self, leg: Leg, part: Split, command: RunBatch
    ) -> Iterator[tuple[int, SinkRow]]:
        routing = command.snapshot.routing
        for nth in range(len(part)):
            positions = part.positions(nth)
            messages = [
                self.queues[at.source].partitions[at.partition][at.index] for at in positions
            ]
            if leg.destination is None:
                yield positions[0].partition, SinkRow(positions, messages[0].value)
                continue
            outputs = self._outputs(leg, positions, messages, command)
            for ordinal, (key, value) in enumerate(outputs):
                numbered = tuple(at._replace(ordinal=ordinal) for at in positions)
                message = Message(key, value, numbered)
                yield routing.route(key, numbered[0]), SinkRow(numbered, message)
            if not outputs:
                key = messages[0].key
                yield routing.route(key, positions[0]), SinkRow(positions, is_nil=True)

    def _outputs(
        self,
        leg: Leg,
        positions: tuple[Position, ...],
        messages: Sequence[Message],
        command: RunBatch,
    ) -> list[tuple[bytes, Any]]:
        assert leg.destination is not None
        if leg.is_fan_out:
            staged = messages[0].value
            return [(key_of(value), value) for value in staged.part_for(leg.destination)]
        staged = Staged(positions, self._result(leg, positions, messages, command))
        if leg.is_stage:
            # By the key of the input: what a function returns may differ on a replay.
            return [(messages[0].key, staged)]
        return [(key_of(value), value) for value in staged.part_for(leg.destination)]

    def _result(
        self,
        leg: Leg,
        positions: tuple[Position, ...],
        messages: Sequence[Message],
        command: RunBatch,
    ) -> Outputs | Failure:
        values = [message.value for message in messages]
        if any(at in command.poisoned for at in positions):
            is_dropped = self.processor_of(leg).on_error == "drop"
            return Outputs({}) if is_dropped else Failure(f"{values[0]} is poison")
        try:
            return self.processor_of(leg).function(values)
        except ValueError as error:
            raise FunctionFailed(positions) from error

    def _task(
        self, leg: Leg, command: RunBatch, target: int, rows: Sequence[SinkRow]
    ) -> Generator[str]:
        size = self.rng.choice([0, 1, 2])
        task = SinkTask(command.snapshot, target, rows, command.floor, size, command.epoch)
        step: SinkCommand = task.start()
        while not isinstance(step, TaskDone):
            yield f"before {type(step).__name__}"
            event = self._perform_task(leg, step, target)
            yield f"after {type(step).__name__}"
            step = task.handle(event)

    def _perform_task(self, leg: Leg, step: SinkCommand, target: int) -> SinkEvent:
        sink = self.sink_of(leg)
        match step:
            case ReadHighWater():
                return HighWaterRead(self.waters(leg, step.target))
            case WriteRows():
                return self._write(sink, step)
            case Act():
                self._act(leg, step, target)
                return Acted()
        raise AssertionError(step)

    def _act(self, leg: Leg, step: Act, target: int) -> None:
        if leg.destination is None:
            self.effects.update(row.positions for row in step.rows)
            return
        values = [row.value for row in step.rows]
        self.sink_of(leg).partitions[target] += [v for v in values if isinstance(v, Message)]

    def _write(self, sink: Queue, step: WriteRows) -> SinkEvent:
        if not sink.swap(step.marks.target, pack_marks(step.expected), pack_marks(step.marks)):
            return Mismatched()
        values = [row.value for row in step.rows]
        sink.partitions[step.marks.target] += [v for v in values if isinstance(v, Message)]
        return WriteUnknown() if self._is_lost() else Written()

    # -- what is durable -------------------------------------------------------------------------

    def available(self, leg: Leg) -> list[Available]:
        return [one for name in leg.inputs for one in self.queues[name].available()]

    def waters(self, leg: Leg, target: int) -> HighWaters:
        return unpack_marks(leg.uid, target, self.sink_of(leg).registers[target])

    def delivered(self, leg: Leg) -> Delivered | None:
        return unpack_delivered(leg.uid, self.sink_of(leg).registers[0])

    def _commit(self, leg: Leg, expected: Delivered | None, new: Delivered) -> bool:
        old = pack_delivered(expected) if expected else {}
        return self.sink_of(leg).swap(0, old, pack_delivered(new))

    def _situation(self, leg: Leg) -> Situation:
        return Situation(
            uid=leg.uid,
            inputs=frozenset(leg.inputs),
            available=self.available(leg),
            code_version=self.code[leg.uid],
            checkpoint=self.checkpoints.get(leg.uid),
            marks=[self.waters(leg, n) for n in range(len(self.sink_of(leg).partitions))],
            accept_sink_loss=self.accept_sink_loss,
        )

    def _taking(self, leg: Leg) -> Taking:
        return "alts" if leg.is_fan_out else self.processor_of(leg).taking

    def _is_lost(self) -> bool:
        return self.rng.random() < self.lose_answers


def _name(command: DeliveryCommand) -> str:
    if isinstance(command, AppendBacking):
        return f"Append{type(command.record).__name__}"
    return type(command).__name__


def number_of(value: object) -> int:
    """A number that a value always has."""
    return zlib.crc32(str(value).encode())


def key_of(value: object) -> bytes:
    """One of a few keys."""
    return b"key-%d" % (number_of(f"key {value}") % 5)


def values_in(queue: Queue) -> Counter[str]:
    """Everything in a queue, whichever partition it is in."""
    return Counter(str(message.value) for part in queue.partitions for message in part)


def misordered(queue: Queue) -> list[Message]:
    """Messages that stand behind a later one of the same source partition."""
    wrong = []
    for part in queue.partitions:
        latest: dict[SourcePartition, tuple[int, int]] = {}
        for message in part:
            for at in message.came_from:
                place = at.index, at.ordinal
                if place <= latest.get(at.origin, (-1, -1)):
                    wrong.append(message)
                latest[at.origin] = place
    return wrong
