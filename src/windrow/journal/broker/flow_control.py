"""May a client's next chunk pass now, and does the client send fast enough? Pure arithmetic.

An append holds its journal while it streams, so a client must deliver at a minimum rate: it has one
second's worth of credit, spends it as time passes, and earns it back by what it delivers. A journal
may have a maximum rate too: a balance that time fills, up to ten seconds' worth, and chunks empty.
A chunk passes once it is paid for in full. The balance is the journal's, not the append's.

The shell ticks every :data:`QUANTUM` seconds while it waits for a chunk or holds one back.
"""

from __future__ import annotations

from windrow.errors import Failed

QUANTUM = 0.05
CREDIT_SECONDS = 1.0
BANK_SECONDS = 10.0


class ClientTooSlow(Failed):
    """The client did not deliver at the minimum rate."""

    def __init__(self, min_rate: int) -> None:
        super().__init__(min_rate)
        self.min_rate = min_rate

    def __str__(self) -> str:
        return (
            "client stream didn't sustain the minimum append data rate"
            f" ({self.min_rate} bytes/s); buffer the content before appending it"
        )


class FlowControl:
    """The rates of one journal at its primary; one streaming append uses it at a time."""

    def __init__(self, min_rate: int, now: float) -> None:
        self.min_rate = min_rate
        self.max_rate = 0
        self.balance = 0.0
        self.total_chunks = 0
        self.delayed_chunks = 0
        self._credit = 0.0
        self._owed = 0.0
        self._is_lifted = False
        self._last_tick = now

    @property
    def is_held_back(self) -> bool:
        """Whether a chunk waits for the balance."""
        return self._owed > 0

    def begin(self, now: float, max_rate: int) -> None:
        """An append begins to stream. What the journal's balance has gathered is kept."""
        if self.max_rate == 0:
            self.balance = max_rate * CREDIT_SECONDS
        self.max_rate = max_rate
        self._fill(now - self._last_tick)
        self._last_tick = now
        self._credit = self.min_rate * CREDIT_SECONDS
        self._owed = 0.0
        self._is_lifted = False
        self.total_chunks = self.delayed_chunks = 0

    def on_chunk(self, size: int) -> bool:
        """A chunk arrived; returns whether it may pass at once."""
        self.total_chunks += 1
        self._credit = min(self._credit + size, self.min_rate * CREDIT_SECONDS)
        if self.max_rate == 0 or self._is_lifted:
            return True
        self._owed = float(size)
        self._pay()
        if self._owed > 0:
            self.delayed_chunks += 1
        return self._owed == 0

    def on_tick(self, now: float) -> bool:
        """Time passed; returns whether a chunk that was held back may pass now.

        Raises:
            ClientTooSlow: The client has spent its credit.
        """
        elapsed = now - self._last_tick
        self._last_tick = now
        self._fill(elapsed)
        if self._owed > 0:
            self._pay()
            return self._owed == 0
        # A late tick says that this broker was busy, which is nothing to hold against the client.
        self._credit -= self.min_rate * min(elapsed, QUANTUM)
        if self.min_rate and self._credit <= 0:
            raise ClientTooSlow(self.min_rate)
        return False

    def on_invalidated(self) -> None:
        """The route has changed: let the append finish, as others wait for it to end."""
        self._is_lifted = True
        self._owed = 0.0

    def _fill(self, elapsed: float) -> None:
        most = self.max_rate * BANK_SECONDS
        self.balance = min(self.balance + self.max_rate * elapsed, most)

    def _pay(self) -> None:
        paid = min(self.balance, self._owed)
        self.balance -= paid
        self._owed -= paid
