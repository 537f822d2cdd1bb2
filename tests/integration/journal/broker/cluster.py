"""Brokers in one process: real gRPC between them, real spools, one local keyspace for all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import grpc

from windrow.coordination.local import LocalStore
from windrow.coordination.mirror import Mirror
from windrow.coordination.store import Delete, Op, Put
from windrow.journal.broker.append_api import AppendApi
from windrow.journal.broker.append_run import AppendServices
from windrow.journal.broker.decoders import decoders
from windrow.journal.broker.keyspace_changes import KeyspaceChanges
from windrow.journal.broker.replica import Replica
from windrow.journal.broker.replicate_api import ReplicateApi
from windrow.journal.broker.resolution import JournalView
from windrow.journal.broker.resolver import Resolver
from windrow.journal.broker.spools import SpoolHouse
from windrow.journal.broker.timeouts import Timeouts
from windrow.journal.fragments.content import CompletedSpool
from windrow.journal.fragments.index import Index
from windrow.journal.frames.pool import Pool
from windrow.journal.keys import Keys
from windrow.journal.labels import LabelSet
from windrow.journal.messages import encode_broker_spec, encode_spec, labels_to_pb
from windrow.journal.spec import BrokerSpec, Codec, FragmentSpec, JournalSpec, ProcessId
from windrow.journal.wire import protocol_pb2 as pb
from windrow.journal.wire.protocol_pb2_grpc import JournalStub, add_JournalServicer_to_server

JOURNAL = "a/journal"
KEYS = Keys()


def spec(replication: int = 1, *, stores: tuple[str, ...] = (), **more: Any) -> JournalSpec:
    fragment = FragmentSpec(1 << 20, Codec.NONE, stores, refresh_interval=60.0)
    return JournalSpec(JOURNAL, replication, fragment=fragment, **more)


class Servicer:
    """The two calls that are tested here, each answered by whoever is put in."""

    def __init__(self) -> None:
        self.append: Callable[..., Awaitable[pb.AppendResponse]] | None = None
        self.replicate: Callable[..., AsyncIterator[pb.ReplicateResponse]] | None = None

    async def Append(self, requests: Any, context: Any) -> pb.AppendResponse:
        assert self.append is not None
        try:
            return await self.append(requests, ())
        except Exception as error:
            await context.abort(grpc.StatusCode.UNKNOWN, str(error))
            raise

    async def Replicate(self, requests: Any, context: Any) -> AsyncIterator[Any]:
        assert self.replicate is not None
        try:
            async for answer in self.replicate(requests):
                yield answer
        except Exception as error:
            await context.abort(grpc.StatusCode.UNKNOWN, str(error))

    def __getattr__(self, name: str) -> Any:
        async def unused(*_: Any) -> None:
            raise NotImplementedError(name)

        return unused


class Connections:
    """Calls of other brokers, as plain as can be."""

    def __init__(self) -> None:
        self.channels: dict[str, grpc.aio.Channel] = {}
        self.pool = Pool()

    def stub(self, endpoint: str) -> Any:
        address = endpoint.removeprefix("http://")
        if address not in self.channels:
            self.channels[address] = grpc.aio.insecure_channel(address)
        return JournalStub(self.channels[address])

    def replicate(self, endpoint: str, journal: str) -> Any:
        return self.pool.call(
            f"grpc:{endpoint}",  # the replicas of these tests speak nothing else
            "Replicate",
            (),
            pb.ReplicateResponse.FromString,
            lambda: self.stub(endpoint).Replicate(),
            gathers=False,
        )

    def append(self, endpoint: str, journal: str, metadata: Any) -> Any:
        return self.stub(endpoint).Append()

    async def close(self) -> None:
        for channel in self.channels.values():
            await channel.close(None)


@dataclass
class Broker:
    """A member of the cluster, as far as appending goes."""

    id: ProcessId
    server: grpc.aio.Server
    servicer: Servicer
    endpoint: str
    mirror: Mirror | None = None
    resolver: Resolver | None = None
    api: AppendApi | None = None
    completed: list[CompletedSpool] = field(default_factory=list)
    connections: Connections = field(default_factory=Connections)

    @property
    def replica(self) -> Replica:
        assert self.resolver is not None
        return self.resolver.replicas[JOURNAL]

    @property
    def shown(self) -> int:
        return self.replica.index.end_offset

    def read(self, begin: int, end: int) -> bytes:
        """What a reader of this broker sees."""
        found = b""
        for entry in self.replica.index.entries:
            low = max(begin + len(found), entry.fragment.begin)
            high = min(end, entry.fragment.end)
            if low == begin + len(found) and low < high and entry.content is not None:
                found += entry.content.read_at(low, high - low)
        return found

    async def append(self, content: bytes = b"", **conditions: Any) -> pb.AppendResponse:
        """One append of a client, in one chunk."""
        return await self.append_chunks([content] if content else [], **conditions)

    async def append_chunks(
        self, chunks: Iterable[bytes] | AsyncIterator[bytes], **conditions: Any
    ) -> pb.AppendResponse:
        call = self.connections.stub(self.endpoint).Append()
        with suppress(grpc.aio.AioRpcError, grpc.aio.InternalError, asyncio.InvalidStateError):
            # One that was answered before its end takes no more, and the answer counts.
            await call.write(request(**conditions))
            if isinstance(chunks, AsyncIterator):
                async for chunk in chunks:
                    await call.write(pb.AppendRequest(content=chunk))
            else:
                for chunk in chunks:
                    await call.write(pb.AppendRequest(content=chunk))
            await call.write(pb.AppendRequest())
            await call.done_writing()
        response: pb.AppendResponse = await call
        return response

    async def stop(self) -> None:
        if self.resolver is not None:
            for replica in self.resolver.replicas.values():
                replica.ended.set()
        await self.server.stop(None)
        if self.api is not None:
            await self.api.drain()
        if self.mirror is not None:
            await self.mirror.stop()
        await self.connections.close()


def request(**conditions: Any) -> pb.AppendRequest:
    first = pb.AppendRequest(journal=conditions.pop("journal", JOURNAL))
    for name in ("union_registers", "subtract_registers"):
        if name in conditions:
            labels = labels_to_pb(LabelSet.of(conditions.pop(name)))
            getattr(first, name).CopyFrom(labels)
    if "check_registers" in conditions:
        labels = labels_to_pb(LabelSet.of(conditions.pop("check_registers")))
        first.check_registers.include.CopyFrom(labels)
    for name, value in conditions.items():
        setattr(first, name, value)
    return first


class Keeper:
    """Makes replicas that show at once, unless told not to, that there is nothing in any store."""

    def __init__(
        self,
        broker: Broker,
        house: SpoolHouse,
        timeouts: Timeouts,
        *,
        is_listed: bool = True,
        **more: Any,
    ) -> None:
        self.broker, self.house, self.timeouts, self.more = broker, house, timeouts, more
        self.is_listed = is_listed
        self.endings: list[asyncio.Task[None]] = []

    def begin(self, view: JournalView, invalidated: asyncio.Event) -> Replica:
        assert view.spec is not None
        index = Index()
        if self.is_listed:
            index.replace_remote(())
        source = self.house.source(view.journal, view.create_revision, view.spec.fragment.codec)
        for completed in source.completed:
            index.add_local(completed.fragment, completed.content)
        return Replica(
            view.journal,
            member=self.broker.id,
            source=source,
            index=index,
            complete=self.broker.completed.append,
            is_durable=self.house.files.is_durable,
            timeouts=self.timeouts,
            **self.more,
        )

    def renew(self, replica: Replica, view: JournalView, invalidated: asyncio.Event) -> None:
        pass

    def end(self, replica: Replica) -> asyncio.Future[None]:
        task = asyncio.create_task(replica.stop(hands_over=True))
        self.endings.append(task)
        return task

    def on_members_gone(self, endpoints: Collection[str]) -> None:
        pass


class Cluster:
    """Brokers that share a keyspace."""

    def __init__(
        self,
        directory: Path,
        *,
        is_durable: bool,
        timeout: float = 5.0,
        services: Mapping[str, Any] = MappingProxyType({}),
        **replica: Any,
    ) -> None:
        self.directory, self.is_durable, self.services = directory, is_durable, services
        self.timeouts = Timeouts.of(timeout)
        self.store = LocalStore(directory / "keys")
        self.brokers: list[Broker] = []
        self._replica = replica

    async def broker(self, name: str) -> Broker:
        """A real broker; one of the same name has the same spools."""
        broker = await self._listen(name)
        directory = self.directory / "spools" / name if self.is_durable else None
        house = SpoolHouse(directory)
        house.recover()
        mirror = Mirror(self.store, KEYS.prefix + "/", watch_delay=0.002, decoders=decoders(KEYS))
        keeper = Keeper(broker, house, self.timeouts, **self._replica)
        resolver = Resolver(mirror, KEYS, broker.id, self.store.header, keeper)
        await mirror.start()
        services = AppendServices(
            resolver,
            broker.connections,
            KeyspaceChanges(self.store, KEYS),
            member=str(broker.id),
            is_durable=self.is_durable,
            **self.services,
        )
        broker.mirror, broker.resolver, broker.api = mirror, resolver, AppendApi(services)
        broker.servicer.append = broker.api.append
        broker.servicer.replicate = ReplicateApi(resolver).replicate
        return broker

    async def scripted(self, name: str) -> Broker:
        """A broker whose answers a test gives."""
        return await self._listen(name)

    async def _listen(self, name: str) -> Broker:
        server, servicer = grpc.aio.server(), Servicer()
        add_JournalServicer_to_server(servicer, server)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        broker = Broker(
            ProcessId("zone", f"broker-{name}"), server, servicer, f"http://127.0.0.1:{port}"
        )
        self.brokers.append(broker)
        await self.announce(broker, broker.endpoint)
        return broker

    async def announce(self, broker: Broker, endpoint: str) -> None:
        """Say where a broker is called."""
        announced = encode_broker_spec(BrokerSpec(broker.id, endpoint, 10))
        await self.change(Put(KEYS.member(broker.id), announced))

    async def change(self, *ops: Op) -> int:
        """Change keys, and wait until every broker knows."""
        result = await self.store.txn((), ops)
        for broker in self.brokers:
            if broker.mirror is not None:
                await broker.mirror.wait_revision(result.revision)
        return result.revision

    async def create(self, journal: JournalSpec) -> None:
        await self.change(Put(KEYS.item(JOURNAL), encode_spec(journal)))

    async def assign(self, *brokers: Broker) -> None:
        """Give the journal to these brokers and no others; the first is its primary."""
        wanted = {KEYS.assignment(JOURNAL, one.id, slot) for slot, one in enumerate(brokers)}
        snapshot = await self.store.load(KEYS.assignments_of(JOURNAL))
        present = {kv.key for kv in snapshot.kvs}
        ops: list[Op] = [Delete(key) for key in present - wanted]
        ops += [Put(key, b"") for key in wanted - present]
        if ops:
            await self.change(*ops)

    async def stop(self, broker: Broker) -> None:
        self.brokers.remove(broker)
        await broker.stop()

    async def close(self) -> None:
        for broker in list(self.brokers):
            await self.stop(broker)
        await self.store.close()


@asynccontextmanager
async def cluster(
    directory: Path, *, is_durable: bool = True, **more: Any
) -> AsyncIterator[Cluster]:
    there = Cluster(directory, is_durable=is_durable, **more)
    try:
        yield there
    finally:
        await there.close()


def tell(story: Callable[[Cluster], Awaitable[None]], directory: Path, **more: Any) -> None:
    """Run a story in a cluster of its own, within a time."""

    async def run() -> None:
        async with asyncio.timeout(30), cluster(directory, **more) as there:
            await story(there)

    asyncio.run(run())


async def until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    """Wait for something that comes about by itself."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - whatever is waited for has no event
            await asyncio.sleep(0.002)
