"""Brokers in the test's own process, on real ports, and calls as they are on the wire."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
from google.protobuf.duration_pb2 import Duration

from tests.integration.journal.conftest import EtcdPrefix
from windrow.journal.broker.server import BrokerServer
from windrow.journal.broker.settings import BrokerSettings
from windrow.journal.wire import protocol_pb2 as pb
from windrow.journal.wire.protocol_pb2_grpc import JournalStub

PATIENCE = 20.0


def spec(name: str = "a/journal", replication: int = 1, **more: Any) -> pb.JournalSpec:
    """A small journal; ``fragment`` fields are given as ``length=…, stores=…``."""
    fields: dict[str, Any] = {"length": 1 << 20, "compression_codec": pb.CompressionCodec.NONE}
    known = {field.name for field in pb.JournalSpec.Fragment.DESCRIPTOR.fields}
    fields |= {name: more.pop(name) for name in list(more) if name in known}
    fragment = pb.JournalSpec.Fragment(refresh_interval=Duration(seconds=60))
    fragment.MergeFrom(pb.JournalSpec.Fragment(**fields))
    return pb.JournalSpec(name=name, replication=replication, fragment=fragment, **more)


def labels(**values: str) -> pb.LabelSet:
    named = sorted(values.items())
    return pb.LabelSet(labels=[pb.Label(name=name, value=value) for name, value in named])


class Caller:
    """Calls of one broker."""

    def __init__(self, stub: Any, metadata: Any = None) -> None:
        self.stub = stub
        self.metadata = metadata

    async def apply(self, *specs: pb.JournalSpec) -> pb.ApplyResponse:
        changes = [pb.ApplyRequest.Change(upsert=one) for one in specs]
        request = pb.ApplyRequest(changes=changes)
        answer: pb.ApplyResponse = await self.stub.Apply(request, metadata=self.metadata)
        return answer

    async def append(
        self, content: bytes | Iterable[bytes] = b"", journal: str = "a/journal", **more: Any
    ) -> pb.AppendResponse:
        """One append, as it ends; see ``appended`` for one that has to succeed."""
        chunks = [content] if isinstance(content, bytes) else list(content)
        messages = [
            pb.AppendRequest(journal=journal, **more),
            *(pb.AppendRequest(content=chunk) for chunk in chunks if chunk),
            pb.AppendRequest(),
        ]
        answer: pb.AppendResponse = await self.stub.Append(
            iter(messages), timeout=PATIENCE, metadata=self.metadata
        )
        return answer

    async def appended(self, content: bytes, journal: str = "a/journal") -> pb.AppendResponse:
        """An append that waits for the journal to get its brokers."""

        async def try_once() -> pb.AppendResponse | None:
            try:
                answer = await self.append(content, journal)
            except grpc.aio.AioRpcError:
                return None
            return answer if answer.status == pb.Status.OK else None

        answer: pb.AppendResponse = await until(try_once)
        return answer

    async def read(self, journal: str = "a/journal", **more: Any) -> list[pb.ReadResponse]:
        request = pb.ReadRequest(journal=journal, **more)
        call = self.stub.Read(request, timeout=PATIENCE, metadata=self.metadata)
        return [message async for message in call]

    async def content(self, journal: str = "a/journal", **more: Any) -> bytes:
        return b"".join(message.content for message in await self.read(journal, **more))

    async def journals(self, include: pb.LabelSet | None = None) -> list[pb.ListResponse]:
        request = pb.ListRequest(selector=pb.LabelSelector(include=include))
        call = self.stub.List(request, metadata=self.metadata)
        return [message async for message in call]

    async def names(self, include: pb.LabelSet | None = None) -> list[str]:
        return [j.spec.name for message in await self.journals(include) for j in message.journals]


async def until(ask: Callable[[], Awaitable[Any]], patience: float = PATIENCE) -> Any:
    """The first answer that is not None or False."""
    async with asyncio.timeout(patience):
        while True:
            answer = await ask()
            if answer is not None and answer is not False:
                return answer
            await asyncio.sleep(0.02)


class Stage:
    """Any number of brokers, ended with the test."""

    def __init__(self, root: Path, etcd: EtcdPrefix | None, stack: AsyncExitStack) -> None:
        self.root, self._etcd, self._stack = root, etcd, stack
        self.files = root / "fragments"
        self.files.mkdir(exist_ok=True)

    async def broker(self, id: str = "broker", **settings: Any) -> tuple[BrokerServer, Caller]:
        """Another broker, and a way to call it."""
        server = BrokerServer(self.settings(id, **settings))
        await server.start()
        self._stack.push_async_callback(server.stop, 0.0)
        return server, await self.caller(server)

    def settings(self, id: str = "broker", **settings: Any) -> BrokerSettings:
        where: dict[str, Any] = {"embedded": True}
        if self._etcd is not None:
            where = {"etcd_address": self._etcd.url, "etcd_prefix": self._etcd.prefix}
        given = {
            "data_dir": self.root / id,
            "id": id,
            "zone": "zone",
            "file_root": self.files,
            "etcd_lease": 10.0,
            "pulse_interval": 0.5,
            "peer_timeout": 2.0,
            "persist_tick": 0.2,
            "watch_delay": 0.005,
            "drain_timeout": 10.0,
            **where,
            **settings,
        }
        return BrokerSettings(**given)

    async def caller(
        self,
        server: BrokerServer,
        credentials: grpc.ChannelCredentials | None = None,
        metadata: Any = None,
    ) -> Caller:
        if credentials is None:
            channel = grpc.aio.insecure_channel(server.address)
        else:
            channel = grpc.aio.secure_channel(server.address, credentials)
        await self._stack.enter_async_context(channel)
        return Caller(JournalStub(channel), metadata)


@asynccontextmanager
async def stage(root: Path, etcd: EtcdPrefix | None = None) -> AsyncIterator[Stage]:
    async with AsyncExitStack() as stack:
        yield Stage(root, etcd, stack)


def play(root: Path, story: Callable[[Stage], Awaitable[None]], etcd: Any = None) -> None:
    """Run a story on a stage of its own."""

    async def tell() -> None:
        async with asyncio.timeout(60), stage(root, etcd) as there:
            await story(there)

    asyncio.run(tell())
