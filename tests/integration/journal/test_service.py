"""The service as a whole: errors as its clients see them, and who is let in."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.integration.journal.conftest import EtcdPrefix
from tests.integration.journal.stage import Caller, Stage, labels, play, spec
from windrow.journal.broker.server import BrokerServer
from windrow.journal.broker.tokens import EVERY_JOURNAL, Authority, Capability
from windrow.journal.labels import EMPTY, Label, LabelSelector, LabelSet
from windrow.journal.wire import protocol_pb2 as pb

KEYS = base64.b64encode(b"a key of at least thirty-two bytes, for HS256").decode()


async def bearer(
    there: Stage,
    server: BrokerServer,
    capability: Capability,
    prefix: str = "",
    ttl: float = 60.0,
) -> Caller:
    selector = EVERY_JOURNAL
    if prefix:
        selector = LabelSelector(LabelSet((Label("name", prefix, prefix=True),)), EMPTY)
    token = Authority(KEYS).sign(capability, selector, ttl)
    return await there.caller(server, metadata=(("authorization", f"Bearer {token}"),))


def code_of(error: pytest.ExceptionInfo[Any]) -> grpc.StatusCode:
    code: grpc.StatusCode = error.value.code()
    return code


def test_calls_without_a_token_are_refused_if_there_are_keys(tmp_path: Path) -> None:
    async def story(there: Stage) -> None:
        _, caller = await there.broker(auth_keys=KEYS)
        for call in (caller.journals, caller.read, caller.append, lambda: caller.apply(spec())):
            with pytest.raises(grpc.aio.AioRpcError, match="needed and missing") as refused:
                await call()
            assert code_of(refused) is grpc.StatusCode.UNAUTHENTICATED

    play(tmp_path, story)


def test_each_call_needs_its_own_capability(tmp_path: Path) -> None:
    async def story(there: Stage) -> None:
        server, _ = await there.broker(auth_keys=KEYS)
        applier = await bearer(there, server, Capability.APPLY)
        assert (await applier.apply(spec())).status == pb.Status.OK
        appender = await bearer(there, server, Capability.APPEND)
        await appender.appended(b"abc")
        reader = await bearer(there, server, Capability.READ)
        assert await reader.content() == b"abc"
        lister = await bearer(there, server, Capability.LIST)
        assert await lister.names() == ["a/journal"]
        for caller, calls in {
            reader: (reader.journals, reader.append, lambda: reader.apply(spec())),
            lister: (lister.read, lister.append),
            appender: (appender.read, appender.journals),
        }.items():
            for call in calls:
                with pytest.raises(grpc.aio.AioRpcError, match="the token lacks") as refused:
                    await call()
                assert code_of(refused) is grpc.StatusCode.PERMISSION_DENIED
            assert caller is not None

    play(tmp_path, story)


def test_a_token_speaks_of_the_journals_of_its_selector_alone(tmp_path: Path) -> None:
    async def story(there: Stage) -> None:
        server, _ = await there.broker(auth_keys=KEYS)
        everything = Capability(62)
        admin = await bearer(there, server, everything)
        await admin.apply(spec("mine/one"), spec("other/two"))
        await admin.appended(b"abc", "other/two")
        mine = await bearer(there, server, everything, "mine/")
        assert await mine.names() == ["mine/one"]
        await mine.appended(b"x", "mine/one")
        [message] = await mine.read("other/two")
        assert message.status == pb.Status.JOURNAL_NOT_FOUND
        assert (await mine.append(b"x", "other/two")).status == pb.Status.JOURNAL_NOT_FOUND
        with pytest.raises(grpc.aio.AioRpcError, match="does not speak of journal") as refused:
            await mine.apply(spec("other/new"))
        assert code_of(refused) is grpc.StatusCode.PERMISSION_DENIED
        delete = pb.ApplyRequest.Change(delete="other/two", expect_mod_revision=-1)
        with pytest.raises(grpc.aio.AioRpcError, match="does not speak of"):
            await mine.stub.Apply(pb.ApplyRequest(changes=[delete]), metadata=mine.metadata)

    play(tmp_path, story)


def test_a_call_ends_with_its_token(tmp_path: Path) -> None:
    async def story(there: Stage) -> None:
        server, _ = await there.broker(auth_keys=KEYS)
        admin = await bearer(there, server, Capability(62))
        await admin.apply(spec())
        await admin.appended(b"abc")
        brief = await bearer(there, server, Capability.READ, ttl=1.0)
        began = time.monotonic()
        with pytest.raises(grpc.aio.AioRpcError, match="token has expired") as ended:
            await brief.read(block=True)
        assert code_of(ended) is grpc.StatusCode.DEADLINE_EXCEEDED
        assert time.monotonic() - began < 5

    play(tmp_path, story)


def test_brokers_authorise_what_they_ask_of_each_other(
    tmp_path: Path, cluster_etcd: EtcdPrefix
) -> None:
    async def story(there: Stage) -> None:
        servers = [(await there.broker(f"broker-{n}", auth_keys=KEYS))[0] for n in range(3)]
        callers = [await bearer(there, server, Capability(30)) for server in servers]
        await callers[0].apply(spec(replication=2))
        for caller in callers:  # one of them has to pass it on, the primary has to replicate
            await caller.appended(b"abc")
        for caller in callers:
            assert await caller.content(end_offset=9, block=True) == b"abc" * 3

    play(tmp_path, story, cluster_etcd)


def test_a_malformed_append_is_refused_with_the_field_that_is_wrong(tmp_path: Path) -> None:
    async def story(there: Stage) -> None:
        _, caller = await there.broker()
        await caller.apply(spec())
        await caller.appended(b"abc")
        with pytest.raises(grpc.aio.AioRpcError, match="Journal: cannot begin with '/'") as refused:
            await caller.append(b"x", "/a/journal")
        assert code_of(refused) is grpc.StatusCode.INVALID_ARGUMENT
        with pytest.raises(grpc.aio.AioRpcError, match="unexpected EOF"):
            await caller.stub.Append(iter([pb.AppendRequest(journal="a/journal")]))
        with pytest.raises(grpc.aio.AioRpcError, match="register modification requires"):
            await caller.append(b"", union_registers=labels(owner="me"))
        assert await caller.content() == b"abc"

    play(tmp_path, story)


def test_an_append_that_its_client_gives_up_leaves_nothing(tmp_path: Path) -> None:
    async def story(there: Stage) -> None:
        _, caller = await there.broker()
        await caller.apply(spec())
        await caller.appended(b"abc")
        stalled = asyncio.Event()

        async def requests() -> AsyncIterator[pb.AppendRequest]:
            yield pb.AppendRequest(journal="a/journal")
            yield pb.AppendRequest(content=b"never")
            stalled.set()
            await asyncio.sleep(60)

        call = caller.stub.Append(requests())
        await stalled.wait()
        await asyncio.sleep(0.1)
        call.cancel()
        assert (await caller.append(b"def")).commit.begin == 3
        assert await caller.content() == b"abcdef"

    play(tmp_path, story)


def test_messages_beyond_the_limit_are_refused_and_change_nothing(tmp_path: Path) -> None:
    async def story(there: Stage) -> None:
        _, caller = await there.broker(max_message_bytes=100_000)
        await caller.apply(spec())
        await caller.appended(b"abc")
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await caller.append(b"x" * 200_000)
        assert code_of(refused) is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert await caller.content() == b"abc"

    play(tmp_path, story)


def test_only_who_may_replicate_can_act_as_a_primary(tmp_path: Path) -> None:
    async def story(there: Stage) -> None:
        server, _ = await there.broker(auth_keys=KEYS)
        admin = await bearer(there, server, Capability(62))
        await admin.apply(spec())
        await admin.appended(b"abc")
        [message, *_] = await admin.read(metadata_only=True)
        message.header.route.members[0].suffix = "somebody"  # to be answered at once
        proposal = pb.Fragment(journal="a/journal", compression_codec=pb.CompressionCodec.NONE)
        first = pb.ReplicateRequest(
            header=message.header, proposal=proposal, registers=pb.LabelSet(), acknowledge=True
        )
        stranger = await bearer(there, server, Capability(62) & ~Capability.REPLICATE)
        with pytest.raises(grpc.aio.AioRpcError, match="the token lacks") as refused:
            await stranger.stub.Replicate(iter([first]), metadata=stranger.metadata).read()
        assert code_of(refused) is grpc.StatusCode.PERMISSION_DENIED
        peer = await bearer(there, server, Capability.REPLICATE)
        answer = await peer.stub.Replicate(iter([first]), metadata=peer.metadata).read()
        assert answer.status == pb.Status.WRONG_ROUTE
        assert await admin.content() == b"abc"

    play(tmp_path, story)


def test_a_token_for_a_label_speaks_of_journals_that_have_it_before_and_after(
    tmp_path: Path,
) -> None:
    async def story(there: Stage) -> None:
        server, _ = await there.broker(auth_keys=KEYS)
        admin = await bearer(there, server, Capability(62))
        await admin.apply(spec("a/one"), spec("a/two", labels=labels(team="red")))
        token = Authority(KEYS).sign(Capability(62), LabelSelector.parse("team=red"), 60.0)
        red = await there.caller(server, metadata=(("authorization", f"Bearer {token}"),))
        assert await red.names() == ["a/two"]
        assert (await red.apply(spec("a/new", labels=labels(team="red")))).status == pb.Status.OK

        async def upsert(journal: pb.JournalSpec) -> None:
            change = pb.ApplyRequest.Change(upsert=journal, expect_mod_revision=-1)
            await red.stub.Apply(pb.ApplyRequest(changes=[change]), metadata=red.metadata)

        for wrong in (
            spec("a/other", labels=labels(team="blue")),  # new, and not theirs
            spec("a/one", labels=labels(team="red")),  # to be taken over
            spec("a/two", labels=labels(team="blue")),  # to be given away
        ):
            with pytest.raises(grpc.aio.AioRpcError, match="does not speak of journal") as refused:
                await upsert(wrong)
            assert code_of(refused) is grpc.StatusCode.PERMISSION_DENIED
        await upsert(spec("a/two", labels=labels(team="red"), length=2048))
        assert await admin.names() == ["a/new", "a/one", "a/two"]

    play(tmp_path, story)
