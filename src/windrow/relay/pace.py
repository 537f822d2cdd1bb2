"""When to look at the outbox again. Pure."""

from __future__ import annotations


class Pace:
    """Quick while rows come, slower and slower while none do.

    A table that was busy a moment ago is looked at every ``quick`` seconds for ``patience``
    seconds, then half as often each time, down to once every ``slow`` seconds.
    """

    def __init__(self, quick: float = 0.001, slow: float = 0.5, patience: float = 0.05) -> None:
        self.quick, self.slow, self.patience = quick, slow, patience
        self._empty_since: float | None = None
        self._delay = quick

    def on_rows(self) -> None:
        """A read returned something."""
        self._empty_since = None
        self._delay = self.quick

    def on_empty(self, now: float) -> float:
        """A read returned nothing; returns the seconds to wait before the next."""
        if self._empty_since is None:
            self._empty_since = now
        if now - self._empty_since > self.patience:
            self._delay = min(self.slow, self._delay * 2)
        return self._delay
