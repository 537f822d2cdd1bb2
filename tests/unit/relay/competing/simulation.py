"""Several competing relays, their outbox and their receivers, in a time of their own.

Everything that can go wrong does: statements whose answer is lost, a database that is away, relays
that die or stand still, receivers that are silent, refuse, or take a message and never say so. Each
send is noted with why its row was due, and a second one without an excuse fails the run.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any
from uuid import uuid4

from tests.unit.relay.competing.memory import MemoryClaims
from windrow.config.competing import Competing
from windrow.relay.competing.contract import Claim, Delivered, Later, Outcome, Refused
from windrow.relay.competing.machine import CompetingMachine
from windrow.relay.competing.steps import (
    Abandon,
    ClaimRows,
    End,
    FinishRows,
    ReleaseRows,
    RenewRows,
    Rest,
    StoreStep,
)

SETTINGS = Competing(
    batch=8,
    concurrency=4,
    lock_expiry=10.0,
    retry_delay=0.5,
    max_retry_delay=8.0,
    max_attempts=4,
)


@dataclass
class Faults:
    """How likely things go wrong, each time they could."""

    lost_statement: float = 0.0
    crash: float = 0.0
    stall: float = 0.0
    refusal: float = 0.0
    failure: float = 0.0
    swallowed: float = 0.0
    """The receiver takes it, and the answer is a time-out."""


@dataclass
class World:
    """The clock, the outbox, the receivers, and what each message went through."""

    random: Random
    faults: Faults
    now: float = 0.0
    database_is_up: bool = True
    silent: set[str] = field(default_factory=set)
    relays: list[SimulatedRelay] = field(default_factory=list)
    sent: Counter[int] = field(default_factory=Counter)
    arrived: Counter[int] = field(default_factory=Counter)
    excuses: Counter[int] = field(default_factory=Counter)
    failed: Counter[int] = field(default_factory=Counter)
    """How often a receiver said that it failed."""
    orphaned: Counter[int] = field(default_factory=Counter)
    """How often a message was left behind by a relay that died, or stood still for too long."""
    poison: set[int] = field(default_factory=set)
    """Messages that kill whoever sends them."""
    refused: set[int] = field(default_factory=set)
    repeated: list[int] = field(default_factory=list)
    """Messages that were sent again without an excuse."""
    _events: list[tuple[float, int, Callable[[], object]]] = field(default_factory=list)
    _numbers: Any = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        self.store = MemoryClaims(lambda: self.now)

    def at(self, delay: float, act: Callable[[], object]) -> None:
        heapq.heappush(self._events, (self.now + delay, next(self._numbers), act))

    def run_until(self, time: float) -> None:
        while self._events and self._events[0][0] <= time:
            self.now, _, act = heapq.heappop(self._events)
            act()
        self.now = time

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def start(self) -> SimulatedRelay:
        relay = SimulatedRelay(self)
        self.relays.append(relay)
        relay.pump()
        return relay

    def note_send(self, claim: Claim) -> None:
        self.sent[claim.id] += 1
        if self.sent[claim.id] > 1 + self.excuses[claim.id]:
            self.repeated.append(claim.id)

    def excuse(self, row: int) -> None:
        """Its last send may be followed by another."""
        self.excuses[row] = max(self.excuses[row], self.sent[row])


class SimulatedRelay:
    """A machine and the shell around it, as events."""

    def __init__(self, world: World) -> None:
        self.world, self.token = world, uuid4()
        self.machine = CompetingMachine(
            SETTINGS, lambda topic: topic.partition("/")[0], world.random.random
        )
        self.is_alive = True
        self.is_busy = False
        self.has_ended = False
        self.stalled_until = 0.0
        self.on_the_way: set[int] = set()
        self._looks = 0

    def pump(self) -> None:
        if not self.is_alive or self.is_busy or self.has_ended:
            return
        if self.world.now < self.stalled_until:
            self.world.at(self.stalled_until - self.world.now, self.pump)
            return
        self._send()
        step = self.machine.next_step(self.world.now)
        match step:
            case End():
                self.has_ended = True
            case Rest():
                self._looks += 1
                look = self._looks
                self.world.at(
                    max(0.0, step.until - self.world.now),
                    lambda: self.pump() if look == self._looks else None,
                )
            case Abandon():
                for row in step.ids:
                    self.on_the_way.discard(row)
                    self.world.excuse(row)
                self.machine.on_abandoned(step)
                self.pump()
            case _:
                self._ask(step)

    def _ask(self, step: StoreStep) -> None:
        """The statement gets there after a while, and its answer back after another."""
        self.is_busy = True
        began = self.world.now
        there = self.world.random.uniform(0.0005, 0.01)
        self.world.at(there, lambda: self._apply(step, began))

    def _apply(self, step: StoreStep, began: float) -> None:
        world = self.world
        is_lost = world.chance(world.faults.lost_statement)
        reaches = world.database_is_up and not (is_lost and world.chance(0.5))
        result = self._perform(step) if reaches else None
        if world.chance(world.faults.crash):
            self.crash()
            return
        answer = None if is_lost or not world.database_is_up else (result,)
        world.at(world.random.uniform(0.0005, 0.01), lambda: self._on_answer(step, answer, began))

    def _perform(self, step: StoreStep) -> Any:
        store, world = self.world.store, self.world
        match step:
            case ClaimRows():
                # A row whose lease has ended may be sent again, whatever became of the first send.
                for row in store.rows.values():
                    if row.token is not None and row.not_before <= world.now:
                        world.excuse(row.id)
                asked = step.limit, SETTINGS.lock_expiry, step.topics, step.suspects
                claims = store.claim(self.token, *asked)
                world.orphaned.update(claim.id for claim in claims if claim.is_orphan)
                return claims
            case FinishRows():
                for retry in step.retries:
                    world.excuse(retry.id)
                return store.finish(self.token, step.delivered, step.retries, step.burials)
            case RenewRows():
                return store.renew(self.token, step.ids, SETTINGS.lock_expiry)
            case ReleaseRows():
                return store.release(self.token, step.ids)

    def _on_answer(self, step: StoreStep, answer: tuple[Any] | None, began: float) -> None:
        world = self.world
        if not self.is_alive:
            return
        if world.now < self.stalled_until:
            world.at(self.stalled_until - world.now, lambda: self._on_answer(step, answer, began))
            return
        self.is_busy = False
        if answer is None:
            self.machine.on_failed(step)
            if self.machine.is_overdue(world.now):
                self.machine.give_up()
            self.is_busy = True
            world.at(0.2, self._on_reconnected)
            return
        match step:
            case ClaimRows():
                self.machine.on_claimed(step, answer[0], began, world.now)
            case FinishRows():
                self.machine.on_finished(step, answer[0])
            case RenewRows():
                self.machine.on_renewed(step, answer[0], began)
            case ReleaseRows():
                self.machine.on_released(step)
        self.machine.take_events()
        self.pump()

    def _on_reconnected(self) -> None:
        self.is_busy = False
        self.pump()

    # -- messages --------------------------------------------------------------------------------

    def _send(self) -> None:
        world = self.world
        for claim in self.machine.to_send(world.now):
            assert claim.id not in self.on_the_way, "sent beside itself"
            self.on_the_way.add(claim.id)
            world.note_send(claim)
            if claim.id in world.poison:
                self.crash()
                return
            delay = world.random.uniform(0.001, 0.05)
            world.at(delay, lambda claim=claim: self._arrive(claim))  # type: ignore[misc]

    def _arrive(self, claim: Claim) -> None:
        """The request is at the receiver, whether or not its sender still lives."""
        outcome = self._receive(claim)
        delay = self.world.random.uniform(0.001, 0.05)
        if isinstance(outcome, Later) and outcome.reason == "time-out":
            delay = self.world.random.uniform(1.0, 15.0)  # longer than a lease, now and then
        self.world.at(delay, lambda: self._on_outcome(claim, outcome))

    def _receive(self, claim: Claim) -> Outcome:
        world, faults = self.world, self.world.faults
        if claim.topic.partition("/")[0] in world.silent:
            return Later("connection refused", is_outage=True)
        if world.chance(faults.swallowed):
            world.arrived[claim.id] += 1
            world.failed[claim.id] += 1
            return Later("time-out")
        if world.chance(faults.failure):
            world.failed[claim.id] += 1
            return Later("500")
        if world.chance(faults.refusal):
            world.refused.add(claim.id)
            return Refused("400")
        world.arrived[claim.id] += 1
        return Delivered()

    def _on_outcome(self, claim: Claim, outcome: Outcome) -> None:
        world = self.world
        if not self.is_alive or claim.id not in self.on_the_way:
            return
        if world.now < self.stalled_until:
            world.at(self.stalled_until - world.now, lambda: self._on_outcome(claim, outcome))
            return
        self.on_the_way.discard(claim.id)
        self.machine.on_outcome(claim.id, outcome, world.now)
        if world.chance(world.faults.crash / 4):
            self.crash()
        elif world.chance(world.faults.stall):
            self.stalled_until = world.now + world.random.uniform(1.0, 30.0)
        self._send_if_awake()
        self.pump()

    def _send_if_awake(self) -> None:
        if self.is_alive and self.world.now >= self.stalled_until:
            self._send()

    def crash(self) -> None:
        """Gone at once; another comes soon."""
        self.is_alive = False
        for row in self.on_the_way:
            self.world.excuse(row)
        for held in self.world.store.rows.values():
            if held.token == self.token:
                self.world.excuse(held.id)  # sent, answered, and not finished
        self.world.at(self.world.random.uniform(0.0, 2.0), self.world.start)

    def stop(self, drain: float) -> None:
        self.machine.stop(self.world.now, drain)
        self.pump()
