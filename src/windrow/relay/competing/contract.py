"""What the parts of a competing relay have in common: a claim, a try, its outcome, the two ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from windrow.outbox.claims.contract import Burial, Claim, ClaimStore, Retry, Suspects, Topics

__all__ = [
    "Burial",
    "Claim",
    "ClaimStore",
    "Delivered",
    "Later",
    "Outcome",
    "Refused",
    "Retry",
    "Suspects",
    "Target",
    "Topics",
]


@dataclass(frozen=True, slots=True)
class Delivered:
    """The receiver has it."""


@dataclass(frozen=True, slots=True)
class Later:
    """It may be taken another time.

    Attributes:
        reason: For people.
        retry_after: Seconds that the receiver asked for.
        is_outage: Nobody was there to judge the message, so the try does not count against it.
    """

    reason: str
    retry_after: float | None = None
    is_outage: bool = False


@dataclass(frozen=True, slots=True)
class Refused:
    """The receiver will never take it."""

    reason: str


Outcome = Delivered | Later | Refused


class Target(Protocol):
    """Where messages go."""

    async def open(self) -> None:
        """Get ready to send."""

    def destination(self, topic: str) -> str:
        """What fails together: the circuit of a topic is that of its destination."""

    async def send(self, claim: Claim) -> Outcome:
        """Try once, within the send time-out; never raises for what the receiver does."""

    async def close(self) -> None:
        """Let go of connections; nothing is being sent any more."""
