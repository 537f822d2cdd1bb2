"""Brokers that only allocate: announced, with a mirror, and primaries that agree at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from windrow.coordination.announce import Announcement
from windrow.coordination.mirror import Mirror
from windrow.coordination.store import Compare, Delete, Put, Store
from windrow.journal.allocation.service import Allocator, Round, wire_decoders
from windrow.journal.allocation.state import State, StateReader, implied_route
from windrow.journal.codec import Codec
from windrow.journal.keys import Keys
from windrow.journal.messages import encode_broker_spec, encode_route, encode_spec
from windrow.journal.process import BrokerSpec, ProcessId
from windrow.journal.spec import FragmentSpec, JournalSpec

OpenStore = Callable[[], Store]


@dataclass
class Broker:
    """One of them."""

    id: ProcessId
    keys: Keys
    store: Store
    mirror: Mirror
    announcement: Announcement
    allocator: Allocator
    rounds: list[Round] = field(default_factory=list)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def state(self) -> State:
        """The cluster as this broker sees it."""
        return StateReader(self.keys, wire_decoders(), 9).read(
            self.mirror.prefixed(self.keys.items),
            self.mirror.prefixed(self.keys.members),
            self.mirror.prefixed(self.keys.assignments),
        )

    def is_settled(self, journals: Iterable[str], replication: int, *members: ProcessId) -> bool:
        """Whether these journals are consistent and held by that many of these members."""
        state = self.state()
        return all(
            state.is_consistent(journal)
            and len(state.current(journal)) == replication
            and {a.member for a in state.current(journal)} <= set(members)
            for journal in journals
        )

    async def exit(self) -> None:
        """Ask for the journals to be moved away."""
        spec = BrokerSpec(self.id, "http://127.0.0.1:1", 1024, exiting=True)
        await self.announcement.update(encode_broker_spec(spec))

    async def synchronise(self) -> None:
        """Agree with the replicas of every journal we are primary of, and write that down."""
        while True:
            revision = self.mirror.revision
            state = self.state()
            for journal, current in state.assignments.items():
                is_ours = any(a.slot == 0 and a.member == self.id for a in current)
                if is_ours and not state.is_consistent(journal):
                    route = encode_route(implied_route(current))
                    await self.store.txn(
                        [Compare.mod_revision(a.kv.key, a.kv.mod_revision) for a in current],
                        [Put(a.kv.key, route, ignore_lease=True) for a in current],
                    )
            await self.mirror.wait_revision(revision + 1)


@asynccontextmanager
async def a_broker(
    open_store: OpenStore, keys: Keys, member: ProcessId, *, ttl: float = 5, keep_alive: bool = True
) -> AsyncIterator[Broker]:
    """A broker that allocates and synchronises until the end of the block."""
    store = open_store()
    lease = await store.grant_lease(ttl, keep_alive=keep_alive)
    spec = BrokerSpec(member, "http://127.0.0.1:1", 1024)
    value = encode_broker_spec(spec)
    announcement = await Announcement.make(store, lease, keys.member(member), value, 0.1)
    mirror = Mirror(store, keys.prefix + "/", watch_delay=0.005)
    await mirror.start()
    await mirror.wait_revision(announcement.revision)
    rounds: list[Round] = []
    allocator = Allocator(mirror, store, announcement.key, keys=keys, on_round=rounds.append)
    broker = Broker(member, keys, store, mirror, announcement, allocator, rounds)
    broker.tasks = [asyncio.create_task(job) for job in (allocator.run(), broker.synchronise())]
    try:
        yield broker
    finally:
        for task in broker.tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        with suppress(Exception):  # it may have ended already
            await announcement.withdraw()
        await mirror.stop()
        await store.close()


async def apply(store: Store, keys: Keys, journals: Iterable[str], replication: int) -> None:
    """Create journals, or change their replication."""
    fragment = FragmentSpec(length=1 << 20, codec=Codec.NONE, refresh_interval=60.0)
    for journal in journals:
        spec = JournalSpec(journal, replication, fragment=fragment)
        await store.txn([], [Put(keys.item(journal), encode_spec(spec))])


async def delete(store: Store, keys: Keys, journal: str) -> None:
    await store.txn([], [Delete(keys.item(journal))])
