"""The shell around the barrier machine: two threads, one that reads and one that settles.

One reads the outbox and sends what may go at once; the other serves the target's reports, purges
what was acknowledged and sends what that released. The machine is shared under one lock, which no
thread holds while it waits for anything.

After any failure of the database the marks of this leader may be gone with it (they are committed
lazily) or may have been made unseen. So it forgets what it has not sent, lets what it has sent
settle, takes a new id and reads from the head.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar
from uuid import UUID, uuid4

from windrow.clock import Clock, SystemClock
from windrow.errors import WindrowError
from windrow.outbox.errors import Fenced
from windrow.outbox.marked import Marked
from windrow.points import pass_by
from windrow.relay.doorbell import Doorbell
from windrow.relay.events import (
    DatabaseLost,
    LaneHeld,
    LeaderRefreshed,
    RecordBuried,
    RecordFailed,
)
from windrow.relay.failure import Failure
from windrow.relay.machine import BarrierMachine, Lane, LaneState, Setback
from windrow.relay.pace import Pace
from windrow.relay.policy import Policy, WhenExhausted
from windrow.telemetry.events import Event

T = TypeVar("T")

DATABASE_BACKOFF = Policy(base_delay=0.05, max_delay=5.0)
REPORT_WAIT = 0.1
SWEEP_INTERVAL, SLOWEST_SWEEP = 1.0, 30.0
FENCE_INTERVAL = 30.0


class Store(Protocol):
    """What the pipeline asks of an outbox. Every call may raise ``WindrowError``."""

    def read(self, leader: UUID, limit: int, excluded_keys: Sequence[str] = ()) -> list[Marked]:
        """The earliest rows not taken yet."""

    def check_fence(self) -> None:
        """See that nobody has raised the epoch."""

    def purge(self, ids: Sequence[int]) -> int:
        """Delete acknowledged rows."""

    def hold(self, key: str, ids: Sequence[int], reason: str, note: str) -> None:
        """Keep a key out of reads and give its rows back."""

    def bury(self, ids: Sequence[int], attempts: int, error: str) -> None:
        """Move rows to the dead letters."""

    def bury_lanes(self) -> int:
        """Move what has arrived for buried keys."""

    def note(self, record: int, attempts: int, error: str) -> None:
        """Write a failure down."""

    def forget(self, ids: Sequence[int]) -> None:
        """These are no longer held."""

    def interrupt(self) -> None:
        """Break whatever statement is under way."""


class Target(Protocol):
    """What the pipeline asks of a target."""

    acknowledged: deque[Lane]
    failed: deque[tuple[Lane, Failure]]

    def send(self, lanes: list[Lane]) -> None:
        """Hand over the heads of these lanes."""

    def poll(self, timeout: float) -> int:
        """Serve reports."""


class BarrierPipeline:
    """Relays under one leadership, from ``start`` to ``stop``."""

    def __init__(
        self,
        store: Store,
        target: Target,
        machine: BarrierMachine,
        *,
        epoch: int = 0,
        sends_until: Callable[[], float] = lambda: math.inf,
        emit: Callable[[Event], None] = lambda event: None,
        pace: Pace | None = None,
        doorbell: Doorbell | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._store, self._target, self._machine = store, target, machine
        self._epoch = epoch
        self._sends_until, self._emit = sends_until, emit
        self._pace = pace or Pace()
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        # Held for the time of a read: a lane is given back only between two of them, or a row that
        # the read is just bringing would overtake those that were given back.
        self._between_reads = threading.Lock()
        self._room = threading.Event()
        self._doorbell = doorbell or Doorbell()
        self._draining = threading.Event()
        self._ended = threading.Event()
        self._marks_in_doubt = threading.Event()
        self._outages = 0
        self._sweeps = Pace(SWEEP_INTERVAL, SLOWEST_SWEEP, patience=SWEEP_INTERVAL)
        self._sweep_at = 0.0
        self._check_fence_at = 0.0
        self._threads: list[threading.Thread] = []
        self.leader = uuid4()
        self.delivered = 0
        self.purges = 0
        self.error: BaseException | None = None

    def start(self) -> None:
        """Begin to relay."""
        for loop in (self._read_loop, self._settle_loop):
            name = f"windrow-{loop.__name__.strip('_').removesuffix('_loop')}"
            thread = threading.Thread(target=self._guarded, args=(loop,), name=name, daemon=True)
            self._threads.append(thread)
            thread.start()

    def ring(self) -> None:
        """There is something to read."""
        self._doorbell.set()

    @property
    def in_flight(self) -> int:
        """How many records are held, sent or not."""
        return self._machine.held_records

    @property
    def in_flight_keys(self) -> list[str]:
        """The keys whose head is sent and not purged yet."""
        with self._lock:
            lanes = list(self._machine.lanes.values())
        out = (LaneState.IN_FLIGHT, LaneState.PURGING)
        return [lane.key for lane in lanes if lane.key is not None and lane.state in out]

    @property
    def is_running(self) -> bool:
        """Whether the threads are at work."""
        return bool(self._threads) and not self._ended.is_set()

    def stop(self, drain_timeout: float) -> bool:
        """Read no more, wait for what is in flight, end; true if all of it settled in time."""
        deadline = self._clock.monotonic() + drain_timeout
        self._draining.set()
        self._doorbell.set()
        self._room.set()
        # A read that is under way may still bring rows: nothing is idle before it has ended.
        self._threads[0].join(max(0.0, deadline - self._clock.monotonic()))
        settled = False
        while not settled and self.error is None and self._clock.monotonic() < deadline:
            self._forget_unsent()
            settled = self._machine.is_idle
            self._ended.wait(0.0 if settled else 0.002)
        self.abandon()
        return settled

    def abandon(self) -> None:
        """End at once: another leader may be at work. What was sent settles unheard."""
        self._ended.set()
        self._draining.set()
        self._wake_all()
        self._join(1.0)
        if any(thread.is_alive() for thread in self._threads):
            self._store.interrupt()
            self._join(30.0)
        with self._lock:
            self._machine.drop_all()

    def _join(self, timeout: float) -> None:
        deadline = self._clock.monotonic() + timeout
        for thread in self._threads:
            thread.join(max(0.0, deadline - self._clock.monotonic()))

    def _wake_all(self) -> None:
        self._doorbell.set()
        self._room.set()

    def _guarded(self, loop: Callable[[], None]) -> None:
        """Run a loop; what it did not expect ends the whole pipeline, with the cause kept."""
        try:
            loop()
        except BaseException as error:
            self.error = self.error or error
            self._ended.set()
            self._wake_all()

    # -- reading ---------------------------------------------------------------------------------

    def _read_loop(self) -> None:
        while not self._draining.is_set():
            if self._marks_in_doubt.is_set():
                self._begin_anew()
                continue
            with self._lock:
                room = self._machine.room()
                excluded = self._machine.excluded_keys() if room else []
            if not room:
                self._room.clear()
                self._room.wait(0.05)
                continue
            try:
                ready = self._read(room, excluded)
            except Fenced:
                raise
            except WindrowError as error:
                self._on_database_failed(error)
                continue
            self._outages = 0
            if ready is None:
                self._doorbell.wait(self._pace.on_empty(self._clock.monotonic()))
            else:
                self._pace.on_rows()
                self._doorbell.on_rows()
                pass_by("relay.marked")
                self._send(ready)

    def _read(self, room: int, excluded: list[str]) -> list[Lane] | None:
        """Take rows; returns the lanes that may go, None if there was no row."""
        with self._between_reads:
            rows = self._store.read(self.leader, room, excluded)
            if not rows:
                self._check_fence()
                return None
            with self._lock:
                return self._machine.on_marked(rows)

    def _check_fence(self) -> None:
        """To a fenced leader every outbox looks empty; ask now and then why it does."""
        now = self._clock.monotonic()
        if now >= self._check_fence_at:
            self._store.check_fence()
            self._check_fence_at = now + FENCE_INTERVAL

    def _begin_anew(self) -> None:
        """Let all that was sent settle, then read from the head under a new id."""
        self._forget_unsent()
        while not self._machine.is_idle:
            if self._ended.wait(0.005):
                return
            self._forget_unsent()
        self.leader = uuid4()
        self._marks_in_doubt.clear()
        self._emit(LeaderRefreshed(self._epoch, str(self.leader)))

    def _forget_unsent(self) -> None:
        with self._lock:
            ids = self._machine.drop_waiting()
        self._store.forget(ids)

    def _on_database_failed(self, error: WindrowError) -> None:
        self._marks_in_doubt.set()
        self._outages += 1
        delay = DATABASE_BACKOFF.delay(self._outages, 1.0)
        self._emit(DatabaseLost(str(error), delay))
        self._ended.wait(delay)

    # -- reports and purging ---------------------------------------------------------------------
    #
    # Whoever hears the reports purges as well: a hand-over between the two would be added to every
    # step of a key. What arrives during a purge waits in the target, and is the next purge.

    def _settle_loop(self) -> None:
        while not self._ended.is_set():
            self._target.poll(self._until_due())
            self._purge(_drained(self._target.acknowledged))
            for lane, failure in _drained(self._target.failed):
                self._on_failed(lane, failure)
            self._send_due()
            self._sweep()

    def _purge(self, lanes: list[Lane]) -> None:
        if not lanes:
            return
        with self._lock:
            ids = self._machine.on_acknowledged(lanes)
        pass_by("relay.acknowledged")
        # The lane opens only when its purge is known to have committed; by id it can be repeated.
        if not self._until_done(lambda: self._store.purge(ids)):
            return
        with self._lock:
            ready = self._machine.on_purged(lanes)
        pass_by("relay.purged")
        self.purges += 1
        self.delivered += len(ids)
        self._room.set()
        self._send(ready)

    def _until_done(self, statement: Callable[[], object]) -> bool:
        """Repeat a statement until it went through; false if the pipeline ended first."""
        while not self._ended.is_set():
            try:
                statement()
            except WindrowError as error:
                self._on_database_failed(error)
            else:
                return True
        return False

    def _on_failed(self, lane: Lane, failure: Failure) -> None:
        with self._lock:
            setback = self._machine.on_failed(lane, failure, self._clock.monotonic())
        if setback is None:
            return
        if setback.verdict is None:
            self._emit(RecordFailed(lane.head.id, lane.head.topic, setback.attempts, failure))
            self._until_done(lambda: self._store.note(lane.head.id, setback.attempts, str(failure)))
        elif setback.verdict is WhenExhausted.HOLD:
            self._hold(setback)
        else:
            self._bury(setback)

    def _hold(self, setback: Setback) -> None:
        lane, note = setback.lane, str(setback.failure)
        if lane.key is None:
            # It has no name to be kept out by, and many of them would fill the memory.
            self._bury(setback)
            return
        self._emit(LaneHeld(lane.head.id, lane.head.topic, setback.failure))
        self._until_done(lambda: self._store.note(lane.head.id, setback.attempts, note))
        self._give_back(lane, "held", note)

    def _bury(self, setback: Setback) -> None:
        lane, note, attempts = setback.lane, str(setback.failure), setback.attempts
        record, topic = lane.head.id, lane.head.topic
        takes_lane = setback.verdict is WhenExhausted.DEAD_LETTER_LANE and lane.key is not None
        if takes_lane:
            # Before the record goes: a crash in between must not let the rest of the key pass.
            self._give_back(lane, "buried", note)
        if not self._until_done(lambda: self._store.bury([record], attempts, note)):
            return
        self._emit(RecordBuried(record, topic, setback.failure))
        if takes_lane:
            self._sweeps.on_rows()
            self._sweep_at = self._clock.monotonic()
            return
        with self._lock:
            # While the database was away the lane may have been forgotten.
            ready = self._machine.on_buried(lane) if lane.state is LaneState.HELD else []
        self._send(ready)

    def _give_back(self, lane: Lane, reason: str, note: str) -> None:
        """Keep the key out of reads and return its rows to the table, all at once."""
        key = lane.key or ""
        with self._between_reads:
            ids = lane.ids()
            if self._until_done(lambda: self._store.hold(key, ids, reason, note)):
                with self._lock:
                    if lane.state is LaneState.HELD:
                        self._machine.on_shed(lane)

    def _sweep(self) -> None:
        """Send what arrives for a buried lane after it; seldom, while nothing does."""
        now = self._clock.monotonic()
        if now < self._sweep_at:
            return
        try:
            if self._store.bury_lanes():
                self._sweeps.on_rows()
        except WindrowError as error:
            self._on_database_failed(error)
        self._sweep_at = now + self._sweeps.on_empty(now)

    # -- sending ---------------------------------------------------------------------------------

    def _send_due(self) -> None:
        with self._lock:
            ready = self._machine.due(self._clock.monotonic())
        self._send(ready)

    def _send(self, lanes: list[Lane]) -> None:
        if not lanes:
            return
        now = self._clock.monotonic()
        if now <= self._sends_until() and now >= self._machine.target_down_until:
            pass_by("relay.may-send")
            self._target.send(lanes)
        else:
            with self._lock:
                self._machine.postpone(lanes, max(now + 0.02, self._machine.target_down_until))

    def _until_due(self) -> float:
        with self._lock:
            due = self._machine.next_due()
        return REPORT_WAIT if due is None else max(0.0, min(0.1, due - self._clock.monotonic()))


def _drained(queue: deque[T]) -> list[T]:
    return [queue.popleft() for _ in range(len(queue))]
