"""How much is delivered, since the start and since the last reading. Pure."""

from __future__ import annotations

from windrow.relay.events import MeterRead


class Meter:
    """Reads a running total now and then; one that is made later begins to count there."""

    def __init__(self, interval: float, total: int, now: float) -> None:
        self._interval = interval
        self._start_total, self._start = total, now
        self._last_total, self._last = total, now

    def read(self, total: int, now: float) -> MeterRead | None:
        """The reading, if one is due: not too soon after the last, and not if nothing moved."""
        if total == self._last_total or now - self._last < self._interval or now == self._last:
            return None
        since_start, since_last = total - self._start_total, total - self._last_total
        reading = MeterRead(
            since_start,
            since_start / (now - self._start),
            since_last,
            since_last / (now - self._last),
        )
        self._last_total, self._last = total, now
        return reading
