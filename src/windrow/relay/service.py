"""A relay as a whole: stands for leadership, relays while it leads, hands over, stops.

::

    CREATED ──start──▶ RUNNING ──stop, or an error it cannot mend──▶ STOPPING ──▶ STOPPED

One thread pulses the election and decides: a new right to lead starts a pipeline, a lost one ends
it. Between two pulses the right runs on by the clock alone, and the pipeline asks it before it
hands anything to the target.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Callable
from enum import Enum
from types import TracebackType
from typing import Protocol, Self

from windrow.clock import Clock, SystemClock
from windrow.errors import Unreachable, WindrowError
from windrow.outbox.errors import Fenced
from windrow.relay.election.leading import Election, HandsOver, Leading, Opens
from windrow.relay.errors import LeaderFencedByTarget, TargetBroken
from windrow.relay.events import (
    DatabaseLost,
    LeaderAcquired,
    LeaderFenced,
    LeaderRevoked,
)
from windrow.relay.meter import Meter
from windrow.telemetry.events import EventBus

TROUBLE_INTERVAL = 5.0


class RelayState(Enum):
    """Where a relay is in its life."""

    CREATED = "created"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"


class Pipeline(Protocol):
    """What relays under one leadership."""

    error: BaseException | None

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
    """Both ends of the road, and what runs between them."""

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


class Relay:
    """Moves records from an outbox to a target while it leads."""

    def __init__(
        self,
        road: Road,
        election: Election,
        *,
        events: EventBus | None = None,
        drain_timeout: float = 10.0,
        margin: float = 0.25,
        meter_interval: float = 5.0,
        clock: Clock | None = None,
    ) -> None:
        self._road, self._election = road, election
        self._drain_timeout, self._margin = drain_timeout, margin
        self._clock = clock or SystemClock()
        self.events = events or EventBus()
        self.state = RelayState.CREATED
        self._leading: Leading | None = None
        self._pipeline: Pipeline | None = None
        self._stop_requested = threading.Event()
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self._asked_to_drain: float | None = None
        self._draining: threading.Thread | None = None
        self._delivered_before = 0
        self._trouble = ("", 0.0)
        self._meter_interval = meter_interval
        self._meter = Meter(meter_interval, 0, 0.0)
        if isinstance(election, HandsOver):
            election.bind(lambda shard: self._hand_over())

    # -- life ------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Connect both ends and begin to stand for leadership.

        Raises:
            WindrowError: An end cannot be reached or used; the relay may be started again.
        """
        if self.state is not RelayState.CREATED:
            raise RuntimeError(f"a relay starts once; this one is {self.state.value}")
        try:
            self._road.open()
            self._open_election()
        except BaseException:
            self._election.close()
            self._road.close()
            raise
        self.state = RelayState.RUNNING
        self._meter = Meter(self._meter_interval, 0, self._clock.monotonic())
        self._thread = threading.Thread(target=self._guarded, name="windrow-relay", daemon=True)
        self._thread.start()
        return self

    def _open_election(self) -> None:
        if isinstance(self._election, Opens):
            try:
                self._election.open()
            except Unreachable as error:
                # As with brokers that go away later: the pulses try again.
                self._tell_trouble(str(error))

    def stop(self, drain_timeout: float | None = None) -> None:
        """Ask it to hand over and end; returns at once, any number of times."""
        if drain_timeout is not None:
            self._asked_to_drain = drain_timeout
        self._stop_requested.set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end; false if it has not come in time.

        Raises:
            BaseException: What ended the relay, if it was not asked to stop.
        """
        if self._thread is None:
            return True
        self._thread.join(timeout)
        if self._thread.is_alive():
            return False
        if self._error is not None:
            raise self._error
        return True

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()
        self.wait()

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.start)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()
        await self.wait_async()

    async def wait_async(self) -> None:
        """``wait`` for a program that has an event loop to keep free."""
        await asyncio.to_thread(self.wait)

    # -- introspection ---------------------------------------------------------------------------

    @property
    def is_leader(self) -> bool:
        """Whether it leads, as far as it knows."""
        return self._pipeline is not None

    @property
    def leader_id(self) -> str | None:
        """The id its rows are marked with, while it leads."""
        pipeline = self._pipeline
        return None if pipeline is None else str(pipeline.leader)

    @property
    def in_flight(self) -> int:
        """How many records it holds."""
        pipeline = self._pipeline
        return 0 if pipeline is None else pipeline.in_flight

    @property
    def in_flight_keys(self) -> list[str]:
        """The keys of which a record is on its way, in no order."""
        pipeline = self._pipeline
        return [] if pipeline is None else pipeline.in_flight_keys

    @property
    def delivered(self) -> int:
        """How many records it has delivered since it was started."""
        pipeline = self._pipeline
        return self._delivered_before + (0 if pipeline is None else pipeline.delivered)

    # -- the loop --------------------------------------------------------------------------------

    def _guarded(self) -> None:
        try:
            while not self._stop_requested.is_set():
                self._pulse()
                self._read_meter()
                self._stop_requested.wait(self._election.pulse_interval)
        except BaseException as error:
            self._error = error
        finally:
            self._end()

    def _pulse(self) -> None:
        try:
            leading = self._election.pulse()
        except Fenced:
            self._on_leadership_lost()
            raise
        except WindrowError as error:
            # What was granted holds until it runs out; the pipeline asks the clock by itself.
            self._tell_trouble(str(error))
            return
        if leading is None or (self._leading and leading.epoch != self._leading.epoch):
            self._on_leadership_lost()
        self._leading = leading
        self._mend()
        if self._leading is not None and self._pipeline is None:
            self._on_leadership_won(self._leading)

    def _read_meter(self) -> None:
        reading = self._meter.read(self.delivered, self._clock.monotonic())
        if reading is not None:
            self.events.emit(reading)

    def _tell_trouble(self, reason: str) -> None:
        """Say why nobody can be elected: at once, and from then on every few seconds only."""
        now = self._clock.monotonic()
        if reason != self._trouble[0] or now >= self._trouble[1] + TROUBLE_INTERVAL:
            self._trouble = reason, now
            self.events.emit(DatabaseLost(reason, self._election.pulse_interval))

    def _mend(self) -> None:
        """See to a pipeline that ended by itself.

        A fenced one means that somebody else leads, whatever the election still says: stand anew.
        A broken client is made anew; before the new one sends anything, whatever the old one still
        held has to have expired. All else is fatal.
        """
        pipeline = self._pipeline
        if pipeline is None or pipeline.error is None:
            return
        error = pipeline.error
        if isinstance(error, Fenced | LeaderFencedByTarget):
            self._on_leadership_lost()
            self._resign()
        elif isinstance(error, TargetBroken):
            pipeline.abandon()
            self._part_with_pipeline()
            self._stop_requested.wait(self._road.delivery_timeout + self._margin)
            self._road.renew_target()
        else:
            raise error

    def _on_leadership_won(self, leading: Leading) -> None:
        pipeline = self._road.lead(leading, self._sends_until)
        self._pipeline = pipeline
        pipeline.start()
        self.events.emit(LeaderAcquired(leading.epoch, str(pipeline.leader)))

    def _on_leadership_lost(self) -> None:
        pipeline, leading = self._pipeline, self._leading
        self._leading = None
        if pipeline is None or leading is None:
            return
        in_flight = pipeline.in_flight
        pipeline.abandon()
        self._part_with_pipeline()
        self.events.emit(LeaderFenced(leading.epoch, in_flight))

    def _hand_over(self) -> None:
        """End the pipeline in good order: nobody else leads before this returns."""
        pipeline, leading = self._pipeline, self._leading
        if pipeline is None or leading is None:
            return
        if self._draining is not None:
            self._draining.join()  # the relay is stopping anyway
        else:
            self._leading = None
            self._settle(pipeline, self._drain_timeout)
            self._part_with_pipeline()
        self.events.emit(LeaderRevoked(leading.epoch))

    def _settle(self, pipeline: Pipeline, drain_timeout: float) -> None:
        """Let what is in flight arrive; what has not by then must expire before we let go."""
        if not pipeline.stop(drain_timeout):
            time.sleep(self._road.delivery_timeout + self._margin)

    def _part_with_pipeline(self) -> None:
        pipeline, self._pipeline = self._pipeline, None
        if pipeline is not None:
            self._delivered_before += pipeline.delivered

    def _sends_until(self) -> float:
        leading = self._leading
        if leading is None:
            return -math.inf
        return leading.sends_until(self._road.delivery_timeout, self._margin)

    def _end(self) -> None:
        """Hand over: drain while the right to lead is kept alive, then give it up."""
        self.state = RelayState.STOPPING
        try:
            if self._pipeline is not None:
                self._drain(self._pipeline)
                self._part_with_pipeline()
            self._resign()
        finally:
            self._election.close()
            self._road.close()
            self.state = RelayState.STOPPED

    def _drain(self, pipeline: Pipeline) -> None:
        """Let what is in flight settle, and stay leader meanwhile, so that nobody else sends it."""
        timeout = self._drain_timeout if self._asked_to_drain is None else self._asked_to_drain
        draining = threading.Thread(target=self._settle, args=(pipeline, timeout), daemon=True)
        self._draining = draining
        draining.start()
        while draining.is_alive():
            draining.join(self._election.pulse_interval)
            if draining.is_alive() and not self._stay_leader():
                draining.join()
        if self._leading is not None:
            self.events.emit(LeaderRevoked(self._leading.epoch))

    def _stay_leader(self) -> bool:
        """Pulse once more; false when there is no use in asking again.

        Without an answer the right runs out by the clock, and a stop must not wait for more.
        """
        try:
            self._leading = self._election.pulse()
        except WindrowError as error:
            self.events.emit(DatabaseLost(str(error), 0.0))
        leading = self._leading
        return leading is not None and self._clock.monotonic() < leading.valid_until

    def _resign(self) -> None:
        """Give up what is ours to give: a right that has run out is gone already.

        Twice, if need be: the connection may have broken since it was last used.
        """
        for _ in range(2):
            leading = self._leading
            if leading is not None and self._clock.monotonic() > leading.valid_until:
                return
            try:
                self._election.resign()
            except WindrowError as error:
                self.events.emit(DatabaseLost(str(error), 0.0))
            else:
                return
