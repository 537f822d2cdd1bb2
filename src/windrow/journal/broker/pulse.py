"""Keeps the pipeline of a journal synchronised though nobody appends to it.

Brokers can only enter and leave a route once it is synchronised, so each replica appends nothing
every so often, and at once when the route has changed. Only the primary has anything to do, and
even it skips most beats of a journal that is in order and has not changed since.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from windrow.journal.broker.append_api import AppendApi
from windrow.journal.broker.signals import Signal, first_set
from windrow.journal.spec import SuspendControl
from windrow.journal.status import Status
from windrow.telemetry import get_logger

if TYPE_CHECKING:
    from windrow.journal.broker.append_group import Outcome
    from windrow.journal.broker.ports import Resolution, Resolver
    from windrow.journal.broker.replica import Replica

_log = get_logger(__name__)

PULSE_TIMEOUT = 60.0
QUIET_PULSES = 10
IDLE_PULSES = 15
"""Pulses without any change, after which a journal may be suspended."""

_EXPECTED = frozenset(
    {Status.OK, Status.NOT_JOURNAL_PRIMARY_BROKER, Status.JOURNAL_NOT_FOUND, Status.SUSPENDED}
)


class Pulse:
    """The pulse of one replica."""

    def __init__(
        self,
        api: AppendApi,
        resolver: Resolver,
        replica: Replica,
        *,
        interval: float = 60.0,
        auto_suspend: bool = False,
        turns: asyncio.Semaphore | None = None,
    ) -> None:
        """Prepare a pulse; ``turns`` bounds how many of a broker beat at the same time."""
        self._turns = turns or asyncio.Semaphore()
        self._api, self._resolver, self._replica = api, resolver, replica
        self._interval, self._auto_suspend = interval, auto_suspend
        self._idle_pulses = 0
        self._end_before = -1
        self._settled: Signal | None = None
        self._skipped = 0

    async def run(self) -> None:
        """Beat until the replica ends."""
        while not self._replica.ended.is_set():
            resolution = await self._resolver.resolve(
                self._replica.journal, require_primary=False, may_proxy=True
            )
            if resolution.is_local_primary and not self._is_quiet(resolution):
                is_ok = await self.beat()
                self._settled = resolution.invalidated if is_ok else None
            elif not resolution.is_local_primary:
                await self._replica.shut_pipeline()
            try:
                async with asyncio.timeout(self._interval):
                    await first_set(resolution.invalidated, self._replica.ended)
                self._idle_pulses = 0
            except TimeoutError:
                pass

    def _is_quiet(self, resolution: Resolution) -> bool:
        """Whether a beat would find nothing to do; of those, only one in so many is sent.

        Brokers that are gone lose their lease, which changes the route. What else could need a
        beat is a fragment that has to be rolled because of its age, and suspension.
        """
        spec = resolution.journal_spec
        is_unchanged = (
            self._settled is resolution.invalidated
            and not resolution.invalidated.is_set()
            and self._end_before == self._replica.index.end_offset
        )
        may_age = spec is None or spec.fragment.flush_interval > 0 or self._auto_suspend
        if not is_unchanged or may_age or self._skipped >= QUIET_PULSES:
            self._skipped = 0
            return False
        self._skipped += 1
        return True

    async def beat(self) -> bool:
        """Append nothing, once, and say whether it went well; else the next beat tries again."""
        try:
            async with self._turns, asyncio.timeout(PULSE_TIMEOUT):
                outcome = await self._api.barrier(self._replica.journal, self._control())
        except TimeoutError:
            _log.warning("pulse did not end in time", journal=self._replica.journal)
            return False
        self._tell(outcome)
        is_ok = outcome.verdict is not None and outcome.verdict.status is Status.OK
        return is_ok and not outcome.error

    def _control(self) -> SuspendControl:
        """After a while without appends, ask for suspension if this broker does so."""
        end = self._replica.index.end_offset
        self._idle_pulses = self._idle_pulses + 1 if end == self._end_before else 0
        self._end_before = end
        if self._auto_suspend and self._idle_pulses >= IDLE_PULSES:
            return SuspendControl.IF_FLUSHED
        return SuspendControl.NO_RESUME

    def _tell(self, outcome: Outcome) -> None:
        status = outcome.verdict.status if outcome.verdict else Status.OK
        if outcome.error or status not in _EXPECTED:
            _log.warning(
                "pulse failed",
                journal=self._replica.journal,
                status=status.name,
                error=outcome.error,
            )
