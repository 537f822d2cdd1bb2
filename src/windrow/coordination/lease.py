"""How does a lease stay alive, and when has it to be given up?

The store counts a lease from when it *took* a renewal, we count from when we *sent* it: so we give
it up no later than the store does, however slow the way was.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from windrow.clock import Clock, SystemClock
from windrow.errors import Failed
from windrow.telemetry.logs import get_logger

_log = get_logger(__name__)

RENEW_AFTER: Final = 1 / 3
RETRY_AFTER: Final = 1 / 20

Renew = Callable[[int, float], Awaitable[float]]
"""Renew a lease within so many seconds; return the seconds it has from now, 0 if it is gone."""
Revoke = Callable[[int], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class LeaseTerm:
    """Until when a lease is certain to hold. Pure."""

    ttl: float
    sent_at: float
    """When the grant or the last renewal that was answered set out."""

    @property
    def ends_at(self) -> float:
        """From then on its keys may be gone."""
        return self.sent_at + self.ttl

    def next_try_at(self, last_try_at: float) -> float:
        """When to renew: a third into the term, and soon again after a try that failed."""
        if last_try_at <= self.sent_at:
            return self.sent_at + self.ttl * RENEW_AFTER
        return min(last_try_at + self.ttl * RETRY_AFTER, self.ends_at)


class KeptLease:
    """A lease and, if it is to be kept alive, the task that renews it."""

    def __init__(
        self, id: int, term: LeaseTerm, revoke: Revoke, renew: Renew | None, clock: Clock
    ) -> None:
        self.id = id
        self.lost = asyncio.Event()
        self._term = term
        self._revoke, self._renew = revoke, renew
        self._clock = clock
        self._revoked = False
        self._task: asyncio.Task[None] | None = None

    @classmethod
    def begin(
        cls,
        id: int,
        term: LeaseTerm,
        revoke: Revoke,
        renew: Renew | None = None,
        clock: Clock | None = None,
    ) -> KeptLease:
        """Hold a lease that was granted; without ``renew`` it ends with its term."""
        lease = cls(id, term, revoke, renew, clock or SystemClock())
        lease._task = asyncio.create_task(lease._keep(), name=f"lease {id:x}")
        return lease

    @property
    def ttl(self) -> float:
        """Seconds for which it outlives whoever holds it."""
        return self._term.ttl

    async def revoke(self) -> None:
        """End it now, which deletes its keys. Does nothing the second time."""
        if not self._revoked:
            await self.let_go()
            await self._revoke(self.id)
            self._revoked = True

    async def let_go(self) -> None:
        """Renew it no more, and let it end by itself."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait({task})

    async def _keep(self) -> None:
        """Renew the lease until it is lost; whatever goes wrong, that is told."""
        try:
            await self._renew_until_lost()
        except Exception as error:
            _log.error("lease given up", lease=f"{self.id:x}", error=repr(error))
        self.lost.set()
        _log.warning("lease lost", lease=f"{self.id:x}", ttl=self._term.ttl)

    async def _renew_until_lost(self) -> None:
        tried_at = self._term.sent_at
        while (now := self._clock.monotonic()) < self._term.ends_at:
            due = self._term.next_try_at(tried_at) if self._renew else self._term.ends_at
            if now < due:
                await self._clock.sleep(due - now)
                continue
            tried_at = now
            if not await self._try_to_renew(now):
                return

    async def _try_to_renew(self, now: float) -> bool:
        """Whether the lease still exists, as far as we can know."""
        assert self._renew is not None, "a lease without renewal only waits for its end"
        try:
            ttl = await self._renew(self.id, self._term.ends_at - now)
        except Failed as error:
            _log.info("lease not renewed", lease=f"{self.id:x}", error=str(error))
            return True
        if ttl > 0:
            self._term = LeaseTerm(ttl, now)
        return ttl > 0
