"""A replica's side of replication, called as a primary would."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.integration.journal.broker.cluster import JOURNAL, Broker, Cluster, spec, tell, until
from windrow.journal.broker.replicate_api import ReplicateApi
from windrow.journal.fragment import Fragment
from windrow.journal.labels import EMPTY
from windrow.journal.messages import MAX_FETCH, fragment_to_pb, header_to_pb, labels_to_pb
from windrow.journal.spec import Header, Route
from windrow.journal.wire import protocol_pb2 as pb

TERM = 4711


class Primary:
    """A stream to a replica, written by hand."""

    def __init__(self, call: Any, broker: Broker, route: Route) -> None:
        self.call, self.broker, self.route = call, broker, route

    def header(self) -> pb.Header:
        assert self.broker.resolver is not None
        etcd = self.broker.resolver.etcd_header()
        return header_to_pb(Header(self.broker.id, self.route, etcd))

    async def propose(self, end: int, digest: bytes = bytes(20), **more: Any) -> None:
        await self.call.write(proposing(end, digest, **more))

    async def sync(self, end: int = 0, digest: bytes = bytes(20)) -> pb.ReplicateResponse:
        await self.propose(end, digest, acknowledge=True, header=self.header(), term=TERM)
        return await self.read()

    def again(self) -> Primary:
        """A second stream of the same primary, who has given up the first."""
        call = self.broker.connections.stub(self.broker.endpoint).Replicate()
        return Primary(call, self.broker, self.route)

    async def send(self, content: bytes, delta: int = 0) -> None:
        await self.call.write(pb.ReplicateRequest(content=content, content_delta=delta))

    async def read(self) -> pb.ReplicateResponse:
        answer = await self.call.read()
        assert answer is not grpc.aio.EOF  # type: ignore[attr-defined]
        return answer  # type: ignore[no-any-return]


def proposing(end: int, digest: bytes = bytes(20), **more: Any) -> pb.ReplicateRequest:
    proposal = fragment_to_pb(Fragment(JOURNAL, more.pop("begin", 0), end, digest))
    return pb.ReplicateRequest(proposal=proposal, registers=labels_to_pb(EMPTY), **more)


async def replica_and_primary(there: Cluster) -> tuple[Broker, Primary]:
    """A real replica, and ourselves in the place of its primary."""
    primary, replica = await there.scripted("a"), await there.broker("b")
    await there.create(spec(2))
    await there.assign(primary, replica)
    call = primary.connections.stub(replica.endpoint).Replicate()
    return replica, Primary(call, replica, Route((primary.id, replica.id), 0))


def sha1(content: bytes) -> bytes:
    import hashlib

    return hashlib.sha1(content).digest()


def test_content_and_commit_are_acknowledged_and_shown_when_the_primary_says_so(
    tmp_path: Path,
) -> None:
    async def story(there: Cluster) -> None:
        replica, primary = await replica_and_primary(there)
        first = await primary.sync()
        assert first.status == pb.OK
        assert first.header.process_id.suffix == "broker-b"
        assert first.agreed_term == TERM
        await primary.send(b"hello ")
        await primary.send(b"world", 6)
        await primary.propose(11, sha1(b"hello world"), acknowledge=True)
        assert await primary.read() == pb.ReplicateResponse(status=pb.OK)
        assert replica.shown == 0
        await primary.propose(11, sha1(b"hello world"), acknowledged_end=11)
        await until(lambda: replica.shown == 11)

    tell(story, tmp_path)


def test_a_replica_shows_nothing_because_a_later_proposal_has_come(tmp_path: Path) -> None:
    """J5: the primary sends the next one while other replicas may still lack the one before."""

    async def story(there: Cluster) -> None:
        replica, primary = await replica_and_primary(there)
        await primary.sync()
        for end, content in ((3, b"one"), (6, b"onetwo")):
            await primary.send(content[-3:])
            await primary.propose(end, sha1(content), acknowledge=True)
            assert (await primary.read()).status == pb.OK
        assert replica.shown == 0
        await primary.propose(6, sha1(b"onetwo"), acknowledged_end=3)
        await until(lambda: replica.shown == 3)

    tell(story, tmp_path)


def test_content_may_come_joined_to_its_proposal_and_be_fetched_back(tmp_path: Path) -> None:
    async def story(there: Cluster) -> None:
        _, primary = await replica_and_primary(there)
        assert (await primary.sync()).takes_joined
        await primary.propose(3, sha1(b"abc"), acknowledge=True, joined_content=b"abc")
        assert (await primary.read()).status == pb.OK
        await primary.call.write(pb.ReplicateRequest(fetch_offset=1, fetch_length=2))
        assert (await primary.read()).content == b"bc"
        await primary.call.write(pb.ReplicateRequest(fetch_offset=2, fetch_length=2))
        with pytest.raises(grpc.aio.AioRpcError, match=r"\[2, 4\) was asked for"):
            await primary.read()

    tell(story, tmp_path)


def test_a_rollback_drops_what_was_sent(tmp_path: Path) -> None:
    async def story(there: Cluster) -> None:
        _, primary = await replica_and_primary(there)
        await primary.sync()
        await primary.send(b"never mind")
        await primary.propose(0, acknowledge=True)
        assert (await primary.read()).status == pb.OK
        await primary.send(b"this")
        await primary.propose(4, sha1(b"this"), acknowledge=True)
        assert (await primary.read()).status == pb.OK

    tell(story, tmp_path)


def test_a_mismatch_is_answered_with_what_the_replica_has_and_the_stream_goes_on(
    tmp_path: Path,
) -> None:
    async def story(there: Cluster) -> None:
        _, primary = await replica_and_primary(there)
        await primary.sync()
        await primary.send(b"this")
        await primary.propose(4, sha1(b"that"), acknowledge=True)
        answer = await primary.read()
        assert answer.status == pb.PROPOSAL_MISMATCH
        assert answer.HasField("fragment")
        assert answer.HasField("registers")
        await primary.propose(0, acknowledge=True)
        assert (await primary.read()).status == pb.OK

    tell(story, tmp_path)


def test_a_mismatch_that_is_not_to_be_acknowledged_ends_the_stream(tmp_path: Path) -> None:
    async def story(there: Cluster) -> None:
        replica, primary = await replica_and_primary(there)
        await primary.sync()
        await primary.send(b"this")
        await primary.propose(4, sha1(b"that"))
        with pytest.raises(grpc.aio.AioRpcError, match="PROPOSAL_MISMATCH of a proposal"):
            await primary.read()
        await until(lambda: replica.replica.spool.is_here)

    tell(story, tmp_path)


def test_content_that_does_not_follow_ends_the_stream(tmp_path: Path) -> None:
    async def story(there: Cluster) -> None:
        _, primary = await replica_and_primary(there)
        await primary.sync()
        await primary.send(b"this", 7)
        with pytest.raises(grpc.aio.AioRpcError, match="delta 7 was offered"):
            await primary.read()

    tell(story, tmp_path)


def test_another_route_is_answered_with_the_replicas_own(tmp_path: Path) -> None:
    async def story(there: Cluster) -> None:
        replica, primary = await replica_and_primary(there)
        primary.route = Route((replica.id,), 0)
        answer = await primary.sync()
        assert answer.status == pb.WRONG_ROUTE
        assert len(answer.header.route.members) == 2

    tell(story, tmp_path)


def test_a_primary_that_waits_for_the_spool_is_resolved_again_when_the_route_changes(
    tmp_path: Path,
) -> None:
    async def story(there: Cluster) -> None:
        replica, primary = await replica_and_primary(there)
        spool = replica.replica.spool.take_now()
        call = asyncio.create_task(primary.sync())
        await until(lambda: replica.replica.spool.is_awaited)
        await there.assign(replica)
        assert (await call).status == pb.WRONG_ROUTE
        replica.replica.spool.give(spool)

    tell(story, tmp_path)


def test_a_silent_stream_of_an_outdated_primary_is_ended(tmp_path: Path) -> None:
    """A primary that was stopped must not keep the spool from the next one for ever."""

    async def story(there: Cluster) -> None:
        replica, primary = await replica_and_primary(there)
        await primary.sync()
        await there.create(spec(1))
        await there.assign(replica)
        assert (await replica.append(b"x")).status == pb.OK

    tell(story, tmp_path, timeout=0.3)


def test_a_silent_stream_gives_way_to_another_of_its_primary(tmp_path: Path) -> None:
    """The end of its connection may be lost on the way, and then nothing else would end it."""

    async def story(there: Cluster) -> None:
        _, primary = await replica_and_primary(there)
        await primary.sync()
        async with asyncio.timeout(5):
            assert (await primary.again().sync()).status == pb.OK
        assert await primary.call.read() is grpc.aio.EOF  # type: ignore[attr-defined]

    tell(story, tmp_path, timeout=0.3)


def test_a_stream_that_is_in_use_does_not_give_way(tmp_path: Path) -> None:
    async def story(there: Cluster) -> None:
        replica, primary = await replica_and_primary(there)
        await primary.sync()
        second = primary.again()
        waiting = asyncio.create_task(second.sync(20, sha1(bytes(20))))
        await until(lambda: replica.replica.spool.is_awaited)
        for end in range(1, 21):
            await primary.send(bytes(1))
            await primary.propose(end, sha1(bytes(end)), acknowledge=True)
            assert (await primary.read()).status == pb.OK
            await asyncio.sleep(0.05)
        assert not waiting.done()
        await primary.call.done_writing()
        assert (await waiting).status == pb.OK

    tell(story, tmp_path, timeout=0.5)


def test_an_outdated_primary_that_takes_no_answers_does_not_keep_the_spool(tmp_path: Path) -> None:
    """One that was stopped in the middle of copying: the answers to it are stuck on their way."""

    async def story(there: Cluster) -> None:
        replica, primary = await replica_and_primary(there)
        await primary.sync()
        await primary.send(bytes(MAX_FETCH))
        await primary.propose(MAX_FETCH, sha1(bytes(MAX_FETCH)), acknowledge=True)
        await primary.read()
        for _ in range(64):
            await primary.call.write(pb.ReplicateRequest(fetch_offset=0, fetch_length=MAX_FETCH))
        await there.create(spec(1))
        await there.assign(replica)
        async with asyncio.timeout(10):
            assert (await replica.append(b"x")).status == pb.OK
        primary.call.cancel()

    tell(story, tmp_path, timeout=0.3)


def test_nothing_is_applied_to_a_spool_that_was_given_back(tmp_path: Path) -> None:
    """A call can be dropped while its answer is on the way, with messages that came meanwhile."""

    async def story(there: Cluster) -> None:
        replica, primary = await replica_and_primary(there)
        assert replica.resolver is not None
        messages: asyncio.Queue[pb.ReplicateRequest] = asyncio.Queue()

        async def requests() -> AsyncIterator[pb.ReplicateRequest]:
            while True:
                yield await messages.get()

        answers = ReplicateApi(replica.resolver).replicate(requests())
        first = proposing(0, acknowledge=True, header=primary.header(), term=TERM)
        messages.put_nowait(first)
        assert (await anext(answers)).status == pb.OK
        messages.put_nowait(pb.ReplicateRequest(content=b"too late"))
        await answers.aclose()
        spool = replica.replica.spool.take_now()
        await asyncio.sleep(0.01)
        assert spool.delta == 0
        replica.replica.spool.give(spool)

    tell(story, tmp_path)


def test_brokers_with_spools_of_different_kinds_do_not_replicate(tmp_path: Path) -> None:
    async def story(there: Cluster) -> None:
        _, primary = await replica_and_primary(there)
        with pytest.raises(grpc.aio.AioRpcError, match="spools of different kinds"):
            await primary.sync()

    tell(story, tmp_path, is_durable=False)


def test_a_stock_primary_is_shown_at_once(tmp_path: Path) -> None:
    """One that never says what is acknowledged: then a commit is all there is to go by."""

    async def story(there: Cluster) -> None:
        replica, primary = await replica_and_primary(there)
        await primary.propose(0, acknowledge=True, header=primary.header())
        await primary.read()
        await primary.send(b"this")
        await primary.propose(4, sha1(b"this"), acknowledge=True)
        await primary.read()
        assert replica.shown == 4

    tell(story, tmp_path, is_durable=False)


def test_content_without_a_commit_is_dropped_when_its_stream_ends(tmp_path: Path) -> None:
    async def story(there: Cluster) -> None:
        replica, primary = await replica_and_primary(there)
        await primary.sync()
        await primary.send(b"never mind")
        await until(lambda: replica.replica._spool.delta > 0)
        await primary.call.done_writing()
        assert await primary.call.read() is grpc.aio.EOF  # type: ignore[attr-defined]
        await until(lambda: replica.replica.spool.is_here)
        assert replica.replica._spool.delta == 0
        again = primary.again()
        assert (await again.sync()).status == pb.OK
        await again.send(b"this")
        await again.propose(4, sha1(b"this"), acknowledge=True)
        assert (await again.read()).status == pb.OK

    tell(story, tmp_path)


def test_a_broker_that_is_no_member_says_so_and_ends_the_stream(tmp_path: Path) -> None:
    async def story(there: Cluster) -> None:
        primary, other = await there.scripted("a"), await there.broker("b")
        call = primary.connections.stub(other.endpoint).Replicate()
        stream = Primary(call, other, Route((primary.id, other.id), 0))
        for expected in (pb.JOURNAL_NOT_FOUND, pb.NOT_JOURNAL_BROKER):
            answer = await stream.sync()
            assert answer.status == expected
            assert answer.header.process_id.suffix == "broker-b"
            assert await stream.call.read() is grpc.aio.EOF  # type: ignore[attr-defined]
            await there.create(spec(1))
            await there.assign(primary)
            stream = stream.again()

    tell(story, tmp_path)


def test_a_stream_has_to_begin_with_who_sends_it(tmp_path: Path) -> None:
    async def story(there: Cluster) -> None:
        replica, primary = await replica_and_primary(there)
        await primary.propose(0, acknowledge=True, term=TERM)
        with pytest.raises(grpc.aio.AioRpcError, match="Header"):
            await primary.read()
        assert replica.replica.spool.is_here

    tell(story, tmp_path)
