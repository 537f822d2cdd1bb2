"""What a relay tells about itself. Handlers run on its own threads: count, note, never wait."""

from __future__ import annotations

from dataclasses import dataclass

from windrow.relay.failure import Failure
from windrow.telemetry.events import Event


@dataclass(frozen=True, slots=True)
class LeaderAcquired(Event):
    """This relay leads, under an epoch that nobody else has."""

    epoch: int
    leader_id: str
    shard: int = 0


@dataclass(frozen=True, slots=True)
class LeaderRefreshed(Event):
    """The leader took a new id, because its marks may have been lost; it reads from the head."""

    epoch: int
    leader_id: str


@dataclass(frozen=True, slots=True)
class LeaderRevoked(Event):
    """This relay led and has handed over; nothing of its is on the way."""

    epoch: int
    shard: int = 0


@dataclass(frozen=True, slots=True)
class LeaderFenced(Event):
    """Another relay leads, or may: this one sends nothing more."""

    epoch: int
    records_in_flight: int
    shard: int = 0


@dataclass(frozen=True, slots=True)
class LeaderOverran(Event):
    """A record was handed over and the right to lead ran out meanwhile.

    A pause fell between a look at the right and the deed. If somebody else leads by now, the record
    may arrive behind later ones of its key.
    """

    epoch: int


@dataclass(frozen=True, slots=True)
class TargetLost(Event):
    """The target gave no answer, or none that says what became of a batch: it is asked again."""

    failure: Failure


@dataclass(frozen=True, slots=True)
class RecordFailed(Event):
    """A delivery failed and will be tried again."""

    record: int
    topic: str
    attempts: int
    failure: Failure


@dataclass(frozen=True, slots=True)
class LaneHeld(Event):
    """A key waits for a person: nothing of it is sent."""

    record: int
    topic: str
    failure: Failure


@dataclass(frozen=True, slots=True)
class RecordBuried(Event):
    """A record moved to the dead letters."""

    record: int
    topic: str
    failure: Failure


@dataclass(frozen=True, slots=True)
class DatabaseLost(Event):
    """A statement failed; the relay tries again after a pause."""

    reason: str
    retry_in: float


@dataclass(frozen=True, slots=True)
class ElectionTroubled(Event):
    """Nobody can be elected just now, and not for want of the database; it is asked again."""

    reason: str
    retry_in: float


@dataclass(frozen=True, slots=True)
class ShardsSettled(Event):
    """The outbox is divided anew, and nothing of the old division is on its way or in doubt."""

    generation: int
    shards: int


@dataclass(frozen=True, slots=True)
class MeterRead(Event):
    """How much has been delivered, since the start and since the last reading."""

    total: int
    total_rate: float
    interval: int
    interval_rate: float
