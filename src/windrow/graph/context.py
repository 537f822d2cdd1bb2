"""What does a function see beside its messages? Only what is the same on every attempt.

The delivery hash is made of positions, so it can be used as an idempotency key, as the seed of
random numbers and as the source of ids: all of them come out the same when a batch is replayed. The
time is the snapshot's, not the clock's. The attempt is the one thing that changes.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any
from uuid import UUID

from windrow.graph.positions import Position
from windrow.graph.snapshot import DeliveryHasher, ProcessorUid, Snapshot

NOTHING_GIVEN: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class Context:
    """What a function is told about one delivery.

    Attributes:
        uid: The graph and the processor.
        delivery_hash: 64 hexadecimal digits, the same on every attempt at these messages.
        positions: Where the messages stand, sorted by source; one, or of a join one from each.
        attempt: The first is 1.
        batch_time: Seconds since 1970, the same on every attempt.
        system: What the graph gives to all its processors.
        options: What the processor was declared with.
    """

    uid: ProcessorUid
    delivery_hash: str
    positions: tuple[Position, ...]
    attempt: int = 1
    batch_time: float = 0.0
    system: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def time(self) -> datetime:
        """The time of the batch, in UTC."""
        return datetime.fromtimestamp(self.batch_time, UTC)

    def random(self) -> random.Random:
        """A generator that gives the same numbers on every attempt at these messages."""
        return random.Random(self.delivery_hash)

    def uuid(self, nth: int = 0) -> UUID:
        """An id that is the same on every attempt, and another for each number."""
        bits = (int(self.delivery_hash, 16) + nth) & (1 << 128) - 1
        # Version 8: made by a rule of our own; the variant of RFC 9562.
        return UUID(int=bits & ~(0xF << 76) & ~(0x3 << 62) | 8 << 76 | 2 << 62)


class ContextMaker:
    """Makes the contexts of one attempt at one snapshot; what they share is made once."""

    def __init__(
        self,
        snapshot: Snapshot,
        attempt: int,
        system: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self._uid = snapshot.uid.base
        self._hasher = DeliveryHasher(self._uid)
        self._attempt = attempt
        self._batch_time = snapshot.batch_time
        self._system = system if system is not None else NOTHING_GIVEN
        self._options = options if options is not None else NOTHING_GIVEN

    def make(self, positions: tuple[Position, ...]) -> Context:
        """The context of one call."""
        return Context(
            uid=self._uid,
            delivery_hash=self._hasher.hash(positions),
            positions=tuple(sorted(positions)),
            attempt=self._attempt,
            batch_time=self._batch_time,
            system=self._system,
            options=self._options,
        )
