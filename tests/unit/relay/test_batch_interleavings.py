"""Transactional mode, whatever dies and whenever: nothing lost, nothing doubled, order kept.

The model: an outbox whose transactions commit late, a target that commits a batch with its name or
not at all, answers that get lost after the deed was done, leaders that die anywhere, and zombies
that go on as if nothing had happened.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from uuid import UUID

import pytest

from windrow.outbox.marked import Marked
from windrow.relay.batch_machine import (
    AskOutbox,
    AskTarget,
    BatchMachine,
    BatchMarked,
    BatchName,
    Command,
    Committed,
    CommitUnknown,
    Event,
    FenceTarget,
    Finish,
    Isolate,
    Isolated,
    MarkFailed,
    Publish,
    PurgeAndMark,
    ReadBack,
    Rejected,
    Rest,
    Rested,
    TargetFenced,
    Unnamed,
)
from windrow.relay.failure import Failure, FailureKind

LOST = Failure(FailureKind.UNKNOWN, "timed-out", "no answer")
TOO_LARGE = Failure(FailureKind.PERMANENT, "too-large", "never")
KEYS = "abc"


class Died(Exception):
    """The leader is gone: nobody hears what happened."""


class Alarm(AssertionError):
    """A purge hit some rows of a batch and not all."""


@dataclass
class Row:
    id: int
    key: str
    name: UUID | None = None
    is_poison: bool = False


@dataclass
class World:
    rng: random.Random
    ids: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    names: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    pending: list[list[Row]] = field(default_factory=list)
    table: dict[int, Row] = field(default_factory=dict)
    written: dict[str, list[int]] = field(default_factory=dict)
    buried: set[int] = field(default_factory=set)
    log: list[tuple[str, int]] = field(default_factory=list)
    state: BatchName | None = None
    epoch: int = 0
    producer_epoch: int = 0
    trouble: float = 0.15

    def new_uuid(self) -> UUID:
        return UUID(int=next(self.names))

    # -- the services ----------------------------------------------------------------------------

    def services_work(self) -> None:
        if self.rng.random() < 0.6:
            locked = {row.key for rows in self.pending for row in rows}
            keys = [key for key in self.rng.choices(KEYS, k=3) if key not in locked]
            poison = self.rng.random() < 0.05
            self.pending.append([Row(next(self.ids), key, None, poison) for key in keys])
        if self.pending and self.rng.random() < 0.6:
            self.commit_one()

    def commit_one(self) -> None:
        for row in self.pending.pop(self.rng.randrange(len(self.pending))):
            self.table[row.id] = row
            self.written.setdefault(row.key, []).append(row.id)

    # -- what may go wrong between a deed and its answer ------------------------------------------

    def happens(self) -> bool:
        return self.rng.random() < self.trouble

    def may_die(self) -> None:
        if self.happens() and self.rng.random() < 0.5:
            raise Died

    # -- the outbox ------------------------------------------------------------------------------

    def ask_outbox(self, epoch: int) -> Event:
        if epoch != self.epoch:
            raise Died  # fenced
        if any(row.name for row in self.table.values()):
            raise Alarm("the target has forgotten a batch")
        return Unnamed()

    def look_ahead(self, beside: Iterable[int]) -> list[int]:
        held = set(beside)
        return [record for record in sorted(self.table) if record not in held][:4]

    def purge_and_mark(self, command: PurgeAndMark, epoch: int, ahead: list[int]) -> Event:
        if self.happens():
            return MarkFailed()
        if epoch != self.epoch:
            raise Died  # fenced: it changes nothing
        self.purge(command.committed)
        rows = self.mark(command.next, ahead)
        self.may_die()
        return MarkFailed() if self.happens() else BatchMarked(rows)

    def purge(self, batch: BatchName | None) -> None:
        if batch is None:
            return
        mine = [row.id for row in self.table.values() if row.name == batch.uuid]
        if len(mine) not in (0, batch.count):
            raise Alarm(f"{len(mine)} of {batch}")
        for record in mine:
            del self.table[record]

    def mark(self, name: UUID | None, ahead: list[int]) -> list[Marked]:
        if name is None:
            return []
        if not all(record in self.table for record in ahead):
            ahead = []
        rows = [self.table[record] for record in ahead or sorted(self.table)[:4]]
        for row in rows:
            row.name = name
        return [Marked(row.id, "topic", row.key, b"", None, None) for row in rows]

    # -- the target ------------------------------------------------------------------------------

    def publish(self, command: Publish, producer_epoch: int) -> Event:
        if producer_epoch != self.producer_epoch:
            raise Died  # fenced by the target
        poison = [row for row in command.rows if self.table[row.id].is_poison]
        if poison:
            return Rejected([(row, TOO_LARGE) for row in poison])
        if self.happens():
            return CommitUnknown(LOST)
        self.log += [(row.key or "", row.id) for row in command.rows]
        self.state = command.batch
        self.may_die()
        return CommitUnknown(LOST) if self.happens() else Committed()

    def isolate(self, command: Isolate, epoch: int) -> Event:
        if epoch != self.epoch:
            raise Died  # fenced
        for row, _ in command.failures:
            self.buried.add(row.id)
            self.table.pop(row.id, None)
        self.may_die()
        return Isolated()

    # -- the verdict -----------------------------------------------------------------------------

    def verdict(self) -> None:
        seen: dict[str, list[int]] = {}
        for key, record in self.log:
            seen.setdefault(key, []).append(record)
        wanted = {
            key: [record for record in records if record not in self.buried]
            for key, records in self.written.items()
        }
        assert seen == {key: records for key, records in wanted.items() if records}


class Leader:
    """One process that leads: performs the machine's commands on the world."""

    def __init__(self, world: World) -> None:
        world.epoch += 1
        self.world, self.epoch = world, world.epoch
        self.producer_epoch = 0
        self.machine = BatchMachine(new_uuid=world.new_uuid)
        self.ahead: tuple[BatchName, list[int]] | None = None
        self.command: Command = self.machine.start()

    def step(self) -> None:
        self.command = self.machine.handle(self.perform(self.command))

    def perform(self, command: Command) -> Event:
        world = self.world
        match command:
            case FenceTarget():
                if world.happens():
                    return CommitUnknown(LOST)
                # A zombie fences too, and costs the leader its client: the outbox stops it next.
                world.producer_epoch += 1
                self.producer_epoch = world.producer_epoch
                return TargetFenced()
            case AskTarget():
                return CommitUnknown(LOST) if world.happens() else ReadBack(world.state)
            case AskOutbox():
                return world.ask_outbox(self.epoch)
            case PurgeAndMark():
                return self.purge_and_mark(command)
            case Publish():
                if self.ahead is None and world.rng.random() < 0.5:
                    beside = [row.id for row in command.rows]
                    self.ahead = command.batch, world.look_ahead(beside)
                return world.publish(command, self.producer_epoch)
            case Isolate():
                return world.isolate(command, self.epoch)
            case Rest():
                return Rested()
            case _:
                raise AssertionError(command)

    def purge_and_mark(self, command: PurgeAndMark) -> Event:
        """Name what was read ahead, and read what comes after it beside both batches."""
        world, rows = self.world, self.take_ahead(command)
        if rows and command.next is not None and world.rng.random() < 0.5:
            beside = [*command.ids, *rows]
            self.ahead = BatchName(command.next, len(rows)), world.look_ahead(beside)
            world.services_work()
        event = world.purge_and_mark(command, self.epoch, rows)
        if isinstance(event, BatchMarked) and [row.id for row in event.rows] != rows:
            self.ahead = None
        return event

    def take_ahead(self, command: PurgeAndMark) -> list[int]:
        ahead, self.ahead = self.ahead, None
        fits = ahead is not None and ahead[0] == command.committed and command.ids
        return ahead[1] if ahead and fits else []


def wander(seed: int, make_leader: Callable[[World], Leader] = Leader) -> None:
    """A hundred steps with faults, then none, until all is delivered."""
    world = World(random.Random(seed))
    leader, zombies = make_leader(world), list[Leader]()
    for _ in range(100):
        world.services_work()
        actor = world.rng.choice([leader, leader, leader, *zombies])
        try:
            actor.step()
        except Died:
            if actor is leader:
                leader = make_leader(world)
            else:
                zombies.remove(actor)
        if world.rng.random() < 0.03:  # paused, and somebody else takes over
            zombies.append(leader)
            leader = make_leader(world)
    world.trouble = 0.0
    while world.pending:
        world.commit_one()
    for _ in range(5_000):
        if not world.table:
            break
        try:
            leader.step()
        except Died:
            leader = make_leader(world)
    world.verdict()


def explore(seeds: Iterable[int], make_leader: Callable[[World], Leader] = Leader) -> None:
    for seed in seeds:
        try:
            wander(seed, make_leader)
        except (AssertionError, KeyError) as error:
            raise AssertionError(f"seed {seed}: {error!r}") from error


def test_thousands_of_interleavings_deliver_exactly_once(request: pytest.FixtureRequest) -> None:
    explore(range(100_000 if request.config.getoption("soak", False) else 2_000))


def test_a_clean_stop_leaves_nothing_in_doubt() -> None:
    world = World(random.Random(1), trouble=0.0)
    leader = Leader(world)
    for _ in range(60):
        world.services_work()
        leader.step()
    leader.machine.request_stop()
    while not isinstance(leader.command, Finish):
        leader.step()
    unsent = set(world.table)
    assert unsent.isdisjoint(record for _, record in world.log)


def test_a_target_that_forgot_its_last_batch_is_not_written_to() -> None:
    """The state topic deleted while rows carry a name: nobody can tell whether those were sent."""
    world = World(random.Random(1), trouble=0.0)
    leader = Leader(world)
    while not any(row.name for row in world.table.values()):
        world.services_work()
        leader.step()
    sent, world.state = list(world.log), None
    successor = Leader(world)
    while not isinstance(successor.command, AskOutbox):
        successor.step()
        assert world.log == sent
    with pytest.raises(Alarm, match="forgotten"):
        successor.step()


def test_a_batch_that_was_purged_is_not_purged_again() -> None:
    """Else every look at an empty outbox would search it for the name of a batch long gone."""
    world = World(random.Random(1), trouble=0.0)
    world.table[1] = Row(1, "a")
    leader, purged = Leader(world), list[UUID]()
    for _ in range(20):
        leader.step()
        if isinstance(leader.command, PurgeAndMark) and leader.command.committed is not None:
            purged.append(leader.command.committed.uuid)
    assert [key for key, _ in world.log] == ["a"]
    assert len(purged) == 1


# -- the naive versions ---------------------------------------------------------------------------


class GuessesThatItFailed(Leader):
    """Takes a commit of unknown outcome for a failed one and marks the rows again."""

    def perform(self, command: Command) -> Event:
        event = super().perform(command)
        if isinstance(command, Publish) and isinstance(event, CommitUnknown):
            return Rejected([])
        return event


class DoesNotReadBack(Leader):
    """Believes that its predecessor left nothing behind."""

    def perform(self, command: Command) -> Event:
        return ReadBack(None) if isinstance(command, AskTarget) else super().perform(command)


class KeepsTheName(Leader):
    """Marks again under the same name after an unknown outcome: one name, two sets of rows."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        name = world.new_uuid()
        self.machine._new_uuid = lambda: name


class PurgesApart(Leader):
    """Marks the next batch although the purge of the last one did not go through."""

    def perform(self, command: Command) -> Event:
        if isinstance(command, PurgeAndMark) and command.committed and self.world.happens():
            rows = [row for row in self.world.table.values() if row.name != command.committed.uuid]
            if command.next is None or self.epoch != self.world.epoch:
                return MarkFailed()
            for row in rows[:4]:
                row.name = command.next
            return BatchMarked([Marked(r.id, "t", r.key, b"", None, None) for r in rows[:4]])
        return super().perform(command)


class LeavesRowsUnderTheName(Leader):
    """Leaves a refused row out of the batch and commits the rest under the same name."""

    def perform(self, command: Command) -> Event:
        if isinstance(command, Publish):
            fit = [row for row in command.rows if not self.world.table[row.id].is_poison]
            command = Publish(command.batch, fit)
        return super().perform(command)


class TrustsWhatItReadAhead(Leader):
    """Names what it read ahead, whatever became of the batch that it was read beside."""

    def take_ahead(self, command: PurgeAndMark) -> list[int]:
        ahead, self.ahead = self.ahead, None
        return ahead[1] if ahead else []


@pytest.mark.parametrize(
    "naive",
    [
        GuessesThatItFailed,
        DoesNotReadBack,
        KeepsTheName,
        PurgesApart,
        LeavesRowsUnderTheName,
        TrustsWhatItReadAhead,
    ],
)
def test_a_naive_version_is_caught(naive: type[Leader]) -> None:
    with pytest.raises(AssertionError, match=r"seed \d+"):
        explore(range(300), naive)
