"""How long to wait before a message is tried again. Pure."""

from __future__ import annotations

from dataclasses import dataclass

MAX_DOUBLINGS = 32


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential, scattered over the whole of it, and no shorter than a receiver asks for.

    Attributes:
        least: The shortest pause.
        most: The longest pause of all, whatever a receiver asks for.
    """

    least: float
    most: float

    def delay(self, failures: int, jitter: float, retry_after: float | None = None) -> float:
        """Seconds to wait after so many failures, the first being 1.

        ``jitter`` in [0, 1) picks the pause between ``least`` and a ceiling that doubles with each
        failure: messages that failed together do not return together.
        """
        doublings = min(max(failures, 1), MAX_DOUBLINGS)
        ceiling = min(self.most, self.least * 2.0**doublings)
        pause = self.least + (ceiling - self.least) * jitter
        if retry_after is None:
            return pause
        # Scattered above what was asked for: all of them were asked for the same.
        asked = max(0.0, retry_after) + self.least * jitter
        return min(self.most, max(pause, asked))
