"""Whether anything may be sent to a destination just now. Pure.

::

    CLOSED ──N outages in a row──▶ OPEN ──its time is over──▶ HALF_OPEN ──an outage──▶ OPEN
       ▲                             │                            │
       └────────an answer────────────┴──────────an answer─────────┘

Half open, one message at a time tries whether anybody is there. Whatever answer it gets, even a
refusal, is given by somebody, and closes the circuit.
"""

from __future__ import annotations

from enum import Enum


class CircuitState(Enum):
    """What a circuit lets through."""

    CLOSED = "closed"  # initial: everything
    OPEN = "open"  # nothing
    HALF_OPEN = "half-open"  # one at a time


class Circuit:
    """One destination's circuit. Readings of a monotonic clock come in as ``now``."""

    __slots__ = ("_limit", "_open_for", "_outages", "_probe", "_until", "state")

    def __init__(self, failures: int, open_for: float) -> None:
        self.state = CircuitState.CLOSED
        self._limit, self._open_for = failures, open_for
        self._outages = 0
        self._until = 0.0
        self._probe: int | None = None

    @property
    def open_until(self) -> float:
        """When an open one will let the next probe through."""
        return self._until

    def wants_probe(self, now: float) -> bool:
        """Whether a message should be found that tries whether anybody is there."""
        return self.look(now) is CircuitState.HALF_OPEN and self._probe is None

    def look(self, now: float) -> CircuitState:
        """The state at that time: an open circuit is half open once its time is over."""
        if self.state is CircuitState.OPEN and now >= self._until:
            self.state = CircuitState.HALF_OPEN
        return self.state

    def admit(self, row: int, now: float) -> bool:
        """Whether that row may be sent now; half open, it is then the probe."""
        if self.state is CircuitState.CLOSED or row == self._probe:
            return True
        if self.look(now) is CircuitState.OPEN or self._probe is not None:
            return False
        self._probe = row
        return True

    def on_answer(self) -> bool:
        """Somebody answered; returns whether that closed the circuit."""
        self._outages = 0
        self._probe = None
        was_closed = self.state is CircuitState.CLOSED
        self.state = CircuitState.CLOSED
        return not was_closed

    def on_outage(self, row: int, now: float) -> bool:
        """Nobody answered that row; returns whether that opened the circuit."""
        if self.state is CircuitState.CLOSED:
            self._outages += 1
            if self._outages < self._limit:
                return False
            self._open(now)
            return True
        if row == self._probe:
            # What was sent before it opened says nothing new.
            self._open(now)
        return False

    def on_forgotten(self, row: int) -> None:
        """That row will get no answer any more: the next probe need not wait for it."""
        if row == self._probe:
            self._probe = None

    def _open(self, now: float) -> None:
        self.state = CircuitState.OPEN
        self._until = now + self._open_for
        self._probe = None
        self._outages = 0
