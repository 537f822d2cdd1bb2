"""Read: from this broker, from a store, and through another broker."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.integration.journal.conftest import EtcdPrefix
from tests.integration.journal.stage import Caller, Stage, play, spec, until
from windrow.journal.broker.read_api import CHUNK, MAX_CHUNK
from windrow.journal.broker.server import BrokerServer
from windrow.journal.codec import Codec
from windrow.journal.messages import check_read_response
from windrow.journal.wire import protocol_pb2 as pb

O_WRONLY = 2


async def one_journal(there: Stage, **more: Any) -> tuple[BrokerServer, Caller]:
    server, caller = await there.broker()
    await caller.apply(spec(**more))
    return server, caller


def test_a_read_streams_across_commits_and_ends_at_the_write_head(tmp_path: Path) -> None:
    async def story(there: Stage) -> None:
        _, caller = await one_journal(there)
        for content in (b"one", b"two", b"three"):
            await caller.appended(content)
        messages = await caller.read()
        assert b"".join(message.content for message in messages) == b"onetwothree"
        assert messages[0].HasField("header")
        assert not any(message.HasField("header") for message in messages[1:])
        for at, message in enumerate(messages):
            check_read_response(message, first=at == 0)
            if message.content:
                only = pb.ReadResponse(offset=message.offset, content=message.content)
                assert message == only
        assert messages[-1].status == pb.Status.OFFSET_NOT_YET_AVAILABLE
        assert messages[-1].write_head == messages[-1].offset == 11

    play(tmp_path, story)


def test_a_read_may_begin_in_the_middle_of_an_append(tmp_path: Path) -> None:
    async def story(there: Stage) -> None:
        _, caller = await one_journal(there)
        await caller.appended(b"0123456789")
        assert await caller.content(offset=4) == b"456789"

    play(tmp_path, story)


def test_a_blocking_read_is_told_of_each_append_as_it_commits(tmp_path: Path) -> None:
    async def story(there: Stage) -> None:
        _, caller = await one_journal(there)
        call = caller.stub.Read(pb.ReadRequest(journal="a/journal", block=True))
        await caller.appended(b"first")
        got = b""
        async with asyncio.timeout(10):
            async for message in call:
                got += message.content
                if got == b"first":
                    await caller.append(b", second")
                if got == b"first, second":
                    break
        call.cancel()

    play(tmp_path, story)


def test_end_offset_stops_a_read_even_if_it_is_not_yet_written(tmp_path: Path) -> None:
    async def story(there: Stage) -> None:
        _, caller = await one_journal(there)
        await caller.appended(b"0123456789")
        assert await caller.content(end_offset=4) == b"0123"
        messages = await caller.read(offset=2, end_offset=4)
        assert [m.content for m in messages if m.content] == [b"23"]
        assert messages[-1].content == b"23"  # no status follows: the client has what it asked for
        reading = asyncio.create_task(caller.content(end_offset=14, block=True))
        await caller.append(b"abcdefgh")
        assert await reading == b"0123456789abcd"

    play(tmp_path, story)


def test_metadata_only_tells_the_fragment_and_the_write_head(tmp_path: Path) -> None:
    async def story(there: Stage) -> None:
        _, caller = await one_journal(there)
        await caller.appended(b"0123456789")
        [message] = await caller.read(offset=3, metadata_only=True)
        assert message.status == pb.Status.OK
        assert (message.offset, message.write_head) == (3, 10)
        assert (message.fragment.begin, message.fragment.end) == (0, 10)
        assert message.fragment_url == ""

    play(tmp_path, story)


def test_offset_minus_one_is_the_write_head(tmp_path: Path) -> None:
    async def story(there: Stage) -> None:
        _, caller = await one_journal(there)
        await caller.appended(b"old")
        [message] = await caller.read(offset=-1)
        assert message.status == pb.Status.OFFSET_NOT_YET_AVAILABLE
        assert (message.offset, message.write_head) == (3, 3)
        call = caller.stub.Read(pb.ReadRequest(journal="a/journal", offset=-1, block=True))
        reading = asyncio.ensure_future(anext(aiter(call)))
        await asyncio.sleep(0.1)
        await caller.append(b"new")
        assert (await reading).offset == 3
        call.cancel()

    play(tmp_path, story)


def test_an_offset_beyond_the_head_is_not_yet_available(tmp_path: Path) -> None:
    async def story(there: Stage) -> None:
        _, caller = await one_journal(there)
        await caller.appended(b"abc")
        [message] = await caller.read(offset=100)
        assert message.status == pb.Status.OFFSET_NOT_YET_AVAILABLE
        assert (message.offset, message.write_head) == (100, 3)

    play(tmp_path, story)


def test_an_unknown_journal_and_one_that_may_not_be_read_are_refused(tmp_path: Path) -> None:
    async def story(there: Stage) -> None:
        _, caller = await one_journal(there, flags=O_WRONLY)
        await caller.appended(b"abc")
        [message] = await caller.read()
        assert message.status == pb.Status.NOT_ALLOWED
        [message] = await caller.read("no/such")
        assert message.status == pb.Status.JOURNAL_NOT_FOUND
        assert message.header.route.primary == -1
        with pytest.raises(grpc.aio.AioRpcError, match="Offset: invalid value"):
            await caller.read(offset=-2)

    play(tmp_path, story)


def test_the_suffix_of_a_name_behind_a_semicolon_is_ignored(tmp_path: Path) -> None:
    async def story(there: Stage) -> None:
        _, caller = await one_journal(there)
        await caller.appended(b"abc")
        assert await caller.content("a/journal;reader=7") == b"abc"

    play(tmp_path, story)


@pytest.mark.parametrize(
    ("metadata", "largest"),
    [
        (None, CHUNK),
        ((("windrow-chunk", "1000"),), 1000),
        ((("windrow-chunk", "99999999"),), MAX_CHUNK),
        ((("windrow-chunk", "rubbish"),), CHUNK),
    ],
    ids=["stock", "small", "too-large", "rubbish"],
)
def test_chunks_fit_what_the_client_takes(tmp_path: Path, metadata: Any, largest: int) -> None:
    async def story(there: Stage) -> None:
        server, caller = await one_journal(there, length=1 << 30)
        content = bytes(range(256)) * (12 * 1024)
        await caller.appended(b"warm up")
        await caller.append([content[at : at + 65536] for at in range(0, len(content), 65536)])
        reader = await there.caller(server, metadata=metadata)
        messages = await reader.read(offset=7)
        assert b"".join(message.content for message in messages) == content
        sizes = [len(message.content) for message in messages if message.content]
        assert max(sizes) == largest
        if largest == CHUNK:
            assert max(message.ByteSize() for message in messages) < 32 * 1024

    play(tmp_path, story)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.ZSTANDARD, Codec.SNAPPY])
def test_a_stored_fragment_is_decompressed_or_left_to_the_client(
    tmp_path: Path, codec: Codec
) -> None:
    async def story(there: Stage) -> None:
        (there.files / "store").mkdir()
        _, caller = await one_journal(
            there,
            compression_codec=int(codec),
            stores=["file:///store/"],
            length=1024,
            refresh_interval={"seconds": 1},
        )
        await caller.appended(b"a" * 3000)
        await caller.append(b"b" * 3000)  # rolls the fragment before it, which is then stored
        await caller.append(b"c")

        async def stored() -> pb.ReadResponse | None:
            [message] = await caller.read(offset=1000, metadata_only=True)
            return message if message.fragment.backing_store else None

        found = await until(stored)
        assert found.fragment.backing_store == "file:///store/"
        assert found.fragment_url.startswith("file:///store/a/journal/")
        assert (await caller.content(offset=1000))[:2000] == b"a" * 2000
        [message] = await caller.read(offset=1000, do_not_proxy=True)
        assert message.fragment_url == found.fragment_url
        assert await caller.content(offset=2000, end_offset=2500) == b"a" * 500

    play(tmp_path, story)


def test_fragments_older_than_asked_for_are_skipped(tmp_path: Path) -> None:
    async def story(there: Stage) -> None:
        (there.files / "store").mkdir()
        _, caller = await one_journal(
            there, stores=["file:///store/"], length=1024, refresh_interval={"seconds": 1}
        )
        await caller.appended(b"a" * 3000)
        await caller.append(b"b" * 3000)
        await caller.append(b"c")

        async def stored() -> bool:
            [message] = await caller.read(metadata_only=True)
            return message.fragment.mod_time != 0

        await until(stored)
        [message] = await caller.read(metadata_only=True, begin_mod_time=2**40)
        assert message.offset > 0

    play(tmp_path, story)


async def two_brokers(there: Stage) -> tuple[Caller, Caller, BrokerServer, BrokerServer]:
    """The journal's only broker, and one that has nothing to do with it."""
    holder, of_holder = await there.broker("holder")
    await of_holder.apply(spec())
    await of_holder.appended(b"0123456789")
    other, of_other = await there.broker("other")
    return of_holder, of_other, holder, other


def test_a_broker_without_a_replica_passes_reads_on(
    tmp_path: Path, cluster_etcd: EtcdPrefix
) -> None:
    async def story(there: Stage) -> None:
        of_holder, of_other, holder, _ = await two_brokers(there)
        messages = await of_other.read(offset=3)
        assert b"".join(message.content for message in messages) == b"3456789"
        assert messages[0].header.process_id.suffix == holder.id.suffix
        [message] = await of_other.read(do_not_proxy=True)
        assert message.status == pb.Status.NOT_JOURNAL_BROKER
        assert message.header.process_id.suffix == "other"
        assert list(message.header.route.endpoints) == [holder.endpoint]
        call = of_other.stub.Read(pb.ReadRequest(journal="a/journal", offset=10, block=True))
        reading = asyncio.ensure_future(anext(aiter(call)))
        await of_holder.append(b"more")
        assert (await reading).offset == 10
        call.cancel()

    play(tmp_path, story, cluster_etcd)


def test_a_read_passed_on_fails_with_the_error_of_the_other_broker(
    tmp_path: Path, cluster_etcd: EtcdPrefix
) -> None:
    async def story(there: Stage) -> None:
        _, of_other, holder, _ = await two_brokers(there)
        await holder._grpc.stop(0)  # its keys stay: the cluster takes it for alive
        assert holder._front is not None
        holder._front.abort()
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await of_other.read()
        assert failed.value.code() is grpc.StatusCode.UNAVAILABLE

    play(tmp_path, story, cluster_etcd)


def test_a_read_meant_for_another_cluster_or_broker_is_refused(tmp_path: Path) -> None:
    async def story(there: Stage) -> None:
        _, caller = await one_journal(there)
        await caller.appended(b"abc")
        [message, *_] = await caller.read(metadata_only=True)
        foreign = pb.Header()
        foreign.CopyFrom(message.header)
        foreign.etcd.cluster_id += 1
        with pytest.raises(grpc.aio.AioRpcError, match="another cluster"):
            await caller.read(header=foreign)
        stranger = pb.Header()
        stranger.CopyFrom(message.header)
        stranger.process_id.suffix = "stranger"
        with pytest.raises(grpc.aio.AioRpcError, match="for broker zone#stranger"):
            await caller.read(header=stranger)

    play(tmp_path, story)


def test_reads_end_cleanly_when_their_broker_stops(
    tmp_path: Path, cluster_etcd: EtcdPrefix
) -> None:
    async def story(there: Stage) -> None:
        of_holder, of_other, holder, other = await two_brokers(there)
        request = pb.ReadRequest(journal="a/journal", block=True)
        calls = [of_holder.stub.Read(request), of_other.stub.Read(request)]
        streams = [aiter(call) for call in calls]
        for stream in streams:
            assert (await anext(stream)).status == pb.Status.OK
            assert (await anext(stream)).content == b"0123456789"
        ends = [asyncio.ensure_future(anext(stream, None)) for stream in streams]
        await asyncio.sleep(0.1)
        await other.stop()
        assert await ends[1] is None
        assert not ends[0].done()
        await holder.stop()
        assert await ends[0] is None

    play(tmp_path, story, cluster_etcd)


def test_a_read_ends_cleanly_when_its_journal_is_taken_away(tmp_path: Path) -> None:
    async def story(there: Stage) -> None:
        _, caller = await one_journal(there)
        await caller.appended(b"abc")
        stream = aiter(caller.stub.Read(pb.ReadRequest(journal="a/journal", offset=3, block=True)))
        ending = asyncio.ensure_future(anext(stream, None))
        await asyncio.sleep(0.1)
        delete = pb.ApplyRequest.Change(delete="a/journal", expect_mod_revision=-1)
        await caller.stub.Apply(pb.ApplyRequest(changes=[delete]))
        assert await ending is None

    play(tmp_path, story)


async def late_member(there: Stage) -> tuple[Caller, Caller]:
    """A journal without a store, and a member that came when all of it was written."""
    first, of_first = await there.broker("broker-a")
    _, of_second = await there.broker("broker-b")
    await of_first.apply(spec(replication=2))
    await of_first.appended(b"one")
    await of_first.appended(b"two")
    _, of_late = await there.broker("broker-c")
    await first.leave()
    await first.stop()
    await of_second.appended(b"three")
    return of_second, of_late


def test_a_member_that_came_late_passes_reads_of_old_content_on_to_one_that_has_it(
    tmp_path: Path, cluster_etcd: EtcdPrefix
) -> None:
    async def story(there: Stage) -> None:
        _, late = await late_member(there)
        messages = await late.read(end_offset=11, block=True)
        assert b"".join(message.content for message in messages) == b"onetwothree"
        for at, message in enumerate(messages):
            check_read_response(message, first=at == 0)
        assert await late.content(offset=4, end_offset=11, block=True) == b"wothree"
        assert await late.content(offset=6, end_offset=11) == b"three"
        [metadata] = await late.read(metadata_only=True)
        assert (metadata.status, metadata.offset) == (pb.Status.OK, 0)

    play(tmp_path, story, cluster_etcd)


def test_a_member_that_came_late_says_how_far_the_journal_reaches(
    tmp_path: Path, cluster_etcd: EtcdPrefix
) -> None:
    """To whom it may not pass on: there is content, and it is not here."""

    async def story(there: Stage) -> None:
        _, late = await late_member(there)
        [answer] = await late.read(do_not_proxy=True)
        assert answer.status == pb.Status.OFFSET_NOT_YET_AVAILABLE
        assert (answer.offset, answer.write_head) == (0, 11)

    play(tmp_path, story, cluster_etcd)


def test_any_broker_finds_the_member_that_has_the_content(
    tmp_path: Path, cluster_etcd: EtcdPrefix
) -> None:
    """Whoever is no member asks any of them, and it may be the late one."""

    async def story(there: Stage) -> None:
        await late_member(there)
        _, outside = await there.broker("broker-d")
        for _ in range(6):
            assert await outside.content(end_offset=11, block=True) == b"onetwothree"

    play(tmp_path, story, cluster_etcd)
