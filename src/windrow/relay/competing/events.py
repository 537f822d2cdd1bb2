"""What a competing relay tells about itself. Handlers run on its event loop: they never wait."""

from __future__ import annotations

from dataclasses import dataclass

from windrow.telemetry.events import Event


@dataclass(frozen=True, slots=True)
class MessageFailed(Event):
    """A send failed and will be tried again."""

    record: int
    topic: str
    attempts: int
    delay: float
    reason: str
    is_outage: bool


@dataclass(frozen=True, slots=True)
class MessageBuried(Event):
    """A message is to become a dead letter."""

    record: int
    topic: str
    attempts: int
    reason: str


@dataclass(frozen=True, slots=True)
class LeasesLost(Event):
    """Leases ended before the messages were dealt with: others may have sent them as well."""

    records: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CircuitOpened(Event):
    """Nobody answers at a destination: its messages stay in the outbox, and no try is counted."""

    destination: str
    reason: str
    open_for: float


@dataclass(frozen=True, slots=True)
class CircuitClosed(Event):
    """A destination answers again."""

    destination: str
