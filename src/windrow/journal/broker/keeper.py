"""Begins and ends this broker's replicas, and does what each needs from time to time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Collection, Coroutine
from dataclasses import dataclass, field
from typing import Any

from windrow.errors import WindrowError
from windrow.journal.broker.ownership import GivenUp
from windrow.journal.broker.peers import BrokerPeers
from windrow.journal.broker.replica import Replica
from windrow.journal.broker.resolution import JournalView
from windrow.journal.broker.settings import BrokerSettings
from windrow.journal.broker.signals import Signal, first_set
from windrow.journal.broker.spools import SpoolHouse
from windrow.journal.broker.stored import BrokerStores
from windrow.journal.broker.timeouts import Timeouts
from windrow.journal.fragments.content import CompletedSpool
from windrow.journal.fragments.errors import SpoolBroken
from windrow.journal.fragments.index import Index
from windrow.journal.fragments.persister import Persister
from windrow.journal.spec import JournalSpec, ProcessId
from windrow.telemetry import get_logger

_log = get_logger(__name__)

FIRST_RETRY, LAST_RETRY = 0.5, 60.0


@dataclass(slots=True)
class _Held:
    """A replica with its tasks, and the spec as of its last renewal."""

    replica: Replica
    spec: JournalSpec
    renewed: Signal = field(default_factory=Signal)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)


class Keeper:
    """The replicas of one broker, from their assignment to their end."""

    def __init__(
        self,
        settings: BrokerSettings,
        local_id: ProcessId,
        house: SpoolHouse,
        stores: BrokerStores,
        peers: BrokerPeers,
        persister: Persister,
        pulse: Callable[[Replica], Coroutine[Any, Any, None]],
        broken: Callable[[SpoolBroken], None],
    ) -> None:
        self._settings, self._local_id = settings, local_id
        self._house, self._stores, self._persister = house, stores, persister
        self._peers, self._pulse, self._broken = peers, pulse, broken
        self._timeouts = Timeouts.of(settings.peer_timeout)
        self._held: dict[Replica, _Held] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._others: set[asyncio.Task[None]] = set()
        self._is_stopping = False

    def begin(self, view: JournalView, invalidated: Signal) -> Replica:
        """A replica of a journal that was assigned to this broker."""
        assert view.spec is not None, "only journals that exist are assigned"
        source = self._house.source(view.journal, view.create_revision, view.spec.fragment.codec)
        index = Index(self._settings.jump_age)
        for completed in source.completed:
            index.add_local(completed.fragment, completed.content)
        replica = Replica(
            view.journal,
            member=self._local_id,
            source=source,
            index=index,
            complete=self._persister.add,
            is_durable=self._settings.is_durable,
            broken=self._broken,
            timeouts=self._timeouts,
            min_append_rate=self._settings.min_append_rate,
        )
        held = self._held[replica] = _Held(replica, view.spec)
        held.tasks = [
            asyncio.create_task(self._list_stores(held), name=f"listing of {view.journal}"),
            asyncio.create_task(self._pulse(replica), name=f"pulse of {view.journal}"),
        ]
        return replica

    def renew(self, replica: Replica, view: JournalView, invalidated: Signal) -> None:
        """Tell a replica that stays that its route or stores are others now."""
        held = self._held[replica]
        if view.spec is not None:
            held.spec = view.spec
        if view.slot_of(self._local_id) != 0:
            self._in_background(_give_up_pipeline(replica))
        renewed, held.renewed = held.renewed, Signal()
        renewed.set()

    def end(self, replica: Replica) -> asyncio.Future[None]:
        """Let go of a journal that is no longer assigned to this broker; done once that is so."""
        task = asyncio.create_task(self._end(self._held.pop(replica)))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
        return task

    def on_members_gone(self, endpoints: Collection[str]) -> None:
        """Forget the connections to them: to whoever comes back, a new one is made at once."""
        self._in_background(self._peers.forget(endpoints))

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._others.add(task)
        task.add_done_callback(self._others.discard)

    def stop(self) -> None:
        """From now on replicas end because this broker does: what is durable stays as it is."""
        self._is_stopping = True

    async def wait_ended(self, patience: float) -> None:
        """Return when all replicas that were told to end have done so, or after so long."""
        if self._ending:
            _, late = await asyncio.wait(self._ending, timeout=patience)
            for task in late:
                task.cancel()
        for task in self._others:
            task.cancel()

    async def _end(self, held: _Held) -> None:
        replica = held.replica
        for task in held.tasks:
            task.cancel()
        try:
            await replica.stop(hands_over=not self._is_stopping)
        except WindrowError as error:
            _log.warning("replica ended badly", journal=replica.journal, error=str(error))
        except Exception:
            _log.exception("replica ended badly", journal=replica.journal)

    # -- listing -----------------------------------------------------------------------------------

    async def _list_stores(self, held: _Held) -> None:
        """List the journal's stores now, and again at its refresh interval."""
        replica, retry = held.replica, FIRST_RETRY
        while not replica.ended.is_set():
            renewed, fragment = held.renewed, held.spec.fragment
            delay: float | None = None
            if not fragment.stores:
                replica.index.replace_remote(())
            else:
                try:
                    found = await self._stores.list(fragment.stores, replica.journal)
                except WindrowError as error:
                    _log.warning("stores not listed", journal=replica.journal, error=str(error))
                    delay, retry = retry, min(2 * retry, LAST_RETRY)
                else:
                    replica.index.replace_remote(found)
                    # Not all journals of a broker at once, for ever after it started.
                    delay, retry = fragment.refresh_interval * random.uniform(0.8, 1.2), FIRST_RETRY
            await _wait(delay, renewed, replica.ended)


async def _give_up_pipeline(replica: Replica) -> None:
    """Let go of the spool, which the primary that took our place is waiting for."""
    try:
        pipeline = await replica.pipeline.take(unless=(replica.ended,))
    except GivenUp:
        return
    try:
        if pipeline is not None:
            await pipeline.close()
    finally:
        replica.pipeline.give(None)


async def _wait(delay: float | None, *events: Signal) -> None:
    try:
        async with asyncio.timeout(delay):
            await first_set(*events)
    except TimeoutError:
        return


def spec_of(
    view_of: Callable[[str], JournalView],
) -> Callable[[CompletedSpool], JournalSpec | None]:
    """How the persister learns of the spec of a spool, or that its journal is gone."""

    def find(spool: CompletedSpool) -> JournalSpec | None:
        view = view_of(spool.fragment.journal)
        is_same = view.create_revision == spool.record.create_revision
        return view.spec if is_same else None

    return find
