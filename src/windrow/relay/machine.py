"""The barrier machine: which record may go now. Pure: no socket, clock or thread.

A record waits behind its key only. The rows of a key form a lane in the order in which they were
marked; its head may be in flight, and the next goes when the head's purge has committed. So at any
moment at most one record of a key is in an unknown state, and a crash can repeat only that one.

::

              marked                acknowledged             purged
    (table) ────────▶ head in flight ────────▶ purging ────────▶ next of the lane, or gone
                        ▲       │ failed
                        │       ▼
                        └── parked ──▶ held (a person decides) or buried (dead letter)
                          due

The shell tells what happened (``on_…``) and performs what is returned. Lanes, not ids, travel
through it: a lane has one record out at a time, so the lane says which. Time enters as an argument.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from heapq import heappop, heappush
from itertools import count

from windrow.outbox.marked import Marked
from windrow.relay.appetite import Appetite
from windrow.relay.errors import ImpossibleEvent
from windrow.relay.failure import Failure, FailureKind
from windrow.relay.policy import Policy, WhenExhausted


class LaneState(Enum):
    """Where the head of a lane is. A lane is made in flight, and forgotten when it is empty."""

    IN_FLIGHT = auto()
    PURGING = auto()
    PARKED = auto()
    HELD = auto()
    DROPPED = auto()


IN_FLIGHT, PURGING, PARKED = LaneState.IN_FLIGHT, LaneState.PURGING, LaneState.PARKED
PLENTY = 256
"""Keys on their way at which nothing but more rows of the same could make a target busier."""


class Lane:
    """The rows of one key that this leader holds, in the order in which they were marked."""

    __slots__ = ("attempts", "head", "key", "state", "waiting")

    def __init__(self, head: Marked) -> None:
        self.key = head.key
        self.head = head
        self.state = IN_FLIGHT
        self.waiting: deque[Marked] | None = None
        self.attempts = head.attempts

    def ids(self) -> list[int]:
        """Every row of the lane, the head first."""
        return [self.head.id, *(row.id for row in self.waiting or ())]

    def __repr__(self) -> str:
        waiting = len(self.waiting) if self.waiting else 0
        return f"<Lane {self.key!r} {self.state.name} head={self.head.id} waiting={waiting}>"


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one leader holds at a time."""

    batch: int = 8_000
    records: int = 20_000
    bytes: int = 64 * 1024 * 1024
    lane: int = 1_000
    """Rows of one key held in memory; beyond it the key is left in the table for others' sake."""


@dataclass(frozen=True, slots=True)
class Setback:
    """What the shell has to write down about a failed head."""

    lane: Lane
    failure: Failure
    attempts: int
    verdict: WhenExhausted | None
    """None while it will be tried again."""


class BarrierMachine:
    """The steps of relaying with at most one unacknowledged record per key."""

    def __init__(
        self,
        limits: Limits = Limits(),  # noqa: B008 - frozen
        policy_of: Callable[[str], Policy] = lambda topic: Policy(),
        jitter: Callable[[], float] = lambda: 0.5,
    ) -> None:
        self.limits = limits
        self.held_records = 0
        self.held_bytes = 0
        self.lanes: dict[str | int, Lane] = {}
        self.target_down_until = 0.0
        self._outages = 0
        self._policy_of = policy_of
        self._jitter = jitter
        self._parked: list[tuple[float, int, Lane]] = []
        self._parkings = count()  # who was parked first goes first
        self._saturated: set[str] = set()
        self._appetite = Appetite()

    # -- what may be read ------------------------------------------------------------------------

    def room(self) -> int:
        """How many rows a mark may take now; 0 when it is better to wait.

        A mark scans past all that is held, so small ones are not worth their price. While there
        are keys enough on their way to keep the target busy, it waits until a whole one fits, or
        half of all that may be held. Few keys may be hot and slow, and the others need not wait
        for them so long.
        """
        limits, appetite = self.limits, self._appetite
        fitting = appetite.rows_in(limits.bytes - self.held_bytes)
        room = min(limits.batch, limits.records - self.held_records, fitting)
        if not self.held_records:
            return max(min(room, appetite.most), 1)
        capacity = min(limits.records, appetite.rows_in(limits.bytes))
        moving = len(self.lanes) - len(self._parked)
        worth_it = min(limits.batch, capacity // (2 if moving >= PLENTY else 8))
        return min(room, appetite.most) if room >= max(worth_it, 1) else 0

    def excluded_keys(self) -> list[str]:
        """Keys a mark must leave alone, because their lanes hold enough already."""
        return list(self._saturated)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is held at all."""
        return not self.lanes

    # -- what happened ---------------------------------------------------------------------------

    def on_marked(self, rows: Sequence[Marked]) -> list[Lane]:
        """Rows were taken, in id order; returns the lanes whose head may go now."""
        lanes, ready = self.lanes, []
        held_bytes = 0
        for row in rows:
            held_bytes += 100 + (len(row[3]) if row[3] is not None else 0)
            # A record without a key has no order to keep: a lane of its own, named by its id.
            name = row[2] if row[2] is not None else row[0]
            lane = lanes.get(name)
            if lane is None:
                lane = lanes[name] = Lane(row)
                ready.append(lane)
            elif lane.waiting is None:
                lane.waiting = deque((row,))
            else:
                lane.waiting.append(row)
                if len(lane.waiting) >= self.limits.lane and lane.key is not None:
                    self._saturated.add(lane.key)
        self.held_records += len(rows)
        self.held_bytes += held_bytes
        self._appetite.on_read(len(rows), held_bytes)
        return ready

    def on_acknowledged(self, lanes: Iterable[Lane]) -> list[int]:
        """The target has the heads of these lanes; returns the ids to purge."""
        ids = []
        for lane in lanes:
            if lane.state is IN_FLIGHT:
                lane.state = PURGING
            elif lane.state is not LaneState.DROPPED:
                raise ImpossibleEvent("acknowledged", lane)
            # A dropped lane's acknowledgement is still the proof that its head may be purged.
            ids.append(lane.head[0])
        self.target_down_until, self._outages = 0.0, 0
        return ids

    def on_purged(self, lanes: Iterable[Lane]) -> list[Lane]:
        """The purge of these heads has committed; returns the lanes whose next may go now."""
        ready = []
        for lane in lanes:
            if lane.state is PURGING:
                if self._advance(lane):
                    ready.append(lane)
            elif lane.state is not LaneState.DROPPED:
                raise ImpossibleEvent("purged", lane)
        return ready

    def on_failed(self, lane: Lane, failure: Failure, now: float) -> Setback | None:
        """A delivery failed: park the lane, and say what is to be written down.

        Returns None for a lane that was dropped meanwhile: its rows are somebody else's.
        """
        if lane.state is LaneState.DROPPED:
            return None
        if lane.state is not IN_FLIGHT:
            raise ImpossibleEvent("failed", lane)
        policy = self._policy_of(lane.head.topic)
        verdict = self._count(lane, failure, policy, now)
        if verdict is None:
            self._park(lane, self._due(lane, failure, policy, now))
        else:
            lane.state = LaneState.HELD
        return Setback(lane, failure, lane.attempts, verdict)

    def due(self, now: float) -> list[Lane]:
        """The parked lanes whose time has come: their heads may go again."""
        ready = []
        while self._parked and self._parked[0][0] <= now:
            lane = heappop(self._parked)[2]
            if lane.state is PARKED:
                lane.state = IN_FLIGHT
                ready.append(lane)
        return ready

    def next_due(self) -> float | None:
        """When the next parked lane will be due."""
        return self._parked[0][0] if self._parked else None

    def postpone(self, lanes: Iterable[Lane], until: float) -> None:
        """These heads may not go yet after all (target down, topic paused): park them."""
        for lane in lanes:
            if lane.state is IN_FLIGHT:
                self._park(lane, until)

    def on_buried(self, lane: Lane) -> list[Lane]:
        """The head has moved to the dead letters; returns the lane if its next may go now."""
        if lane.state is not LaneState.HELD:
            raise ImpossibleEvent("buried", lane)
        return [lane] if self._advance(lane) else []

    def on_shed(self, lane: Lane) -> None:
        """A held lane was given back to the table, all of it in one statement: forget it.

        Never one row alone: a head that is marked again would return behind its own successors.
        """
        if lane.state is not LaneState.HELD:
            raise ImpossibleEvent("shed", lane)
        self._forget(lane)

    def drop_waiting(self) -> list[int]:
        """Forget all that is not in flight or being purged; returns the ids forgotten.

        After a lost connection the marks may be lost with it, and at the end of leadership the
        rows are the next leader's. What is in flight stays until it settles, so that no row is
        taken up again while its first copy may still be on its way.
        """
        ids = []
        for lane in list(self.lanes.values()):
            if lane.waiting:
                ids += [row.id for row in lane.waiting]
                self._give_back(lane.waiting)
                lane.waiting = None
            if lane.state in (PARKED, LaneState.HELD):
                ids.append(lane.head.id)
                self._forget(lane)
        self._saturated.clear()
        return ids

    def drop_all(self) -> None:
        """Forget everything at once: another leader may already be at work."""
        for lane in list(self.lanes.values()):
            self._forget(lane)
        self._parked.clear()
        self._saturated.clear()

    # -- within ----------------------------------------------------------------------------------

    def _advance(self, lane: Lane) -> bool:
        """Drop the head; true if another row of the lane takes its place and may go."""
        self.held_records -= 1
        self.held_bytes -= lane.head.size
        if not lane.waiting:
            self._remove(lane)
            return False
        lane.head = lane.waiting.popleft()
        lane.attempts = lane.head.attempts
        lane.state = IN_FLIGHT
        if self._saturated and len(lane.waiting) <= self.limits.lane // 2:
            self._saturated.discard(lane.head.key or "")
        return True

    def _count(
        self, lane: Lane, failure: Failure, policy: Policy, now: float
    ) -> WhenExhausted | None:
        if failure.kind is FailureKind.PERMANENT:
            lane.attempts += 1
            return policy.when_exhausted
        if failure.kind is FailureKind.RETRIABLE and now >= self.target_down_until:
            lane.attempts += 1
            if lane.attempts >= policy.max_attempts:
                return policy.when_exhausted
        return None

    def _due(self, lane: Lane, failure: Failure, policy: Policy, now: float) -> float:
        if failure.kind is FailureKind.TARGET_DOWN:
            if now >= self.target_down_until:
                self._outages += 1
                self.target_down_until = now + policy.delay(self._outages, self._jitter())
            return self.target_down_until
        return now + policy.delay(max(lane.attempts, 1), self._jitter())

    def _park(self, lane: Lane, until: float) -> None:
        lane.state = PARKED
        heappush(self._parked, (until, next(self._parkings), lane))

    def _forget(self, lane: Lane) -> None:
        self._give_back((lane.head, *(lane.waiting or ())))
        lane.waiting = None
        lane.state = LaneState.DROPPED
        self._remove(lane)

    def _give_back(self, rows: Iterable[Marked]) -> None:
        for row in rows:
            self.held_records -= 1
            self.held_bytes -= row.size

    def _remove(self, lane: Lane) -> None:
        del self.lanes[lane.key if lane.key is not None else lane.head.id]
        if self._saturated:
            self._saturated.discard(lane.key or "")
