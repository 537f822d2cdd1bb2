"""An outbox, a target and an election that do what a test tells them, around a real relay."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from windrow.outbox.errors import DatabaseFailed
from windrow.outbox.marked import Marked
from windrow.relay.election.leading import Leading
from windrow.relay.failure import Failure, FailureKind
from windrow.relay.machine import Lane, Limits
from windrow.relay.policy import Policy
from windrow.relay.road import BarrierRoad
from windrow.relay.service import Relay
from windrow.telemetry.events import Event, EventBus

REFUSED = Failure(FailureKind.RETRIABLE, "refused", "simulated")
POISON = Failure(FailureKind.PERMANENT, "poison", "simulated")
QUICK = Policy(base_delay=0.01, max_delay=0.01)


def wait_for(condition: Callable[[], bool], what: str, timeout: float = 10.0) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout} s: {what}"
        time.sleep(0.002)


class ScriptedStore:
    """A table in memory; any of its statements can be made to fail."""

    def __init__(self) -> None:
        self.rows: dict[int, Marked] = {}
        self.marks: dict[int, UUID] = {}
        self.held: dict[str, str] = {}
        self.dead: list[int] = []
        self.notes: list[tuple[int, int, str]] = []
        self.calls: Counter[str] = Counter()
        self.failing: dict[str, BaseException] = {}
        self.order: list[str] = []
        self._lock = threading.Lock()

    def add(self, *keys: str | None) -> list[Marked]:
        """One more record for each of these keys."""
        with self._lock:
            first = max(self.rows, default=0) + len(self.dead) + 1
            rows = [
                Marked(number, "topic", key, b"value-%d" % number, None, None)
                for number, key in enumerate(keys, start=first)
            ]
            self.rows |= {row.id: row for row in rows}
        return rows

    def fail(self, *statements: str, error: BaseException | None = None) -> None:
        for statement in statements:
            self.failing[statement] = error or DatabaseFailed("simulated")

    def mend(self) -> None:
        self.failing.clear()

    def _called(self, statement: str) -> None:
        self.calls[statement] += 1
        self.order.append(statement)
        if statement in self.failing:
            raise self.failing[statement]

    def open(self) -> None:
        self._called("open")

    def close(self) -> None:
        self._called("close")

    def enter_epoch(
        self, epoch: int, shard: int = 0, *, shards: int = 1, generation: int = 1
    ) -> None:
        self._called("enter_epoch")

    def check_fence(self) -> None:
        self._called("check_fence")

    def read(self, leader: UUID, limit: int, excluded_keys: Sequence[str] = ()) -> list[Marked]:
        self._called("read")
        with self._lock:
            skipped = {*excluded_keys, *self.held}
            found = [
                row
                for number, row in sorted(self.rows.items())
                if self.marks.get(number) != leader and row.key not in skipped
            ][:limit]
            self.marks |= {row.id: leader for row in found}
            return found

    def purge(self, ids: Sequence[int]) -> int:
        self._called("purge")
        with self._lock:
            return len([self.rows.pop(number) for number in ids if number in self.rows])

    def hold(self, key: str, ids: Sequence[int], reason: str, note: str) -> None:
        self._called("hold")
        with self._lock:
            self.held[key] = reason
            for number in ids:
                self.marks.pop(number, None)

    def bury(self, ids: Sequence[int], attempts: int, error: str) -> None:
        self._called("bury")
        with self._lock:
            self.dead += [self.rows.pop(number).id for number in ids if number in self.rows]

    def bury_lanes(self) -> int:
        self._called("bury_lanes")
        with self._lock:
            buried = {key for key, reason in self.held.items() if reason == "buried"}
            following = [row.id for row in self.rows.values() if row.key in buried]
            self.dead += [self.rows.pop(number).id for number in following]
            return len(following)

    def note(self, record: int, attempts: int, error: str) -> None:
        self._called("note")
        self.notes.append((record, attempts, error))

    def forget(self, ids: Sequence[int]) -> None:
        self._called("forget")

    def interrupt(self) -> None:
        self._called("interrupt")


class ScriptedTarget:
    """Keeps what it is sent until the test says how it ends."""

    def __init__(self) -> None:
        self.acknowledged: deque[Lane] = deque()
        self.failed: deque[tuple[Lane, Failure]] = deque()
        self.sent: list[Marked] = []
        self.waiting: list[Lane] = []
        self.refusals = 0
        self.opened = self.closed = 0
        self.open_error: BaseException | None = None
        self._settled = threading.Event()

    def open(self) -> None:
        if self.open_error is not None:
            raise self.open_error
        self.opened += 1

    def send(self, lanes: list[Lane]) -> None:
        for lane in lanes:
            if self.refusals:
                self.refusals -= 1
                self.failed.append((lane, REFUSED))
                self._settled.set()
            else:
                self.sent.append(lane.head)
                self.waiting.append(lane)

    def acknowledge(self, count: int = 1) -> None:
        for _ in range(count):
            self.acknowledged.append(self.waiting.pop(0))
        self._settled.set()

    def fail(self, failure: Failure = REFUSED) -> None:
        self.failed.append((self.waiting.pop(0), failure))
        self._settled.set()

    def poll(self, timeout: float) -> int:
        settled = self._settled.wait(min(timeout, 0.01))
        self._settled.clear()
        return int(settled)

    def close(self, timeout: float) -> int:
        self.closed += 1
        return len(self.waiting)


class ScriptedElection:
    """Leads, hands over and is fenced when the test says so."""

    def __init__(self) -> None:
        self.pulse_interval = 0.002
        self.epoch = 0
        self.valid_until = math.inf
        self.error: BaseException | None = None
        self.resigned = self.closed = 0
        self._wanted = "standby"
        self._leading: Leading | None = None
        self._hand_over: Callable[[int], None] = lambda shard: None

    def bind(self, on_revoked: Callable[[int], None]) -> None:
        self._hand_over = on_revoked

    def acquire(self) -> None:
        self._wanted = "leading"

    def revoke(self) -> None:
        self._wanted = "revoked"

    def fence(self) -> None:
        self._wanted = "fenced"

    def pulse(self) -> Leading | None:
        if self.error is not None:
            raise self.error
        if self._wanted == "leading":
            if self._leading is None:
                self.epoch += 1
            self._leading = Leading(self.epoch, self.valid_until)
        elif self._leading is not None:
            if self._wanted == "revoked":
                self._hand_over(0)
            self._leading = None
        return self._leading

    def resign(self) -> None:
        self.resigned += 1
        self._leading = None

    def close(self) -> None:
        self.closed += 1


class OpeningElection(ScriptedElection):
    """One that has to see to something before it can elect."""

    def __init__(self, error: BaseException | None = None) -> None:
        super().__init__()
        self.open_error = error

    def open(self) -> None:
        if self.open_error is not None:
            raise self.open_error


@dataclass
class Stage:
    """A relay and everything around it."""

    store: ScriptedStore = field(default_factory=ScriptedStore)
    target: ScriptedTarget = field(default_factory=ScriptedTarget)
    election: ScriptedElection = field(default_factory=ScriptedElection)
    events: list[Event] = field(default_factory=list)
    bus: EventBus = field(default_factory=EventBus)

    def relay(self, policy: Policy = QUICK, **more: Any) -> Relay:
        self.bus.subscribe(self.events.append)
        road = BarrierRoad(
            self.store,  # type: ignore[arg-type]
            self.target,  # type: ignore[arg-type]
            self.bus,
            limits=Limits(records=1_000),
            policy_of=lambda topic: policy,
            delivery_timeout=0.0,
        )
        return Relay.of(lambda shard: road, self.election, events=self.bus, margin=0.0, **more)

    @contextmanager
    def running(self, **more: Any) -> Iterator[Relay]:
        """A relay that leads; whatever is on its way in the end is given up."""
        relay = self.relay(**more).start()
        self.election.acquire()
        wait_for(lambda: relay.is_leader, "it leads")
        yield relay
        relay.stop(0.1)
        assert relay.wait(10.0)

    def told(self, *kinds: type[Event]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kinds)]

    def sent(self, count: int) -> list[int]:
        """The ids sent so far; waits until there are so many."""
        wait_for(lambda: len(self.target.sent) >= count, f"{count} are sent")
        return [row.id for row in self.target.sent]
