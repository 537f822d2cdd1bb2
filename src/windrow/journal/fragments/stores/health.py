"""Whether a store can be used: asked before a journal leans on it, and from time to time after."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

from windrow.clock import Clock, SystemClock
from windrow.errors import WindrowError
from windrow.journal.fragments.errors import StoreError
from windrow.journal.fragments.stores.store import Store

PROBE = ".test/health-check"
PROBE_CONTENT = b"health-check\n"

HEALTHY_INTERVAL = 30 * 60.0
RETRY_DELAYS = (0.0, 0.1, 1.0, 1.0, 10.0, 10.0, 100.0)
PATIENCE = 5
"""After so many failed checks in a row a journal is refused rather than kept waiting."""


def check_store(store: Store) -> None:
    """Put, get, list and sign a small object.

    Raises:
        StoreError: One of them does not work.
    """
    store.put(PROBE, [PROBE_CONTENT])
    if (found := b"".join(store.get(PROBE))) != PROBE_CONTENT:
        raise StoreError(store.url, "health check", f"put {PROBE_CONTENT!r} and got {found!r}")
    home, _, name = PROBE.rpartition("/")
    if name not in {stored.path for stored in store.list(f"{home}/")}:
        raise StoreError(store.url, "health check", f"{PROBE} was put and is not listed")
    store.signed_url(PROBE, 60.0)


def check_delete(store: Store, prefix: str = "") -> None:
    """Put and delete a small object, below a prefix of one's choice.

    Raises:
        StoreError: It does not work, or the object is still there.
    """
    path = f"{prefix.strip('/')}/{PROBE}-delete".lstrip("/")
    store.put(path, [PROBE_CONTENT])
    store.remove(path)
    if store.exists(path):
        raise StoreError(store.url, "health check", f"{path} was deleted and is still there")


class StoreHealth:
    """Checks one store over and over, and says how it is."""

    def __init__(
        self,
        store: Store,
        *,
        clock: Clock | None = None,
        healthy_interval: float = HEALTHY_INTERVAL,
        jitter: Callable[[], float] = lambda: random.uniform(0.8, 1.2),
    ) -> None:
        self.failures = 0
        self.error: WindrowError | None = None
        self._store, self._clock = store, clock or SystemClock()
        self._healthy_interval, self._jitter = healthy_interval, jitter
        self._is_checked = False
        self._next_check = asyncio.Event()

    async def run(self) -> None:
        """Check for as long as the task lives."""
        while True:
            await self.check()
            if self.error is None:
                delay = self._healthy_interval * self._jitter()
            else:
                delay = RETRY_DELAYS[min(self.failures, len(RETRY_DELAYS)) - 1]
            await self._clock.sleep(delay)

    async def check(self) -> None:
        """Check once."""
        try:
            await asyncio.to_thread(check_store, self._store)
        except WindrowError as error:
            self.failures, self.error = self.failures + 1, error
        else:
            self.failures, self.error = 0, None
        self._is_checked = True
        self._next_check.set()
        self._next_check = asyncio.Event()

    async def wait_healthy(self) -> WindrowError | None:
        """None as soon as the store is found healthy; its error once patience has run out."""
        while not self._is_checked or 0 < self.failures <= PATIENCE:
            await self._next_check.wait()
        return self.error
