"""How often is a message delivered, how often is a step tried, and what happens when it fails?

A processor that says nothing takes what its graph says; these functions are the one place where
that is decided.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Strategy = Literal["exactly-once", "at-least-once", "at-most-once"]
"""How often an input counts as delivered, whatever dies and whenever."""

OnError = Literal["stop", "drop", "deadletter"]
"""What becomes of an input whose function fails for good: the processor stops before it, the input
is dropped and counted, or its error goes to the error queue in its place."""

EXACTLY_ONCE: Strategy = "exactly-once"
AT_LEAST_ONCE: Strategy = "at-least-once"
AT_MOST_ONCE: Strategy = "at-most-once"


@dataclass(frozen=True, slots=True)
class Retry:
    """How often a step is tried, and how long to wait in between; durations in seconds.

    Attributes:
        attempts: The first try counts. ``None`` tries for ever: right for a target that will come
            back, and wrong for a message that never works.
        backoff: The wait after the first failure; it doubles with each.
        max_backoff: The longest wait.
    """

    attempts: int | None = 5
    backoff: float = 1.0
    max_backoff: float = 60.0

    def delay_after(self, attempt: int) -> float:
        """How long to wait after the attempt of that number, the first being 1, has failed."""
        # 2 ** 64 s is beyond any limit, and a float still holds it.
        return min(self.max_backoff, self.backoff * 2.0 ** min(attempt - 1, 64))

    def is_exhausted(self, attempt: int) -> bool:
        """Whether the attempt of that number was the last one."""
        return self.attempts is not None and attempt >= self.attempts


@dataclass(frozen=True, slots=True)
class ErrorPolicy:
    """What happens to an input that fails for good; ``queue`` is set only for ``deadletter``."""

    on_error: OnError
    queue: str | None = None


def error_policy(
    own_queue: str | None,
    own: OnError | None,
    graph_queue: str | None,
    graph_policy: OnError | None,
) -> ErrorPolicy:
    """The policy of one processor: what it says itself, else what its graph says, else ``stop``.

    Naming an error queue is asking for ``deadletter``; ``deadletter`` without a queue of its own
    takes the graph's.
    """
    chosen = own or ("deadletter" if own_queue else None)
    chosen = chosen or graph_policy or ("deadletter" if graph_queue else None) or "stop"
    return ErrorPolicy(chosen, (own_queue or graph_queue) if chosen == "deadletter" else None)
