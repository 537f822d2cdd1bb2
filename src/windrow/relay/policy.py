"""How a failed record is answered: when to try again, and what to do once trying is over."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class WhenExhausted(Enum):
    """What becomes of a lane whose head has failed for good."""

    HOLD = "hold"
    """The lane waits for a person; nothing of its key overtakes."""
    DEAD_LETTER_RECORD = "dead-letter-record"
    """The record moves to the dead letters, its lane goes on."""
    DEAD_LETTER_LANE = "dead-letter-lane"
    """The record moves to the dead letters, and so does what follows it in its key."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Back-off, attempts, and the end of patience."""

    max_attempts: int = 10
    base_delay: float = 0.1
    max_delay: float = 30.0
    when_exhausted: WhenExhausted = WhenExhausted.HOLD

    def delay(self, attempts: int, jitter: float) -> float:
        """Seconds to wait after that many failures.

        Exponential, then scattered over the upper half by ``jitter`` in [0, 1), so that lanes
        that failed together do not return together.
        """
        ceiling: float = min(self.max_delay, self.base_delay * 2.0 ** min(max(attempts - 1, 0), 32))
        return ceiling * (0.5 + 0.5 * jitter)
