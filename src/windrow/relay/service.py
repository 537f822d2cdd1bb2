"""A relay as a whole: stands for leadership, relays while it leads, hands over, stops.

::

    CREATED ──start──▶ RUNNING ──stop, or an error it cannot mend──▶ STOPPING ──▶ STOPPED

One thread pulses the election and decides: a new right to lead a shard starts a pipeline, a lost
one ends it. Between two pulses a right runs on by the clock alone, and the pipeline asks it before
it hands anything to the target. An outbox that is not shared is one shard.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator
from enum import Enum
from types import TracebackType
from typing import Any, Self

from windrow.clock import Clock, SystemClock
from windrow.config import Config
from windrow.errors import Unreachable, WindrowError
from windrow.outbox.errors import DatabaseFailed, Fenced
from windrow.relay.assembly import Parts, assemble
from windrow.relay.charge import Charge, Road
from windrow.relay.election.leading import Election, HandsOver, Leading, Opens, SharesOut
from windrow.relay.errors import LeaderFencedByTarget, TargetBroken
from windrow.relay.events import (
    DatabaseLost,
    ElectionTroubled,
    LeaderAcquired,
    LeaderFenced,
    LeaderRevoked,
)
from windrow.relay.meter import Meter
from windrow.relay.targets.memory import MemoryTarget
from windrow.telemetry.events import EventBus

TROUBLE_INTERVAL = 5.0


class RelayState(Enum):
    """Where a relay is in its life."""

    CREATED = "created"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"


class Relay:
    """Moves records from an outbox to a target while it leads.

    It runs on threads of its own, from ``start`` until ``stop`` or an error that it cannot mend; as
    a context manager, of either kind, it starts and stops by itself.

    Args:
        config: Both ends, the election and all limits; nothing is connected yet.
        events: Where to tell what happens; by default a bus of its own.
        memory: For tests: where records go in place of the configured target.

    Raises:
        ConfigError: Parts of the configuration do not go together.
    """

    def __init__(
        self,
        config: Config,
        events: EventBus | None = None,
        *,
        memory: MemoryTarget | None = None,
    ) -> None:
        bus = events or EventBus()
        self._set_up(assemble(config, bus, memory), bus, SystemClock())

    @classmethod
    def of(
        cls,
        road_of: Callable[[int], Road],
        election: Election | SharesOut,
        *,
        events: EventBus | None = None,
        drain_timeout: float = 10.0,
        margin: float = 0.25,
        meter_interval: float = 5.0,
        clock: Clock | None = None,
    ) -> Self:
        """A relay of parts that were made elsewhere: a road for each shard, and an election."""
        relay = cls.__new__(cls)
        parts = Parts(road_of, election, drain_timeout, margin, meter_interval)
        relay._set_up(parts, events or EventBus(), clock or SystemClock())
        return relay

    def _set_up(self, parts: Parts, events: EventBus, clock: Clock) -> None:
        self._parts, self._election = parts, parts.election
        self._clock, self.events = clock, events
        self.state = RelayState.CREATED
        self._roads: dict[int, Road] = {}
        self._charges: dict[int, Charge] = {}
        self._stop_requested = threading.Event()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self._asked_to_drain: float | None = None
        self._delivered_before = 0
        self._trouble = ("", 0.0)
        self._meter = Meter(parts.meter_interval, 0, 0.0)
        if isinstance(self._election, HandsOver):
            self._election.bind(self._hand_over)

    # -- life ------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Connect both ends and begin to stand for leadership.

        Raises:
            WindrowError: An end cannot be reached or used; the relay may be started again.
        """
        if self.state is not RelayState.CREATED:
            raise RuntimeError(f"a relay starts once; this one is {self.state.value}")
        try:
            self._road(0)
            self._open_election()
        except BaseException:
            self._election.close()
            self._close_roads()
            raise
        self.state = RelayState.RUNNING
        self._meter = Meter(self._parts.meter_interval, 0, self._clock.monotonic())
        self._thread = threading.Thread(target=self._guarded, name="windrow-relay", daemon=True)
        self._thread.start()
        return self

    def _road(self, shard: int) -> Road:
        """The road of a shard, both its ends connected; it stays so until the relay ends."""
        if shard not in self._roads:
            road = self._parts.road_of(shard)
            try:
                road.open()
            except BaseException:
                road.close()
                raise
            self._roads[shard] = road
        return self._roads[shard]

    def _close_roads(self) -> None:
        while self._roads:
            self._roads.popitem()[1].close()

    def _open_election(self) -> None:
        if isinstance(self._election, Opens):
            try:
                self._election.open()
            except (Unreachable, DatabaseFailed) as error:
                # As with brokers that go away later: the pulses try again.
                self._tell_trouble(error)

    def stop(self, drain: float | None = None) -> None:
        """Ask it to hand over and end; returns at once, any number of times.

        Args:
            drain: How long to wait for what is on its way, in seconds; by default as configured.
                What has not arrived by then may come twice.
        """
        if drain is not None:
            self._asked_to_drain = drain
        self._stop_requested.set()
        self._wake.set()

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

    def __await__(self) -> Generator[Any, None, bool]:
        """``wait`` for a program that has an event loop to keep free."""
        return asyncio.to_thread(self.wait).__await__()

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
        await self

    # -- introspection ---------------------------------------------------------------------------

    @property
    def is_leader(self) -> bool:
        """Whether it leads a shard, as far as it knows."""
        return bool(self._leading())

    @property
    def shards(self) -> list[int]:
        """The shards it leads, as far as it knows."""
        return sorted(charge.shard for charge in self._leading())

    @property
    def leader_id(self) -> str | None:
        """The id that rows of its first shard are marked with, while it leads."""
        first = min(self._leading(), key=lambda charge: charge.shard, default=None)
        pipeline = None if first is None else first.pipeline
        return None if pipeline is None else str(pipeline.leader)

    @property
    def in_flight(self) -> int:
        """How many records it holds."""
        return sum(charge.pipeline.in_flight for charge in self._leading() if charge.pipeline)

    @property
    def in_flight_keys(self) -> list[str]:
        """The keys of which a record is on its way, in no order."""
        charges = self._leading()
        return [key for each in charges if each.pipeline for key in each.pipeline.in_flight_keys]

    @property
    def delivered(self) -> int:
        """How many records it has delivered since it was started."""
        charges = self._leading()
        running = sum(charge.pipeline.delivered for charge in charges if charge.pipeline)
        return self._delivered_before + running

    def _leading(self) -> list[Charge]:
        return [charge for charge in list(self._charges.values()) if charge.pipeline is not None]

    # -- the loop --------------------------------------------------------------------------------

    def _guarded(self) -> None:
        try:
            while not self._stop_requested.is_set():
                self._pulse()
                self._read_meter()
                self._wake.wait(self._election.pulse_interval)
                self._wake.clear()
        except BaseException as error:
            self._error = error
        finally:
            self._end()

    def _pulse(self) -> None:
        try:
            rights = self._rights()
        except Fenced:
            for charge in list(self._charges.values()):
                self._on_leadership_lost(charge)
            raise
        except WindrowError as error:
            # What was granted holds until it runs out; the pipelines ask the clock by themselves.
            self._tell_trouble(error)
            return
        for shard, charge in list(self._charges.items()):
            right = rights.get(shard)
            if right is None or right.epoch != charge.epoch:
                self._on_leadership_lost(charge)
        for right in rights.values():
            self._on_right(right)

    def _rights(self) -> dict[int, Leading]:
        election = self._election
        if not isinstance(election, SharesOut):
            leading = election.pulse()
            return {} if leading is None else {leading.shard: leading}
        rights = election.pulse_shards()
        if not rights and election.trouble is not None:
            self._tell_trouble(election.trouble)
        return rights

    def _on_right(self, right: Leading) -> None:
        charge = self._charges.get(right.shard)
        if charge is None and right.is_asked_back:
            self._resign(right.shard)  # nothing was done with it
            return
        charge = charge or self._take_charge(right)
        if charge is None:
            return
        charge.leading = right
        self._mend(charge)
        if charge.shard not in self._charges:
            return
        if right.is_asked_back:
            self._give_back(charge)
        elif charge.pipeline is None and self._clock.monotonic() >= charge.rests_until:
            self._on_leadership_won(charge)

    def _take_charge(self, right: Leading) -> Charge | None:
        """Lead a shard; None if an end of its road cannot be reached just now."""
        try:
            road = self._road(right.shard)
        except (Unreachable, DatabaseFailed) as error:
            self._tell_trouble(error)
            return None
        charge = Charge(road, right, self._parts.margin)
        self._charges[right.shard] = charge
        return charge

    def _read_meter(self) -> None:
        reading = self._meter.read(self.delivered, self._clock.monotonic())
        if reading is not None:
            self.events.emit(reading)

    def _tell_trouble(self, error: WindrowError) -> None:
        """Say why nobody can be elected: at once, and from then on every few seconds only."""
        reason, now = str(error), self._clock.monotonic()
        if reason != self._trouble[0] or now >= self._trouble[1] + TROUBLE_INTERVAL:
            self._trouble = reason, now
            self.events.emit(_troubled(error, self._election.pulse_interval))

    def _mend(self, charge: Charge) -> None:
        """See to a pipeline that ended by itself.

        A fenced one means that somebody else leads, whatever the election still says: stand anew.
        A broken client is made anew; before the new one sends anything, whatever the old one still
        held has to have expired. All else is fatal.
        """
        pipeline = charge.pipeline
        if pipeline is None or pipeline.error is None:
            return
        error = pipeline.error
        if isinstance(error, Fenced | LeaderFencedByTarget):
            self._on_leadership_lost(charge)
            self._resign(charge.shard)
        elif isinstance(error, TargetBroken):
            pipeline.abandon()
            self._part_with_pipeline(charge)
            wait = charge.road.delivery_timeout + self._parts.margin
            charge.rests_until = self._clock.monotonic() + wait
            charge.road.renew_target()
        else:
            raise error

    def _on_leadership_won(self, charge: Charge) -> None:
        leader = str(charge.start().leader)
        self.events.emit(LeaderAcquired(charge.epoch, leader, charge.shard))

    def _on_leadership_lost(self, charge: Charge) -> None:
        had_pipeline = charge.pipeline is not None
        in_flight = charge.abandon()
        self._part_with(charge)
        if had_pipeline:
            self.events.emit(LeaderFenced(charge.epoch, in_flight, charge.shard))

    # -- handing over ----------------------------------------------------------------------------

    def _give_back(self, charge: Charge) -> None:
        """End a pipeline in good order while the others go on, then resign from its shard."""
        charge.drain(self._parts.drain_timeout, self._wake.set)
        if charge.has_drained:
            self._part_with(charge)
            self.events.emit(LeaderRevoked(charge.epoch, charge.shard))
            self._resign(charge.shard)

    def _hand_over(self, shard: int) -> None:
        """End a pipeline in good order: nobody else leads its shard before this returns."""
        charge = self._charges.get(shard)
        if charge is None or charge.pipeline is None:
            return
        charge.drain(self._patience(charge))
        charge.wait_drained()
        charge.leading = None
        if self.state is RelayState.RUNNING:
            self._part_with(charge)
        self.events.emit(LeaderRevoked(charge.epoch, shard))

    def _patience(self, charge: Charge) -> float:
        """How long to wait for a shard that is asked back: the others' rights run on meanwhile."""
        rights = [other.leading for other in self._leading() if other is not charge]
        ends = [right.valid_until for right in rights if right is not None]
        if not ends:
            return self._parts.drain_timeout
        left = (min(ends) - self._clock.monotonic()) / 2
        return max(0.0, min(self._parts.drain_timeout, left))

    def _part_with(self, charge: Charge) -> None:
        self._part_with_pipeline(charge)
        self._charges.pop(charge.shard, None)

    def _part_with_pipeline(self, charge: Charge) -> None:
        pipeline, charge.pipeline = charge.pipeline, None
        if pipeline is not None:
            self._delivered_before += pipeline.delivered

    # -- the end ---------------------------------------------------------------------------------

    def _end(self) -> None:
        """Hand over: drain while the right to lead is kept alive, then give it up."""
        self.state = RelayState.STOPPING
        charges = [charge for charge in self._charges.values() if charge.pipeline is not None]
        try:
            self._drain(charges)
            rights = [charge for charge in charges if charge.leading is not None]
            may_resign = not rights or any(map(self._is_valid, rights))
            for charge in list(self._charges.values()):
                self._part_with(charge)
            if may_resign:
                self._resign()
        finally:
            self._election.close()
            self._close_roads()
            self.state = RelayState.STOPPED

    def _drain(self, charges: list[Charge]) -> None:
        """Let what is in flight settle, and stay leader meanwhile, so that nobody else sends it."""
        asked = self._asked_to_drain
        timeout = self._parts.drain_timeout if asked is None else asked
        for charge in charges:
            charge.drain(timeout, self._wake.set)
        while not all(charge.has_drained for charge in charges):
            self._wake.wait(self._election.pulse_interval)
            self._wake.clear()
            if not all(charge.has_drained for charge in charges) and not self._stay_leader(charges):
                for charge in charges:
                    charge.wait_drained()
        for charge in charges:
            if charge.leading is not None:
                self.events.emit(LeaderRevoked(charge.epoch, charge.shard))

    def _stay_leader(self, charges: list[Charge]) -> bool:
        """Pulse once more; false when there is no use in asking again.

        Without an answer the right runs out by the clock, and a stop must not wait for more.
        """
        try:
            rights = self._rights()
        except WindrowError as error:
            self.events.emit(_troubled(error, 0.0))
        else:
            for charge in charges:
                right = rights.get(charge.shard)
                charge.leading = None if right is None or right.epoch != charge.epoch else right
        return any(map(self._is_valid, charges))

    def _is_valid(self, charge: Charge) -> bool:
        leading = charge.leading
        return leading is not None and self._clock.monotonic() <= leading.valid_until

    def _resign(self, shard: int | None = None) -> None:
        """Give up what is ours to give: of one shard, or all of it.

        Twice, if need be: the connection may have broken since it was last used.
        """
        for _ in range(2):
            try:
                if shard is not None and isinstance(self._election, SharesOut):
                    self._election.resign_shard(shard)
                else:
                    self._election.resign()
            except WindrowError as error:
                self.events.emit(_troubled(error, 0.0))
            else:
                return


def _troubled(error: WindrowError, retry_in: float) -> DatabaseLost | ElectionTroubled:
    """What to tell: a database that gives no answer is a trouble of its own."""
    is_database = isinstance(error, DatabaseFailed) or (
        isinstance(error, Unreachable) and error.service == "PostgreSQL"
    )
    kind = DatabaseLost if is_database else ElectionTroubled
    return kind(str(error), retry_in)
