"""A seeded storm over a world: crashes at any step, zombies, losses and changes."""

from __future__ import annotations

import random

from tests.unit.graph.delivery.graphs import fill
from tests.unit.graph.delivery.world import MAX_TARGETS, Died, Driver, World
from windrow.graph.delivery_errors import CodeChanged, Fenced, MarkConflict
from windrow.graph.positions import SourceOffsets
from windrow.graph.recovery import Checkpoint
from windrow.graph.routing import RoutingPin

EXPECTED = Died, Fenced, CodeChanged


class Storm:
    """Walks drivers in random order and breaks things on the way."""

    def __init__(self, world: World, rng: random.Random) -> None:
        self.world, self.rng = world, rng
        self.active: dict[int, Driver] = {}
        self.zombies: list[Driver] = []
        self.kills = 0
        world.lose_answers, world.fail_tasks = 0.02, 0.01

    def rage(self, steps: int) -> None:
        for _ in range(steps):
            self._one_step()
            if self.rng.random() < 0.04:
                self._break_something()
        # Whoever is still paused wakes up in the end, and does what it was about to do.
        for driver in (*self.zombies, *self.active.values()):
            if self.rng.random() < 0.5:
                self._walk_to_end(driver)
        self.active.clear()
        self.zombies.clear()

    def _one_step(self) -> None:
        number = self.rng.randrange(len(self.world.legs))
        if self.zombies and self.rng.random() < 0.2:
            driver = self.rng.choice(self.zombies)
        else:
            driver = self.active.get(number) or self.world.begin(self.world.legs[number])
            self.active[number] = driver
        self.world.walk(driver)
        if driver.is_over or driver.is_idle:
            self._bury(driver)

    def _bury(self, driver: Driver) -> None:
        self.active = {n: own for n, own in self.active.items() if own is not driver}
        self.zombies = [own for own in self.zombies if own is not driver]
        if isinstance(driver.error, CodeChanged):
            self.world.code[driver.leg.uid] = driver.error.taken_with
        elif driver.error is not None and not isinstance(driver.error, EXPECTED):
            raise driver.error

    def _walk_to_end(self, driver: Driver) -> None:
        while not driver.is_over and not driver.is_idle:
            self.world.walk(driver)
        if isinstance(driver.error, MarkConflict):
            raise driver.error

    def _break_something(self) -> None:
        number = self.rng.randrange(len(self.world.legs))
        leg = self.world.legs[number]
        match self.rng.randrange(9):
            case 0 | 1:
                self.kills += self.active.pop(number, None) is not None
            case 2 | 3:
                driver = self.active.pop(number, None)
                if driver is not None:
                    self.zombies.append(driver)
            case 4:
                self._spoil_checkpoint(number)
            case 5:
                self.world.routing[leg.uid] = RoutingPin(self.rng.randint(1, MAX_TARGETS))
            case 6:
                self.world.code[leg.uid] = self.rng.choice(["v1", "v2"])
            case 7:
                self._set_sink_back()
            case _:
                self._add_or_lose(number)

    def _spoil_checkpoint(self, number: int) -> None:
        """Gone, or an older one, or one that never was; the driver is gone with it."""
        uid = self.world.legs[number].uid
        self.active.pop(number, None)
        old = self.world.old_checkpoints[uid]
        if old and self.rng.random() < 0.5:
            self.world.checkpoints[uid] = self.rng.choice(old)
        elif self.rng.random() < 0.2:
            self.world.checkpoints[uid] = Checkpoint(SourceOffsets())
        else:
            self.world.checkpoints.pop(uid, None)

    def _set_sink_back(self) -> None:
        """An operator stops the processor and restores its sink, as it was, from a backup."""
        leg = self.world.legs[-1]
        if not self.world.backups or leg.destination is None:
            return  # claims of effects that were set back would have to be repeated
        self.active.pop(len(self.world.legs) - 1, None)
        self.zombies = [own for own in self.zombies if own.leg is not leg]
        self.world.sink_of(leg).restore(self.rng.choice(self.world.backups))

    def _add_or_lose(self, number: int) -> None:
        if self.rng.random() < 0.6:
            for name in ("s1", "s2"):
                if name in self.world.queues:
                    fill(self.world, self.world.queues[name], self.rng.randint(0, 2))
            return
        # The backing journal loses what it says; its owner register stays.
        leg = self.world.legs[number]
        self.active.pop(number, None)
        journal = self.world.journals[leg.uid]
        del journal.lines[self.rng.randrange(len(journal.lines) + 1) :]
