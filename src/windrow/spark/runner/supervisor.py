"""Which query is started when, and which is started again? Pure.

Every leg of a graph is one query. They start one after the other, a leg after those it reads from;
one that fails is started again after a pause that doubles, and recovery comes first each time.

::

    WAITING ──▶ STARTING ──▶ RUNNING ──▶ STOPPING ──▶ STOPPED
       ▲           │ failed     │ failed
       │           ▼            ▼           FENCED: another driver has it
       └─────── PAUSING ◀───────┤           REFUSED: a person has to decide
                                ├─────────▶ GIVEN_UP: failed as often as allowed
                                └─────────▶ FINISHED (a run that takes what is there now)

How often one batch may fail is counted in the backing journal, whoever tries it; what is counted
here are ends without any progress, such as a query that cannot even start. The limit is beyond what
the backing journal allows, so that its error, which names the snapshot, comes first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Literal

from windrow.graph.delivery_errors import ImpossibleEvent
from windrow.graph.policies import Retry
from windrow.spark.runner.causes import Cause, CauseKind


class LegState(Enum):
    """Where a leg stands. WAITING is the first; those in ``ENDED`` are terminal."""

    WAITING = "waiting"
    STARTING = "starting"
    RUNNING = "running"
    PAUSING = "pausing"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FINISHED = "finished"
    FENCED = "fenced"
    REFUSED = "refused"
    GIVEN_UP = "given up"


FAILED = frozenset({LegState.FENCED, LegState.REFUSED, LegState.GIVEN_UP})
ENDED = FAILED | {LegState.STOPPED, LegState.FINISHED}

ENDED_BY_ITSELF = Cause(CauseKind.FAILURE, "QueryEnded", "it ended though nobody stopped it")


@dataclass(frozen=True, slots=True)
class Leg:
    """What the supervisor knows of a leg.

    Attributes:
        name: Its uid.
        processor: Whose it is.
        retry: How often, and with which pauses.
        after: The legs it reads from; it starts once they have started, or have finished.
    """

    name: str
    processor: str = ""
    retry: Retry = field(default_factory=Retry)
    after: frozenset[str] = frozenset()


@dataclass(slots=True)
class LegStatus:
    """How a leg is doing.

    Attributes:
        leg: Which.
        state: Where it stands.
        since: When it came there.
        failures: Ends in a row without progress in between; outages count for the pause only.
        counted: Those of them that count as failed attempts.
        starts: How often it was started.
        cause: Why it ended last.
        until: When a pause is over.
    """

    leg: Leg
    state: LegState = LegState.WAITING
    since: float = 0.0
    failures: int = 0
    counted: int = 0
    starts: int = 0
    cause: Cause | None = None
    until: float | None = None
    has_progressed: bool = False


@dataclass(frozen=True, slots=True)
class LegStarted:
    """Recovery is over, and the query runs."""

    name: str


@dataclass(frozen=True, slots=True)
class LegProgressed:
    """A batch was delivered."""

    name: str


@dataclass(frozen=True, slots=True)
class LegFailed:
    """It could not be started, or the query ended with an error."""

    name: str
    cause: Cause


@dataclass(frozen=True, slots=True)
class LegEnded:
    """The query ended without an error."""

    name: str


@dataclass(frozen=True, slots=True)
class Ticked:
    """Time went by."""


@dataclass(frozen=True, slots=True)
class StopRequested:
    """Everything is to end, where nothing is in doubt if possible."""


Event = LegStarted | LegProgressed | LegFailed | LegEnded | Ticked | StopRequested


@dataclass(frozen=True, slots=True)
class StartLeg:
    """Recover the leg, then start its query."""

    name: str
    attempt: int


@dataclass(frozen=True, slots=True)
class StopLeg:
    """Let the running batch end, then stop the query."""

    name: str


Command = StartLeg | StopLeg


class Supervisor:
    """The legs of a graph, from their start to their end. Takes what happened, says what to do.

    Args:
        legs: In the order in which they are started.
        is_once: Every query ends by itself once it has taken what there was; a leg then waits until
            those it reads from have ended.
        when_given_up: What becomes of the others when one has failed for good.
        steady_after: After how many seconds without a failure earlier ones are forgotten.
    """

    def __init__(
        self,
        legs: Sequence[Leg],
        *,
        is_once: bool = False,
        when_given_up: Literal["go-on", "stop"] = "go-on",
        steady_after: float = 30.0,
    ) -> None:
        self._legs = {leg.name: LegStatus(leg) for leg in legs}
        self._is_once = is_once
        self._when_given_up = when_given_up
        self._steady_after = steady_after
        self.is_stopping = False

    @property
    def status(self) -> dict[str, LegStatus]:
        """How every leg is doing, by name, in the order of their starts."""
        return self._legs

    @property
    def is_done(self) -> bool:
        """Whether every leg has ended, however."""
        return all(status.state in ENDED for status in self._legs.values())

    @property
    def failed(self) -> list[LegStatus]:
        """The legs that need somebody."""
        return [status for status in self._legs.values() if status.state in FAILED]

    @property
    def due(self) -> float | None:
        """When the next pause is over."""
        return min((s.until for s in self._legs.values() if s.until is not None), default=None)

    def begin(self, now: float) -> list[Command]:
        """The first things to do; of a run that takes what is there, those of the next round."""
        for status in self._legs.values():
            if status.state is LegState.FINISHED:
                self._enter(status, LegState.WAITING, now)
        return self._turns(now)

    def handle(self, event: Event, now: float) -> list[Command]:
        """Take what happened, return what to do next."""
        match event:
            case StopRequested():
                return self._on_stop(now)
            case Ticked():
                return self._on_tick(now)
        status = self._legs[event.name]
        match status.state, event:
            case LegState.STARTING, LegStarted():
                return self._on_started(status, now)
            case LegState.RUNNING | LegState.STOPPING, LegProgressed():
                status.has_progressed = True
                return []
            case LegState.STARTING | LegState.RUNNING | LegState.STOPPING, LegFailed():
                return self._on_failed(status, event.cause, now)
            case LegState.RUNNING | LegState.STOPPING, LegEnded():
                return self._on_ended(status, now)
            case _, LegProgressed():
                return []  # told late: the query it speaks of has ended
            case state, _:
                raise ImpossibleEvent(type(event).__name__, state.name)

    # -- one method per event --------------------------------------------------------------------

    def _on_started(self, status: LegStatus, now: float) -> list[Command]:
        if self.is_stopping:
            return [*self._stop(status, now), *self._turns(now)]
        self._enter(status, LegState.RUNNING, now)
        return self._turns(now)

    def _on_ended(self, status: LegStatus, now: float) -> list[Command]:
        if status.state is LegState.STOPPING:
            self._enter(status, LegState.STOPPED, now)
        elif self._is_once:
            status.failures = status.counted = 0
            self._enter(status, LegState.FINISHED, now)
        else:
            return self._on_failed(status, ENDED_BY_ITSELF, now)
        return self._turns(now)

    def _on_failed(self, status: LegStatus, cause: Cause, now: float) -> list[Command]:
        self._count(status, cause, now)
        if self.is_stopping:
            self._enter(status, LegState.STOPPED, now)
            return []
        state = self._next_state(status, cause)
        self._enter(status, state, now)
        if state is LegState.PAUSING:
            status.until = now + status.leg.retry.delay_after(status.failures)
        elif self._when_given_up == "stop":
            return self._on_stop(now)
        return self._turns(now)

    def _on_stop(self, now: float) -> list[Command]:
        self.is_stopping = True
        commands: list[Command] = []
        for status in self._legs.values():
            match status.state:
                case LegState.WAITING | LegState.PAUSING:
                    self._enter(status, LegState.STOPPED, now)
                case LegState.RUNNING:
                    commands += self._stop(status, now)
                case _:
                    pass  # one that starts is stopped once it has
        return commands

    def _on_tick(self, now: float) -> list[Command]:
        for status in self._legs.values():
            if status.until is not None and status.until <= now:
                self._enter(status, LegState.WAITING, now)
        return self._turns(now)

    # -- what the events lead to -----------------------------------------------------------------

    def _turns(self, now: float) -> list[Command]:
        """Start the next leg, unless one is starting: each costs a core for a while."""
        states = [status.state for status in self._legs.values()]
        if self.is_stopping or LegState.STARTING in states:
            return []
        for status in self._legs.values():
            if status.state is LegState.WAITING and self._may_start(status):
                status.starts += 1
                status.has_progressed = False
                self._enter(status, LegState.STARTING, now)
                return [StartLeg(status.leg.name, status.failures + 1)]
        return []

    def _may_start(self, status: LegStatus) -> bool:
        if not self._is_once:
            return True
        return all(before.state in ENDED for before in self._before(status))

    def _before(self, status: LegStatus) -> Iterable[LegStatus]:
        return (self._legs[name] for name in status.leg.after if name in self._legs)

    def _count(self, status: LegStatus, cause: Cause, now: float) -> None:
        was_running = status.state in (LegState.RUNNING, LegState.STOPPING)
        is_steady = was_running and now - status.since >= self._steady_after
        if status.has_progressed or is_steady:
            status.failures = status.counted = 0
        status.failures += 1
        status.counted += cause.counts
        status.cause = _explained(cause, status.cause)

    def _next_state(self, status: LegStatus, cause: Cause) -> LegState:
        match cause.kind:
            case CauseKind.FENCED:
                return LegState.FENCED
            case CauseKind.REFUSED | CauseKind.TORN:
                return LegState.REFUSED
            case CauseKind.EXHAUSTED:
                return LegState.GIVEN_UP
            case CauseKind.OUTAGE:
                return LegState.PAUSING
            case CauseKind.FAILURE:
                is_over = status.counted >= limit_of(status.leg.retry)
                return LegState.GIVEN_UP if is_over else LegState.PAUSING

    def _stop(self, status: LegStatus, now: float) -> list[Command]:
        self._enter(status, LegState.STOPPING, now)
        return [StopLeg(status.leg.name)]

    def _enter(self, status: LegStatus, state: LegState, now: float) -> None:
        status.state, status.since, status.until = state, now, None


def _explained(cause: Cause, before: Cause | None) -> Cause:
    """That attempts are used up, with what used them up: a batch knows only their number."""
    if cause.kind is not CauseKind.EXHAUSTED or before is None or not before.counts:
        return cause
    return replace(cause, reason=f"{cause.reason} (it failed with {before})")


def limit_of(retry: Retry) -> float:
    """After how many failures without progress a leg is given up, if the backing journal does not.

    It tries a batch twice as often as allowed, the second time to find the message at fault.
    """
    return float("inf") if retry.attempts is None else 2 * retry.attempts + 1
