"""The parts of a broker, put together."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from windrow.coordination.mirror import Mirror
from windrow.coordination.store import Store
from windrow.journal.broker.append_api import AppendApi
from windrow.journal.broker.append_run import AppendServices
from windrow.journal.broker.apply_api import ApplyApi
from windrow.journal.broker.fragments_api import FragmentsApi
from windrow.journal.broker.gateway import Gateway
from windrow.journal.broker.health_api import HealthApi
from windrow.journal.broker.home import Home
from windrow.journal.broker.keeper import Keeper, spec_of
from windrow.journal.broker.keyspace_changes import KeyspaceChanges
from windrow.journal.broker.list_api import ListApi
from windrow.journal.broker.metrics import BrokerMetrics
from windrow.journal.broker.peers import BrokerPeers
from windrow.journal.broker.pulse import Pulse
from windrow.journal.broker.read_api import ReadApi
from windrow.journal.broker.replica import Replica
from windrow.journal.broker.replicate_api import ReplicateApi
from windrow.journal.broker.resolver import Resolver
from windrow.journal.broker.service import Handlers, JournalService
from windrow.journal.broker.settings import BrokerSettings
from windrow.journal.broker.spools import SpoolHouse
from windrow.journal.broker.stored import BrokerStores
from windrow.journal.broker.tls import peer_credentials
from windrow.journal.broker.tokens import Authority
from windrow.journal.fragments.content import CompletedSpool
from windrow.journal.fragments.errors import SpoolBroken
from windrow.journal.fragments.persister import Persister
from windrow.journal.fragments.stores import Stores
from windrow.journal.keys import Keys
from windrow.journal.spec import ProcessId

PULSES_AT_ONCE = 16
"""A thousand journals that were assigned together must not drown the appends of clients."""


@dataclass(slots=True, kw_only=True)
class Assembly:
    """Everything of a broker but its process: no port, no lease, no allocator."""

    resolver: Resolver
    keeper: Keeper
    peers: BrokerPeers
    stores: BrokerStores
    persister: Persister
    appends: AppendApi
    read: ReadApi
    service: JournalService
    gateway: Gateway
    metrics: BrokerMetrics
    _recovered: list[CompletedSpool]
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)

    @classmethod
    async def build(
        cls,
        settings: BrokerSettings,
        home: Home,
        local_id: ProcessId,
        store: Store,
        mirror: Mirror,
        keys: Keys,
        problem: Callable[[], str | None],
        broken: Callable[[SpoolBroken], None],
    ) -> Assembly:
        """Recover the spools and make all parts; the mirror has still to be started.

        Raises:
            UsageError: A key or certificate cannot be used.
        """
        authority = Authority(settings.auth_keys)
        credentials = None if settings.tls is None else peer_credentials(settings.tls)
        house = SpoolHouse(home.spools if settings.is_durable else None)
        await asyncio.to_thread(house.recover)
        peers = BrokerPeers(authority, credentials, settings.max_message_bytes)
        stores = BrokerStores(Stores(settings.file_root, file_only=settings.file_only))
        metrics = BrokerMetrics()
        turns = asyncio.Semaphore(PULSES_AT_ONCE)

        async def pulse(replica: Replica) -> None:
            await Pulse(
                appends,
                resolver,
                replica,
                # Not all journals at once, for ever after they were assigned together.
                interval=settings.pulse_interval * random.uniform(0.75, 1.25),
                auto_suspend=settings.auto_suspend,
                turns=turns,
            ).run()

        persister = Persister(
            stores.stores, spec_of(lambda name: resolver.view(name)), tick=settings.persist_tick
        )
        keeper = Keeper(settings, local_id, house, stores, peers, persister, pulse, broken)
        resolver = Resolver(mirror, keys, local_id, store.header, keeper, settings.max_replication)
        appends = AppendApi(
            AppendServices(
                resolver,
                peers,
                KeyspaceChanges(store, keys),
                member=str(local_id),
                is_durable=settings.is_durable,
                store_health=stores,
                max_append_rate=settings.max_append_rate,
            )
        )
        read = ReadApi(resolver, peers, stores)
        handlers = Handlers(
            append=appends,
            replicate=ReplicateApi(resolver),
            read=read,
            list=ListApi(resolver),
            apply=ApplyApi(resolver, store),
            fragments=FragmentsApi(resolver, peers, stores),
            health=HealthApi(resolver, stores.stores),
        )
        service = JournalService(handlers, authority, metrics)
        return cls(
            resolver=resolver,
            keeper=keeper,
            peers=peers,
            stores=stores,
            persister=persister,
            appends=appends,
            read=read,
            service=service,
            gateway=Gateway(
                handlers, authority, metrics, problem, service.is_ready, settings.allow_origins
            ),
            metrics=metrics,
            _recovered=house.completed,
        )

    def start(self) -> None:
        """Begin what runs beside the calls; the mirror is loaded."""
        for completed in self._recovered:
            self.persister.add(completed)
        self._recovered = []
        self.stores.start()
        self.metrics.before_exposition.append(self._measure)
        self._tasks = [asyncio.create_task(self.persister.run(), name="persister")]
        self.service.is_ready.set()

    async def stop(self, patience: float) -> None:
        """End all replicas, upload what is complete, and close what was opened."""
        self.resolver.end_replicas()
        await self.keeper.wait_ended(max(patience, 1.0))
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.persister.drain()
        await self.stores.stop()
        await self.peers.close()

    def _measure(self) -> None:
        metrics, resolver = self.metrics.metrics, self.resolver
        primaries = [
            journal
            for journal in resolver.replicas
            if resolver.view(journal).slot_of(resolver.local_id) == 0
        ]
        metrics.gauge("journal_replicas").set(len(resolver.replicas))
        metrics.gauge("journal_primaries").set(len(primaries))
        metrics.gauge("journal_items").set(len(resolver.mirror.prefixed(resolver.keys.items)))
        metrics.gauge("journal_members").set(len(resolver.mirror.prefixed(resolver.keys.members)))
