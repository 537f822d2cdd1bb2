"""Whoever stalls, dies or wakes, and whenever: no two lead, and in the end one does."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from tests.unit.relay.election.neli_world import TIMING, Process, World
from windrow.relay.election.neli_machine import NeliMachine, Returned

PAUSES = [0.0, 0.0, 0.0, 0.02, 0.15, 0.6, TIMING.session_timeout + 0.2]
WAITS = [0.01, 0.1, 0.5, TIMING.heartbeat_timeout, TIMING.session_timeout + 0.1]
SIZE = 3


class Interleavings(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = World(SIZE)

    def process(self, number: int) -> Process:
        return self.world.processes[number]

    @rule(seconds=st.sampled_from(WAITS))
    def wait(self, seconds: float) -> None:
        self.world.wait(seconds)

    @rule(number=st.integers(0, SIZE - 1))
    def beat(self, number: int) -> None:
        self.world.beat(self.process(number))

    @rule(number=st.integers(0, SIZE - 1))
    def deliver(self, number: int) -> None:
        self.world.deliver(self.process(number))

    @rule(number=st.integers(0, SIZE - 1))
    def answer(self, number: int) -> None:
        self.world.answer(self.process(number))

    @rule(number=st.integers(0, SIZE - 1), data=st.data())
    def pulse(self, number: int, data: st.DataObject) -> None:
        self.world.pulse(self.process(number), lambda: data.draw(st.sampled_from(PAUSES)))

    @rule(number=st.integers(0, SIZE - 1), is_heard=st.booleans())
    def go_round(self, number: int, is_heard: bool) -> None:
        go_round(self.world, self.process(number), is_heard)

    @rule()
    def ask_back(self) -> None:
        self.world.ask_back()

    @rule(number=st.integers(0, SIZE - 1))
    def resign(self, number: int) -> None:
        self.world.resign(self.process(number))

    @rule(number=st.integers(0, SIZE - 1))
    def kill(self, number: int) -> None:
        self.world.kill(self.process(number))

    @rule(number=st.integers(0, SIZE - 1))
    def restart(self, number: int) -> None:
        self.world.restart(self.process(number))

    def teardown(self) -> None:
        self.world.settle()


TestInterleavings = Interleavings.TestCase
TestInterleavings.settings = settings(max_examples=100, stateful_step_count=50, deadline=None)


def go_round(world: World, process: Process, is_heard: bool) -> None:
    """What a process does in a few undisturbed pulses: publish, hear, prove, lead.

    Without a heartbeat to the group it joins no group, and does not learn that it was expelled.
    """
    for _ in range(4):
        if is_heard:
            world.beat(process)
        world.pulse(process, lambda: 0.0)
        world.deliver(process)
        world.answer(process)
        world.wait(TIMING.min_poll_interval)


def wander(world: World, rng: random.Random, steps: int) -> None:
    for _ in range(steps):
        process = rng.choice(world.processes)
        match rng.choice("wwbbbddaapppggerkR"):
            case "w":
                world.wait(rng.choice(WAITS))
            case "b":
                world.beat(process)
            case "d":
                world.deliver(process)
            case "a":
                world.answer(process)
            case "p":
                world.pulse(process, lambda: rng.choice(PAUSES))
            case "g":
                go_round(world, process, rng.random() < 0.6)
            case "e":
                world.ask_back()
            case "r" if rng.random() < 0.3:
                world.resign(process)
            case "k" if rng.random() < 0.3:
                world.kill(process)
            case "R":
                world.restart(process)
    world.settle()


def explore(make_world: type[World], seeds: Iterable[int]) -> None:
    for seed in seeds:
        try:
            wander(make_world(), random.Random(seed), steps=120)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error


def test_hundreds_of_seeded_interleavings_give_one_leader(request: pytest.FixtureRequest) -> None:
    explore(World, range(50_000 if request.config.getoption("soak", False) else 600))


# -- the naive versions: with each of them two lead, or may, and the search finds it --------------


class Unproven(NeliMachine):
    """Needs no commit: what was read is proof enough, though Kafka lets anybody read."""

    def on_heartbeat(self, value: bytes, offset: int) -> None:
        super().on_heartbeat(value, offset)
        if self._returned is not None:
            self._proven_at = max(self._proven_at, self._returned.sent_at)


class FetchingIsEnough(World):
    """Fenced by the clock, but a process that was expelled proves itself with new heartbeats."""

    make_machine = Unproven


class ByReceiptTime(World):
    """goneli: any heartbeat, ours or not, old or new, counts from when it was read."""

    make_machine = Unproven

    def _hear(self, process: Process, value: bytes, offset: int) -> None:
        process.machine._returned = Returned(self.now, offset + 1)
        process.machine._proven_at = self.now
        process.heard_at = self.now  # blinds the check of the send time: two leaders are found


class ByAnswerTime(World):
    """Counts from when the group's answer is read: it may have waited in a buffer."""

    def _read(self, process: Process, pauses: object) -> None:
        answered = any(was_accepted for _, was_accepted in process.answers)
        super()._read(process, pauses)  # type: ignore[arg-type]
        if answered and process.machine.is_assigned:
            process.machine._proven_at = self.now


class ByAssignment(World):
    """Leads as long as it believes in its assignment."""

    class make_machine(NeliMachine):
        """Stands in for the attribute of that name."""

        def on_assigned(self) -> None:
            super().on_assigned()
            self._proven_at = 1e6  # but for ever, whatever the heartbeats say
            self._returned = Returned(1e6, 0)


@pytest.mark.parametrize(
    ("naive", "trouble"),
    [
        (FetchingIsEnough, "two lead|on its way"),
        (ByReceiptTime, "two lead|on its way"),
        (ByAnswerTime, "two lead|on its way"),
        (ByAssignment, "two lead|outlives|on its way"),
    ],
)
def test_a_naive_election_is_caught(naive: type[World], trouble: str) -> None:
    with pytest.raises(AssertionError, match=rf"seed \d+: .*({trouble})"):
        explore(naive, range(600))


def test_the_right_counted_from_the_receipt_is_caught_by_its_length_alone() -> None:
    """Even where nobody else leads yet: a third of the session is meant from the sending."""

    class FromReceipt(World):
        def _hear(self, process: Process, value: bytes, offset: int) -> None:
            super()._hear(process, value, offset)
            returned = process.machine._returned
            if returned is not None and math.isfinite(returned.sent_at):
                process.machine._returned = Returned(self.now, returned.next_offset)

    with pytest.raises(AssertionError, match="outlives"):
        explore(FromReceipt, range(100))
