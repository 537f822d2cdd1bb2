"""A primary's pipeline against replicas whose answers are scripted."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest

from tests.integration.journal.broker.cluster import JOURNAL, Broker, Cluster, spec, tell, until
from tests.integration.journal.broker.scripted import ScriptedReplica, ScriptedStream, synced
from windrow.journal.labels import LabelSet
from windrow.journal.messages import header_to_pb, labels_to_pb
from windrow.journal.spec import EtcdHeader, Header, Route
from windrow.journal.wire import protocol_pb2 as pb


async def primary_and_replicas(there: Cluster, *names: str) -> tuple[Broker, list[ScriptedReplica]]:
    primary = await there.broker("a")
    brokers = [await there.scripted(name) for name in names]
    replicas = [ScriptedReplica(broker) for broker in brokers]
    await there.create(spec(1 + len(names)))
    await there.assign(primary, *brokers)
    return primary, replicas


def appending(primary: Broker, content: bytes, **conditions: object) -> asyncio.Task[object]:
    return asyncio.create_task(primary.append(content, **conditions))


async def warmed_up(primary: Broker, *replicas: ScriptedReplica) -> list[ScriptedStream]:
    """Streams behind two bytes: the first fragment of all is rolled by the second append."""
    first = appending(primary, b"1")
    streams = [await synced(replica) for replica in replicas]
    for stream in streams:
        stream.agree(await stream.receive_proposal())
    await first
    second = appending(primary, b"2")
    for stream in streams:
        stream.agree(await stream.receive_proposal())
    await second
    return streams


def test_the_header_names_each_peer_and_comes_with_the_first_sync_only(tmp_path: Path) -> None:
    async def story(there: Cluster) -> None:
        primary, (b, c) = await primary_and_replicas(there, "b", "c")
        task = appending(primary, b"x")
        streams = [await b.stream(), await c.stream()]
        for replica, stream in zip((b, c), streams, strict=True):
            first = await stream.receive()
            assert first.header.process_id.suffix == replica.id.suffix
            assert first.acknowledge
            stream.agree(first)
        for stream in streams:
            proposal = await stream.receive_proposal()
            assert not proposal.HasField("header")
            stream.agree(proposal)
        assert (await task).status == pb.OK  # type: ignore[attr-defined]

    tell(story, tmp_path)


def test_the_first_sync_tells_every_peer_the_route_its_revision_and_the_current_fragment(
    tmp_path: Path,
) -> None:
    async def story(there: Cluster) -> None:
        primary = await there.broker("a")
        await there.create(spec(1))
        await there.assign(primary)
        await primary.append(b"1", union_registers={"owner": "one"})
        await primary.append(b"23")  # the first fragment of all is closed by the second append
        brokers = [await there.scripted(name) for name in "bc"]
        replicas = [ScriptedReplica(broker) for broker in brokers]
        await there.create(spec(3))
        await there.assign(primary, *brokers)
        assert primary.resolver is not None
        task = appending(primary, b"x")
        syncs = []
        for replica in replicas:
            stream = await replica.stream()
            syncs.append((stream, await stream.receive()))
        for stream, sync in syncs:
            members = [member.suffix for member in sync.header.route.members]
            assert members == ["broker-a", "broker-b", "broker-c"]
            assert sync.header.route.primary == 0
            assert sync.header.etcd == header_to_pb(primary.resolver.unrouted_header()).etcd
            assert (sync.proposal.begin, sync.proposal.end) == (1, 3)
            assert sync.registers == labels_to_pb(LabelSet.of({"owner": "one"}))
            stream.fail("seen enough")
        with pytest.raises(grpc.aio.AioRpcError, match="seen enough"):
            await task

    tell(story, tmp_path)


def test_a_peer_with_a_larger_offset_is_followed_with_its_registers(tmp_path: Path) -> None:
    """Memory spools: whoever still has bytes has what was acknowledged."""

    async def story(there: Cluster) -> None:
        primary, (b,) = await primary_and_replicas(there, "b")
        task = appending(primary, b"xyz")
        stream = await b.stream()
        await stream.receive()
        ahead = pb.Fragment(journal=JOURNAL, begin=0, end=100, compression_codec=pb.NONE)
        ahead.sum.part1 = 7
        registers = labels_to_pb(LabelSet.of({"owner": "one"}))
        stream.answer(pb.PROPOSAL_MISMATCH, fragment=ahead, registers=registers)
        second = await stream.receive()
        assert (second.proposal.begin, second.proposal.end) == (100, 100)
        assert second.registers == registers
        assert not second.HasField("header")
        stream.agree(second)
        proposal = await stream.receive_proposal()
        stream.agree(proposal)
        response = await task
        assert response.commit.begin == 100  # type: ignore[attr-defined]
        assert response.registers == registers  # type: ignore[attr-defined]

    tell(story, tmp_path, is_durable=False)


def test_a_wrong_route_at_a_later_revision_resolves_again(tmp_path: Path) -> None:
    async def story(there: Cluster) -> None:
        primary, (b,) = await primary_and_replicas(there, "b")
        task = appending(primary, b"x")
        stream = await b.stream()
        await stream.receive()
        assert primary.resolver is not None
        now = primary.resolver.etcd_header()
        later = EtcdHeader(now.cluster_id, now.member_id, now.revision + 2, now.raft_term)
        header = Header(b.id, Route((b.id,), 0), later)
        stream.answer(pb.WRONG_ROUTE, header=header_to_pb(header))
        await stream.has_ended.wait()
        stream.close()
        assert not task.done()
        await there.create(spec(1))
        await there.assign(primary)  # at the very revision that the peer has told of
        assert (await task).status == pb.OK  # type: ignore[attr-defined]

    tell(story, tmp_path)


LARGE = 300_000
"""More than is gathered before it is sent: such appends never wait for each other's answers."""


@pytest.mark.parametrize("length", [3, LARGE])
def test_two_racing_appends_are_pipelined(tmp_path: Path, length: int) -> None:
    """The second is sent whole before the first is acknowledged."""

    async def story(there: Cluster) -> None:
        primary, (b,) = await primary_and_replicas(there, "b")
        (stream,) = await warmed_up(primary, b)
        first = appending(primary, b"1" * length)
        one = await stream.receive_proposal()
        second = appending(primary, b"2" * length)
        two = await stream.receive_proposal()
        assert (one.proposal.end, two.proposal.end) == (2 + length, 2 + 2 * length)
        assert not first.done()
        assert not second.done()
        stream.agree(one)
        assert (await first).commit.end == 2 + length  # type: ignore[attr-defined]
        assert not second.done()
        stream.agree(two)
        assert (await second).commit.begin == 2 + length  # type: ignore[attr-defined]

    tell(story, tmp_path)


def test_a_replica_that_takes_it_so_gets_content_and_proposal_as_one_message(
    tmp_path: Path,
) -> None:
    async def story(there: Cluster) -> None:
        primary, (b, c) = await primary_and_replicas(there, "b", "c")
        task = appending(primary, b"abc")
        joined, plain = await b.stream(), await c.stream()
        sync = await joined.receive()
        joined.answer(
            pb.OK,
            fragment=sync.proposal,
            registers=sync.registers,
            agreed_term=sync.term,
            takes_joined=True,
        )
        plain.agree(await plain.receive())
        both = await joined.receive()
        assert (both.joined_content, both.acknowledge, both.proposal.end) == (b"abc", True, 3)
        content, proposal = await plain.receive(), await plain.receive()
        assert (content.content, proposal.joined_content) == (b"abc", b"")
        assert proposal.proposal == both.proposal
        joined.agree(both)
        plain.agree(proposal)
        assert (await task).status == pb.OK  # type: ignore[attr-defined]

    tell(story, tmp_path)


def test_small_appends_gather_while_others_are_on_their_way(tmp_path: Path) -> None:
    """A message to each replica, and a sync of each disk, cost the same for one as for many."""

    async def story(there: Cluster) -> None:
        primary, (b,) = await primary_and_replicas(there, "b")
        (stream,) = await warmed_up(primary, b)
        first = appending(primary, b"one")
        one = await stream.receive_proposal()
        second = appending(primary, b"two")
        two = await stream.receive_proposal()
        others = [appending(primary, b"more") for _ in range(3)]
        await until(lambda: len(primary.replica.waiting) == 2)  # the third owns the pipeline
        stream.agree(one)
        assert (await first).commit.end == 5  # type: ignore[attr-defined]
        others.append(appending(primary, b"late"))
        await until(lambda: len(primary.replica.waiting) == 3)
        stream.agree(two)
        assert (await second).commit.end == 8  # type: ignore[attr-defined]
        together = await stream.receive_proposal()
        assert together.proposal.end == 8 + 4 * 4
        stream.agree(together)
        assert {(await task).commit.end for task in others} == {12, 16, 20, 24}  # type: ignore[attr-defined]

    tell(story, tmp_path)


def test_bytes_are_not_visible_before_every_replica_has_acknowledged_them(tmp_path: Path) -> None:
    """J5: a later proposal is no proof that an earlier one was acknowledged."""

    async def story(there: Cluster) -> None:
        primary, (b, c) = await primary_and_replicas(there, "b", "c")
        streams = await warmed_up(primary, b, c)
        first = appending(primary, b"1" * LARGE)
        ones = [await stream.receive_proposal() for stream in streams]
        second = appending(primary, b"2" * LARGE)
        twos = [await stream.receive_proposal() for stream in streams]
        assert all(two.acknowledged_end == 2 for two in twos)
        streams[0].agree(ones[0])
        await asyncio.sleep(0.05)  # gives a premature show the time to happen
        assert primary.shown == 2
        streams[1].agree(ones[1])
        await first
        assert primary.shown == 2 + LARGE
        for stream, two in zip(streams, twos, strict=True):
            stream.agree(two)
        await second
        end = 2 + 2 * LARGE
        assert primary.shown == end
        for stream in streams:
            while (announced := await stream.receive()).acknowledged_end < end:
                pass
            assert not announced.acknowledge
            assert (announced.acknowledged_end, announced.proposal.end) == (end, end)

    tell(story, tmp_path)


def test_no_message_states_more_than_what_all_replicas_have_acknowledged(tmp_path: Path) -> None:
    """J5: content that follows a proposal is no proof either that it was acknowledged."""

    async def story(there: Cluster) -> None:
        primary, (b,) = await primary_and_replicas(there, "b")
        (stream,) = await warmed_up(primary, b)
        first = appending(primary, b"1" * LARGE)
        one = await stream.receive_proposal()
        second = appending(primary, b"2" * LARGE)
        stated, contents = set(), 0
        while not (two := await stream.receive()).acknowledge:
            stated.add(two.acknowledged_end)
            contents += bool(two.content)
        assert contents > 0
        assert stated <= {0, 2}
        stream.agree(one)
        stream.agree(two)
        await first
        await second

    tell(story, tmp_path)


def test_a_failed_acknowledgement_shows_nothing_and_builds_a_new_pipeline(tmp_path: Path) -> None:
    async def story(there: Cluster) -> None:
        primary, (b,) = await primary_and_replicas(there, "b")
        task = appending(primary, b"one")
        stream = await synced(b)
        proposal = await stream.receive_proposal()
        stream.answer(
            pb.PROPOSAL_MISMATCH, fragment=proposal.proposal, registers=proposal.registers
        )
        with pytest.raises(grpc.aio.AioRpcError, match="PROPOSAL_MISMATCH"):
            await task
        assert primary.shown == 0
        again = appending(primary, b"two")
        await stream.has_ended.wait()
        stream.close()
        retry = await synced(b)
        retry.agree(await retry.receive_proposal())
        # Nobody else had the first bytes, but this broker's peer said that it agrees to them.
        assert (await again).status == pb.OK  # type: ignore[attr-defined]

    tell(story, tmp_path)


def test_a_broken_stream_rolls_the_other_peer_back_and_yields_no_pipeline(tmp_path: Path) -> None:
    async def story(there: Cluster) -> None:
        primary, (b, c) = await primary_and_replicas(there, "b", "c")
        gate = asyncio.Event()

        async def chunks() -> AsyncIterator[bytes]:
            yield b"x" * 300_000
            await gate.wait()
            yield b"y" * 300_000

        task = asyncio.create_task(primary.append_chunks(chunks()))
        broken, healthy = await synced(b), await synced(c)
        assert (await healthy.receive()).content
        broken.fail("disk on fire")
        await broken.has_ended.wait()
        await asyncio.sleep(0.05)  # the end of the call has to reach the primary
        gate.set()
        rollback = await healthy.receive_proposal()
        assert (rollback.proposal.begin, rollback.proposal.end) == (0, 0)
        healthy.agree(rollback)
        with pytest.raises(grpc.aio.AioRpcError, match="disk on fire"):
            await task
        await healthy.has_ended.wait()
        assert primary.replica.pipeline.peek() is None

    tell(story, tmp_path)


@pytest.mark.parametrize("at", ["sync", "commit"])
def test_a_hung_replica_delays_a_journal_by_a_bounded_time(tmp_path: Path, at: str) -> None:
    async def story(there: Cluster) -> None:
        primary, (b,) = await primary_and_replicas(there, "b")
        began = time.monotonic()
        task = appending(primary, b"x")
        if at == "commit":
            await synced(b)
        with pytest.raises(grpc.aio.AioRpcError, match=r"broker-b: no answer in time"):
            await task
        assert time.monotonic() - began < 5
        # With the replica out of the route the journal goes on.
        await there.assign(primary)
        await there.create(spec(1))
        assert (await primary.append(b"y")).status == pb.OK

    tell(story, tmp_path, timeout=0.3)


def test_a_replica_that_takes_no_stream_delays_a_journal_by_a_bounded_time(tmp_path: Path) -> None:
    """Its process is stopped, so that connections to it come about and nothing is said on them.

    Then gRPC cancels what waits for the stream, and must not take the append with it: the append
    owns the journal's pipeline and spool.
    """

    async def story(there: Cluster) -> None:
        primary, stopped = await there.broker("a"), await there.scripted("b")
        with socket.create_server(("127.0.0.1", 0)) as listening:
            await there.announce(stopped, f"http://127.0.0.1:{listening.getsockname()[1]}")
            await there.create(spec(2))
            await there.assign(primary, stopped)
            for _ in range(2):
                with pytest.raises(grpc.aio.AioRpcError, match="broker-b: it takes no more"):
                    async with asyncio.timeout(5):
                        await primary.append(b"x")
        await there.assign(primary)
        await there.create(spec(1))
        assert (await primary.append(b"y")).status == pb.OK

    tell(story, tmp_path, timeout=0.3)


class CancelledCall:
    """A stream of which nothing is left but that it was cancelled."""

    def write_now(self, _: object) -> bool:
        return False

    async def write(self, _: object) -> None:
        raise asyncio.CancelledError

    def done(self) -> bool:
        return True

    def cancel(self) -> None:
        """It is."""


def test_an_append_that_is_cancelled_from_below_gives_back_what_it_holds(tmp_path: Path) -> None:
    """Whatever it was: the journal must not stand still for ever."""

    async def story(there: Cluster) -> None:
        primary, _ = await primary_and_replicas(there, "b")
        primary.connections.replicate = lambda *_: CancelledCall()  # type: ignore[method-assign]
        with pytest.raises(grpc.aio.AioRpcError, match="CancelledError"):
            async with asyncio.timeout(5):
                await primary.append(b"x")
        await there.assign(primary)
        await there.create(spec(1))
        assert (await primary.append(b"y")).status == pb.OK

    tell(story, tmp_path)


def test_a_fragment_rolls_only_when_all_before_it_is_acknowledged(tmp_path: Path) -> None:
    async def story(there: Cluster) -> None:
        primary, (b,) = await primary_and_replicas(there, "b")
        first = appending(primary, b"one")
        stream = await synced(b)
        one = await stream.receive_proposal()
        # The first fragment of all is rolled by the next write.
        second = appending(primary, b"two")
        await asyncio.sleep(0.05)  # gives a premature roll the time to happen
        assert stream.requests.empty()
        assert primary.completed == []
        stream.agree(one)
        await first
        while (roll := await stream.receive()).proposal.begin != 3:
            pass
        assert (roll.acknowledge, roll.acknowledged_end) == (False, 3)
        assert [one.fragment.end for one in primary.completed] == [3]
        stream.agree(await stream.receive_proposal())
        assert (await second).status == pb.OK  # type: ignore[attr-defined]

    tell(story, tmp_path)


def test_appends_that_wait_together_are_one_proposal_with_an_answer_each(tmp_path: Path) -> None:
    async def story(there: Cluster) -> None:
        primary, (b,) = await primary_and_replicas(there, "b")
        first = appending(primary, b"first")
        stream = await b.stream()
        sync = await stream.receive()  # the pipeline is busy for as long as this is not answered
        waiting = [appending(primary, b"%d" % number * 3) for number in range(5)]
        checked = appending(
            primary, b"last", check_registers={"owner": "x"}, union_registers={"owner": "y"}
        )
        await until(lambda: len(primary.replica.waiting) == 6)
        stream.agree(sync)
        proposal = await stream.receive_proposal()
        assert proposal.proposal.end == 5 + 5 * 3 + 4
        stream.agree(proposal)
        responses = [await task for task in (first, *waiting, checked)]
        spans = sorted((one.commit.begin, one.commit.end) for one in responses)  # type: ignore[attr-defined]
        assert spans == [(0, 5), (5, 8), (8, 11), (11, 14), (14, 17), (17, 20), (20, 24)]
        assert responses[-1].registers.labels[0].value == "y"  # type: ignore[attr-defined]

    tell(story, tmp_path)
