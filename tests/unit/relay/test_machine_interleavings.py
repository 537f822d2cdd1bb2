"""Whatever the order of events: nothing lost, nothing overtaken, only a key's latest repeated."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.unit.relay.world import DOWN, LOST, REFUSED, World
from windrow.relay.failure import Failure
from windrow.relay.machine import BarrierMachine, Lane

KEYS = ["a", "b", "c"]


class Interleavings(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = World()

    @rule(keys=st.lists(st.sampled_from(KEYS), min_size=1, max_size=4))
    def begin(self, keys: list[str]) -> None:
        self.world.begin(keys)

    @precondition(lambda self: self.world.pending)
    @rule(data=st.data())
    def commit(self, data: st.DataObject) -> None:
        self.world.commit(data.draw(st.integers(0, len(self.world.pending) - 1)))

    @precondition(lambda self: self.world.pending)
    @rule(data=st.data())
    def roll_back(self, data: st.DataObject) -> None:
        self.world.roll_back(data.draw(st.integers(0, len(self.world.pending) - 1)))

    @rule()
    def mark(self) -> None:
        self.world.mark()

    @precondition(lambda self: self.world.leader.wire)
    @rule(data=st.data())
    def land(self, data: st.DataObject) -> None:
        self.world.land(data.draw(st.integers(0, len(self.world.leader.wire) - 1)))

    @precondition(lambda self: self.world.leader.wire)
    @rule(data=st.data(), was_written=st.booleans(), failure=st.sampled_from([LOST, DOWN, REFUSED]))
    def fail(self, data: st.DataObject, was_written: bool, failure: object) -> None:
        which = data.draw(st.integers(0, len(self.world.leader.wire) - 1))
        chosen = LOST if was_written else failure
        self.world.fail(which, chosen, was_written)  # type: ignore[arg-type]

    @rule()
    def purge(self) -> None:
        self.world.purge()

    @rule()
    def purge_commits(self) -> None:
        self.world.purge_commits()

    @rule(seconds=st.sampled_from([0.01, 1.0, 60.0]))
    def wait(self, seconds: float) -> None:
        self.world.wait(seconds)

    @rule(data=st.data(), purge_took=st.booleans())
    def crash(self, data: st.DataObject, purge_took: bool) -> None:
        self.world.crash(lambda: data.draw(st.booleans()), purge_took)

    @rule()
    def lose_connection(self) -> None:
        self.world.lose_connection()

    @invariant()
    def the_books_balance(self) -> None:
        self.world.check_books()

    def teardown(self) -> None:
        self.world.settle()
        self.world.verdict()


TestInterleavings = Interleavings.TestCase
TestInterleavings.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)


def wander(world: World, rng: random.Random, steps: int) -> None:
    """Take that many steps at random, the faults among them, then settle and judge."""
    for _ in range(steps):
        wire, pending = world.leader.wire, world.pending
        match rng.choice("bbcccrmmmllllfpPwxd"):
            case "b":
                world.begin(rng.choices(KEYS, k=rng.randint(1, 4)))
            case "c" if pending:
                world.commit(rng.randrange(len(pending)))
            case "r" if pending:
                world.roll_back(rng.randrange(len(pending)))
            case "m":
                world.mark()
            case "l" if wire:
                world.land(rng.randrange(len(wire)))
            case "f" if wire:
                failure = rng.choice([LOST, DOWN, REFUSED])
                world.fail(
                    rng.randrange(len(wire)), failure, failure is LOST and rng.random() < 0.5
                )
            case "p":
                world.purge()
            case "P":
                world.purge_commits()
            case "w":
                world.wait(rng.choice([0.01, 1.0, 60.0]))
            case "x" if rng.random() < 0.3:
                world.crash(lambda: rng.random() < 0.5, rng.random() < 0.5)
            case "d" if rng.random() < 0.2:
                world.lose_connection()
        world.check_books()
    world.settle()
    world.verdict()


def explore(make_world: type[World], seeds: Iterable[int]) -> None:
    for seed in seeds:
        try:
            wander(make_world(), random.Random(seed), steps=150)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error


def test_thousands_of_seeded_interleavings_keep_the_promise(request: pytest.FixtureRequest) -> None:
    explore(World, range(50_000 if request.config.getoption("soak", False) else 1_000))


# -- the naive versions: each breaks the promise, and the search finds it -------------------------


class ReleasesOnAck(World):
    """Lowers the barrier when the record is acknowledged, before its purge has committed."""

    def purge(self) -> None:
        lanes = list(self.leader.acked)
        super().purge()
        self._send(self.leader.machine.on_purged(lanes))

    def purge_commits(self) -> None:
        self._take_purged()


class ResetsOneRow(World):
    """Returns a failed head to the end of its own lane, as a reset of that row alone would."""

    class make_machine(BarrierMachine):
        """Stands in for the attribute of that name."""

        def on_failed(self, lane: Lane, failure: Failure, now: float) -> None:
            if lane.waiting:
                lane.waiting.append(lane.head)
                lane.head = lane.waiting.popleft()
            self._park(lane, now)


class ReadsByOffset(World):
    """Resumes behind the last id it has seen: a transaction that commits late is passed over."""

    offset = 0

    def mark(self) -> None:
        late = {i: self.table.pop(i) for i in list(self.table) if i <= self.offset}
        super().mark()
        self.offset = max([self.offset, *(r.id for r in self.table.values() if r.leader)])
        self.table |= late


class RemarksWithoutSettling(World):
    """Takes its rows up again after a lost connection while their copies are on their way."""

    def lose_connection(self) -> None:
        stale = self.leader
        stale.machine.drop_all()
        self.leader = self._lead()
        self.mark()
        for _ in range(2):
            while self.leader.wire:
                self.land(0)
            self.purge()
            self.purge_commits()
        self.log += [(row.key or "", row.id) for _, row in stale.wire]


@pytest.mark.parametrize(
    "naive", [ReleasesOnAck, ResetsOneRow, ReadsByOffset, RemarksWithoutSettling]
)
def test_a_naive_relay_is_caught(naive: type[World]) -> None:
    with pytest.raises(AssertionError, match=r"seed \d+: "):
        explore(naive, range(500))
