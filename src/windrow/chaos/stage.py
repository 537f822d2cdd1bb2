"""What a scenario acts on, and what is noted of its acts.

`World` is everything that can be struck; the stage adds the time that a scenario has, the dice, and
the notes: when which fault was there, and how often it struck.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from windrow.chaos.errors import Stuck
from windrow.chaos.options import Options
from windrow.chaos.outcome import Stretch

_LOOK = 0.02
"""Nothing here tells by itself that it has changed: it is asked again and again."""


class World(Protocol):
    """The services under load, and how each can be struck."""

    def kill_receiver(self) -> None:
        """SIGKILL; what it has kept stays."""

    def restart_receiver(self) -> None:
        """Bring it up again on what it has kept; returns when it answers."""

    def set_fault(self, **fault: Any) -> None:
        """Have the receiver be unkind, as its ``/faults`` says; without arguments it is well."""

    def kill_database(self) -> None:
        """SIGKILL all its processes."""

    def restart_database(self) -> None:
        """Bring it up again on its data."""

    def relay_names(self) -> list[str]:
        """The relays that run."""

    def start_relay(self, skew: float = 0.0) -> str:
        """Start another one, its calendar wrong by so many seconds; returns its name."""

    def kill_relay(self, name: str) -> None:
        """SIGKILL."""

    def pause_relay(self, name: str) -> None:
        """SIGSTOP."""

    def resume_relay(self, name: str) -> None:
        """SIGCONT."""

    def want_kill(self, point: str) -> None:
        """Have the next relay that comes by this point be gone at once."""

    def killed_at(self, point: str) -> str | None:
        """The relay that was killed there since it was wanted, if one was; it is off the list."""

    def want_wait(self, point: str) -> None:
        """Have the next relay that comes by this point wait there."""

    def waiting_at(self, point: str) -> str | None:
        """The relay that waits there, if one does."""

    def release(self, point: str) -> None:
        """Let it go on."""

    def delay_network(self, seconds: float) -> None:
        """Hold every byte on the way to the receiver and back that long."""

    def stall_network(self) -> None:
        """Let no byte pass, with all connections open."""

    def reset_network(self) -> None:
        """Lose what is on its way, with all connections, and let bytes pass again."""

    def waiting(self) -> int | None:
        """Messages in the outbox; None if the database does not say."""

    def buried(self) -> int | None:
        """Dead letters; None if the database does not say."""

    def retry_buried(self) -> int:
        """Put all dead letters back into the outbox; returns how many."""

    @property
    def lock_expiry(self) -> float:
        """Seconds that a claim of a relay holds."""


class Stage:
    """One scenario's time, dice and notes."""

    def __init__(
        self,
        world: World,
        options: Options,
        dice: random.Random,
        tick: Callable[[float], None] = lambda seconds: None,
    ) -> None:
        """Begin now.

        Args:
            world: What is struck.
            options: How long, and with how much load.
            dice: For what is left to chance.
            tick: Told again and again how many seconds have passed.
        """
        self.world, self.options, self.dice, self._tick = world, options, dice, tick
        self.began, self.began_at = time.monotonic(), time.time()
        self.strikes = 0
        self.most_buried = 0
        self.fault_ended_at = self.began_at
        self._stretches: list[Stretch] = []

    @property
    def stretches(self) -> Sequence[Stretch]:
        """What happened when."""
        return tuple(self._stretches)

    def elapse(self, share: float) -> None:
        """Let the stream run on for that share of the scenario's seconds."""
        end = time.monotonic() + share * self.options.seconds
        self.wait(lambda: time.monotonic() >= end, "the time of the scenario")

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        """Return when it holds.

        Raises:
            Stuck: The scenario's own deadline has passed.
        """
        while not condition():
            passed = time.monotonic() - self.began
            self._tick(passed)
            if passed > self.options.deadline:
                raise Stuck(what, self.options.deadline)
            time.sleep(_LOOK)  # processes and databases set no event: they are asked again

    @contextmanager
    def fault(self, label: str) -> Iterator[None]:
        """The stretch during which a fault is there; counts as one strike."""
        began = time.monotonic() - self.began
        self.strikes += 1
        try:
            yield
        finally:
            ended = time.monotonic() - self.began
            self.fault_ended_at = time.time()
            self._stretches.append(Stretch(label, round(began, 3), round(ended, 3)))

    def struck(self, label: str) -> None:
        """A fault that is over as soon as it has happened, such as a kill."""
        self.strikes += 1
        self.fault_ended_at = time.time()
        at = round(time.monotonic() - self.began, 3)
        self._stretches.append(Stretch(label, at))

    def note_buried(self) -> None:
        """Remember how many dead letters there are, if they have never been so many."""
        self.most_buried = max(self.most_buried, self.world.buried() or 0)
