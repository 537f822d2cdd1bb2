"""What an election gives: the right to lead, and until when.

The right is good until ``valid_until`` by this machine's monotonic clock, counted from before the
question was asked, so that a slow answer shortens it and never stretches it. A record that is
handed to a producer may still be written ``delivery_timeout`` later; so a leader hands over only
what is settled before anybody else may lead, and whoever takes over can be sure that nothing is on
its way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from windrow.errors import WindrowError
from windrow.relay.election.plan import WHOLE, Plan


@dataclass(frozen=True, slots=True)
class Leading:
    """The right to lead a shard."""

    epoch: int
    valid_until: float
    exclusive_until: float | None = None
    """Before when nobody else leads, where an election lets more time pass after the right ends."""
    shard: int = 0
    plan: Plan = WHOLE
    is_asked_back: bool = False
    """Whether it is time to hand over: finish what is on its way, then resign from the shard."""

    def sends_until(self, delivery_timeout: float, margin: float) -> float:
        """Until when a record may be handed over, to be settled before anybody else may lead."""
        free = self.valid_until if self.exclusive_until is None else self.exclusive_until
        return min(self.valid_until, free - delivery_timeout) - margin

    def may_send(self, now: float, delivery_timeout: float, margin: float) -> bool:
        """Whether a record handed over now is settled before anybody else may lead."""
        return now <= self.sends_until(delivery_timeout, margin)


class Election(Protocol):
    """A way to decide who leads an outbox that is not shared. Called from one thread only."""

    pulse_interval: float
    """Seconds between two pulses."""

    def pulse(self) -> Leading | None:
        """Stand, or stay, for leadership; None while somebody else leads.

        Raises:
            Failed: The arbiter gave no answer; what was granted before holds until it runs out.
        """

    def resign(self) -> None:
        """Give leadership up at once, so that nobody has to wait for it to run out."""

    def close(self) -> None:
        """Let go of connections, without resigning."""


@runtime_checkable
class Opens(Protocol):
    """An election with something to see to before the first pulse."""

    def open(self) -> None:
        """See that it can elect at all.

        Raises:
            Unreachable: The arbiter gave no answer, and may another time.
            WindrowError: It can never elect like this.
        """


@runtime_checkable
class HandsOver(Protocol):
    """An election that may take the lead away while the right still holds, and asks first."""

    def bind(self, on_revoked: Callable[[int], None]) -> None:
        """Call this with the shard, from inside a pulse, and give it away only afterwards."""


@runtime_checkable
class SharesOut(Protocol):
    """An election for an outbox that several may share: it says who leads which shard.

    Called from one thread only.
    """

    @property
    def pulse_interval(self) -> float:
        """Seconds between two pulses."""

    @property
    def trouble(self) -> WindrowError | None:
        """Why not more is led than is, if anything is known to be wrong."""

    def pulse_shards(self) -> dict[int, Leading]:
        """Stand, or stay, for leadership; returns the shards that are led.

        Raises:
            Failed: The arbiter gave no answer; what was granted before holds until it runs out.
        """

    def resign_shard(self, shard: int) -> None:
        """Give one shard up: what was sent under it has arrived."""

    def resign(self) -> None:
        """Give all of them up at once."""

    def close(self) -> None:
        """Let go of connections, without resigning."""
