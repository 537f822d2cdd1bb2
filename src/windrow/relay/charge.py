"""One shard in the charge of a relay: the right to lead it, and the pipeline under that right."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Protocol

from windrow.relay.election.leading import Leading


class Pipeline(Protocol):
    """What relays under one leadership."""

    @property
    def error(self) -> BaseException | None:
        """What ended it, if it ended by itself."""

    @property
    def leader(self) -> object:
        """The id that its rows are marked with."""

    @property
    def in_flight(self) -> int:
        """How many records are held."""

    @property
    def in_flight_keys(self) -> list[str]:
        """The keys of which a record is on its way, in no order."""

    @property
    def delivered(self) -> int:
        """How many records have been purged after their acknowledgement."""

    def start(self) -> None:
        """Begin."""

    def stop(self, drain_timeout: float) -> bool:
        """Drain and end."""

    def abandon(self) -> None:
        """End at once."""


class Road(Protocol):
    """Both ends of the road, and what runs between them, for one shard."""

    delivery_timeout: float
    """How long after it was handed over a record may still be written."""

    def open(self) -> None:
        """Connect both ends."""

    def lead(self, leading: Leading, sends_until: Callable[[], float]) -> Pipeline:
        """What relays under this leadership, until the time it is told; not started yet."""

    def renew_target(self) -> None:
        """Make the target's client anew."""

    def close(self) -> None:
        """Let go of both ends."""


class Charge:
    """A shard that this relay leads, as far as it knows."""

    def __init__(self, road: Road, leading: Leading, margin: float) -> None:
        self.road, self._margin = road, margin
        self.leading: Leading | None = leading
        self.shard, self.epoch = leading.shard, leading.epoch
        self.pipeline: Pipeline | None = None
        self.rests_until = -math.inf
        """Before when nothing may be sent: what a broken client still holds has to expire."""
        self._draining: threading.Thread | None = None

    def start(self) -> Pipeline:
        """Begin to relay under the right."""
        assert self.leading is not None, "a charge begins with a right"
        pipeline = self.road.lead(self.leading, self.sends_until)
        self.pipeline = pipeline
        pipeline.start()
        return pipeline

    def sends_until(self) -> float:
        """Until when records may be handed to the target."""
        leading = self.leading
        if leading is None:
            return -math.inf
        return leading.sends_until(self.road.delivery_timeout, self._margin)

    def abandon(self) -> int:
        """Send nothing more, at once; returns how many records were held."""
        self.leading = None
        pipeline = self.pipeline
        if pipeline is None:
            return 0
        in_flight = pipeline.in_flight
        pipeline.abandon()
        return in_flight

    # -- the end in good order -------------------------------------------------------------------

    @property
    def is_draining(self) -> bool:
        """Whether its end in good order has begun."""
        return self._draining is not None

    @property
    def has_drained(self) -> bool:
        """Whether it has come to its end in good order."""
        return self._draining is not None and not self._draining.is_alive()

    def drain(self, timeout: float, on_drained: Callable[[], None] = lambda: None) -> None:
        """Begin to end in good order, in the background; the right has to be kept meanwhile."""

        def settle() -> None:
            self._settle(timeout)
            on_drained()

        if self._draining is None:
            self._draining = threading.Thread(target=settle, name="windrow-drain", daemon=True)
            self._draining.start()

    def wait_drained(self, timeout: float | None = None) -> bool:
        """Wait for that end; false if it has not come in time."""
        if self._draining is not None:
            self._draining.join(timeout)
        return self._draining is None or not self._draining.is_alive()

    def _settle(self, timeout: float) -> None:
        """Let what is in flight arrive; what has not by then must expire before we let go."""
        if self.pipeline is not None and not self.pipeline.stop(timeout):
            time.sleep(self.road.delivery_timeout + self._margin)
