"""Appends through real brokers: spans, registers, groups, pipelining, visibility."""

from __future__ import annotations

import asyncio
import hashlib
import resource
import signal
from itertools import pairwise
from pathlib import Path

import grpc
import pytest

from tests.integration.journal.broker.cluster import (
    JOURNAL,
    Cluster,
    request,
    spec,
    tell,
    until,
)
from windrow.journal.fragment import Fragment
from windrow.journal.messages import fragment_from_pb
from windrow.journal.wire import protocol_pb2 as pb

LARGE = 300_000
"""More than is gathered before it is sent on."""


@pytest.mark.parametrize("is_durable", [True, False], ids=["durable", "memory"])
def test_an_append_commits_its_own_span_and_sum(tmp_path: Path, is_durable: bool) -> None:
    async def story(there: Cluster) -> None:
        a = await there.broker("a")
        await there.create(spec(1))
        await there.assign(a)
        first = await a.append(b"hello ")
        second = await a.append_chunks([b"wor", b"ld"])
        assert first.status == second.status == pb.OK
        one, two = fragment_from_pb(first.commit), fragment_from_pb(second.commit)
        assert (one.begin, one.end, one.sum) == (0, 6, hashlib.sha1(b"hello ").digest())
        assert (two.begin, two.end, two.sum) == (6, 11, hashlib.sha1(b"world").digest())
        assert (first.total_chunks, second.total_chunks) == (2, 3)
        assert second.HasField("registers")
        assert a.shown == 11

    tell(story, tmp_path, is_durable=is_durable)


@pytest.mark.parametrize("is_durable", [True, False], ids=["durable", "memory"])
def test_an_append_reaches_every_replica_and_becomes_visible_at_each(
    tmp_path: Path, is_durable: bool
) -> None:
    async def story(there: Cluster) -> None:
        a, b, c = [await there.broker(name) for name in "abc"]
        await there.create(spec(3))
        await there.assign(a, b, c)
        for number in range(5):
            response = await a.append(b"%d" % number)
            assert response.status == pb.OK
        for one in (a, b, c):
            # Nobody appends any more, and yet the last bytes are told to the replicas.
            await until(lambda one=one: one.shown == 5)  # type: ignore[misc]

    tell(story, tmp_path, is_durable=is_durable)


def test_registers_are_checked_and_moved_inside_the_append(tmp_path: Path) -> None:
    async def story(there: Cluster) -> None:
        a = await there.broker("a")
        await there.create(spec(1))
        await there.assign(a)
        first = await a.append(b"x", union_registers={"owner": "one"})
        assert first.registers.labels[0].value == "one"
        taken = await a.append(
            b"y", check_registers={"owner": "one"}, union_registers={"owner": "two"}
        )
        assert taken.status == pb.OK
        late = await a.append(b"z", check_registers={"owner": "one"})
        assert late.status == pb.REGISTER_MISMATCH
        assert late.registers.labels[0].value == "two"
        assert a.shown == 2

    tell(story, tmp_path)


def test_an_offset_race_has_one_winner(tmp_path: Path) -> None:
    async def story(there: Cluster) -> None:
        a = await there.broker("a")
        await there.create(spec(1))
        await there.assign(a)
        await a.append(b"base")
        racing = await asyncio.gather(*(a.append(b"x", offset=4) for _ in range(8)))
        statuses = sorted(response.status for response in racing)
        assert statuses == [pb.OK] + [pb.WRONG_APPEND_OFFSET] * 7

    tell(story, tmp_path)


def test_every_client_error_rolls_back_and_keeps_the_pipeline(tmp_path: Path) -> None:
    async def story(there: Cluster) -> None:
        a, b = await there.broker("a"), await there.broker("b")
        await there.create(spec(2))
        await there.assign(a, b)
        await a.append(b"1")
        await a.append(b"2")
        before = a.replica.pipeline.peek()
        stub = a.connections.stub(a.endpoint)

        half = stub.Append()  # ends without the commit mark
        await half.write(request())
        await half.write(pb.AppendRequest(content=b"x" * 300_000))
        await half.done_writing()
        with pytest.raises(grpc.aio.AioRpcError, match="append stream: unexpected EOF"):
            await half

        wrong = stub.Append()  # names a journal again
        await wrong.write(request())
        await wrong.write(pb.AppendRequest(content=b"x" * 300_000))
        await wrong.write(request())
        with pytest.raises(grpc.aio.AioRpcError, match="expected Content chunk"):
            await wrong

        behind = stub.Append()  # goes on behind its commit mark
        await behind.write(request())
        for content in (b"x", b"", b"y"):
            await behind.write(pb.AppendRequest(content=content))
        with pytest.raises(grpc.aio.AioRpcError, match="expected EOF after empty Content"):
            await behind

        gone = stub.Append()  # is cancelled in the middle
        await gone.write(request())
        await gone.write(pb.AppendRequest(content=b"x" * 300_000))
        await until(lambda: not a.replica.pipeline.is_here)
        gone.cancel()
        await until(lambda: a.replica.pipeline.is_here)

        with pytest.raises(grpc.aio.AioRpcError, match="register modification requires"):
            await a.append(b"", union_registers={"owner": "x"})

        response = await a.append(b"3")
        assert (response.commit.begin, response.commit.end) == (2, 3)
        assert a.replica.pipeline.peek() is before

    tell(story, tmp_path)


def test_a_client_that_stalls_is_aborted_and_others_go_on(tmp_path: Path) -> None:
    async def story(there: Cluster) -> None:
        a = await there.broker("a")
        await there.create(spec(1))
        await there.assign(a)
        slow = a.connections.stub(a.endpoint).Append()
        await slow.write(request())
        await slow.write(pb.AppendRequest(content=b"x"))
        await until(lambda: not a.replica.pipeline.is_here)
        behind = asyncio.create_task(a.append(b"y"))
        with pytest.raises(grpc.aio.AioRpcError, match="minimum append data rate"):
            await slow
        assert (await behind).commit.begin == 0

    tell(story, tmp_path)


def test_a_journal_with_a_maximum_rate_delays_chunks(tmp_path: Path) -> None:
    async def story(there: Cluster) -> None:
        a = await there.broker("a")
        await there.create(spec(1, max_append_rate=1_000_000))
        await there.assign(a)
        response = await a.append_chunks([b"x" * 400_000] * 3)
        assert response.status == pb.OK
        assert response.delayed_chunks == 1
        assert response.total_chunks == 4

    tell(story, tmp_path)


def test_another_broker_hands_the_append_to_the_primary(tmp_path: Path) -> None:
    async def story(there: Cluster) -> None:
        a, b = await there.broker("a"), await there.broker("b")
        await there.create(spec(1))
        await there.assign(a)
        response = await b.append_chunks([b"x" * 200_000] * 4)
        assert response.status == pb.OK
        assert response.header.process_id.suffix == "broker-a"
        refused = await b.append(b"x", do_not_proxy=True)
        assert refused.status == pb.NOT_JOURNAL_PRIMARY_BROKER

        half = b.connections.stub(b.endpoint).Append()
        await half.write(request())
        await half.write(pb.AppendRequest(content=b"x"))
        await half.done_writing()
        with pytest.raises(grpc.aio.AioRpcError, match="unexpected EOF"):
            await half
        assert (await a.append(b"y")).commit.begin == 800_000

    tell(story, tmp_path)


@pytest.mark.parametrize(
    ("replication", "assigned", "expected"),
    [(1, 0, pb.NO_JOURNAL_PRIMARY_BROKER), (2, 1, pb.INSUFFICIENT_JOURNAL_BROKERS)],
)
def test_too_few_brokers_have_a_status(
    tmp_path: Path, replication: int, assigned: int, expected: int
) -> None:
    async def story(there: Cluster) -> None:
        a = await there.broker("a")
        assert (await a.append(b"x")).status == pb.JOURNAL_NOT_FOUND
        await there.create(spec(replication))
        await there.assign(*[a][:assigned])
        response = await a.append(b"x")
        assert response.status == expected
        assert response.HasField("header")

    tell(story, tmp_path)


def test_a_journal_that_cannot_be_written_takes_barriers_only(tmp_path: Path) -> None:
    async def story(there: Cluster) -> None:
        a = await there.broker("a")
        await there.create(spec(1, flags=1))
        await there.assign(a)
        assert (await a.append(b"x")).status == pb.NOT_ALLOWED
        barrier = await a.append(b"")
        assert barrier.status == pb.OK
        assert (barrier.commit.begin, barrier.commit.end) == (0, 0)

    tell(story, tmp_path)


def test_many_appends_at_once_keep_every_byte_apart(tmp_path: Path) -> None:
    async def story(there: Cluster) -> None:
        a, b, c = [await there.broker(name) for name in "abc"]
        await there.create(spec(3))
        await there.assign(a, b, c)
        contents = [b"%03d," % number * (1 + number % 7) for number in range(150)]
        responses = await asyncio.gather(
            *((a, b, c)[number % 3].append(content) for number, content in enumerate(contents))
        )
        spans = sorted((one.commit.begin, one.commit.end) for one in responses)
        assert spans[0][0] == 0
        assert all(left[1] == right[0] for left, right in pairwise(spans))
        for content, response in zip(contents, responses, strict=True):
            commit = fragment_from_pb(response.commit)
            assert commit.sum == hashlib.sha1(content).digest()
            for broker in (a, b, c):
                await until(lambda one=broker, end=commit.end: one.shown >= end)  # type: ignore[misc]
                assert broker.read(commit.begin, commit.end) == content

    tell(story, tmp_path)


def test_a_full_disk_fails_the_append_and_the_next_one_succeeds(tmp_path: Path) -> None:
    async def story(there: Cluster) -> None:
        a, b = await there.broker("a"), await there.broker("b")
        await there.create(spec(2))
        await there.assign(a, b)
        await a.append(b"1")
        await a.append(b"2")
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, hard))
            with pytest.raises(grpc.aio.AioRpcError, match="cannot write its spool"):
                await a.append(b"x" * 250_000)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            signal.signal(signal.SIGXFSZ, ignored)
        response = await a.append(b"3")
        assert (response.commit.begin, response.commit.end) == (2, 3)

    tell(story, tmp_path)


def test_an_append_that_waits_while_the_primary_changes_is_served_by_the_next_at_its_offset(
    tmp_path: Path,
) -> None:
    async def story(there: Cluster) -> None:
        a, b = await there.broker("a"), await there.broker("b")
        await there.create(spec(2))
        await there.assign(a, b)
        await a.append(b"before")
        pipeline = a.replica.pipeline.take_now()
        queued = asyncio.create_task(a.append(b"queued"))
        await until(lambda: len(a.replica.waiting) == 1)
        await there.assign(b, a)
        assert pipeline is not None
        await pipeline.close()
        a.replica.pipeline.give(None)
        response = await queued
        assert (response.status, response.commit.begin) == (pb.OK, 6)
        assert response.header.process_id.suffix == "broker-b"

    tell(story, tmp_path)


def test_an_append_passed_on_fails_with_the_error_of_the_primary(tmp_path: Path) -> None:
    async def story(there: Cluster) -> None:
        primary, other = await there.scripted("a"), await there.broker("b")

        async def fail(requests: object, _: object) -> pb.AppendResponse:
            raise RuntimeError("disk on fire")

        primary.servicer.append = fail
        await there.create(spec(1))
        await there.assign(primary)
        with pytest.raises(grpc.aio.AioRpcError, match="disk on fire"):
            await other.append(b"x")

    tell(story, tmp_path)


@pytest.mark.parametrize("breaks", ["client", "primary"])
def test_an_append_passed_on_that_breaks_in_the_middle_leaves_nothing(
    tmp_path: Path, breaks: str
) -> None:
    async def story(there: Cluster) -> None:
        a, b = await there.broker("a"), await there.broker("b")
        await there.create(spec(1))
        await there.assign(a)
        await a.append(b"before")
        call = b.connections.stub(b.endpoint).Append()
        await call.write(request())
        await call.write(pb.AppendRequest(content=b"x" * LARGE))
        await until(lambda: a.replica._spool.delta > 0)
        if breaks == "client":
            call.cancel()
            await until(lambda: a.replica.pipeline.is_here)
            assert a.replica._spool.delta == 0
        else:
            await a.server.stop(None)
            with pytest.raises(grpc.aio.AioRpcError):
                await call
            await there.stop(a)
            a = await there.broker("a")
        assert (await a.append(b"after")).commit.begin == 6

    tell(story, tmp_path)


def test_a_name_with_a_suffix_appends_to_the_journal_without_it(tmp_path: Path) -> None:
    async def story(there: Cluster) -> None:
        a, b = await there.broker("a"), await there.broker("b")
        await there.create(spec(1))
        await there.assign(a)
        for at, broker in enumerate((a, b)):
            response = await broker.append(b"x", journal="a/journal;writer=7")
            assert (response.status, response.commit.begin) == (pb.OK, at)
            assert response.commit.journal == "a/journal"

    tell(story, tmp_path)


@pytest.mark.parametrize(("of_journal", "delayed"), [(0, 1), (500_000, 2), (5_000_000, 1)])
def test_the_rate_of_a_broker_holds_for_all_its_journals_and_never_raises_theirs(
    tmp_path: Path, of_journal: int, delayed: int
) -> None:
    async def story(there: Cluster) -> None:
        a = await there.broker("a")
        await there.create(spec(1, max_append_rate=of_journal))
        await there.assign(a)
        response = await a.append_chunks([b"x" * 750_000] * 2)
        assert (response.status, response.delayed_chunks) == (pb.OK, delayed)

    tell(story, tmp_path, services={"max_append_rate": 1_000_000})


def test_a_route_moves_on_by_one_and_its_replica_becomes_the_primary(tmp_path: Path) -> None:
    """A and B serve, then B and C: C never met A."""

    async def story(there: Cluster) -> None:
        a, b, c = [await there.broker(name) for name in "abc"]
        await there.create(spec(2))
        await there.assign(a, b)
        assert (await a.append(b"one", union_registers={"last": "1"})).status == pb.OK
        await there.assign(b, c)
        response = await a.append(b"two")
        assert (response.status, response.commit.begin) == (pb.OK, 3)
        assert [label.value for label in response.registers.labels] == ["1"]
        assert response.header.process_id.suffix == "broker-b"
        await until(lambda: c.shown == b.shown == 6)
        assert c.read(3, 6) == b"two"
        assert b.read(0, 6) == b"onetwo"

    tell(story, tmp_path)


def test_an_index_that_reaches_further_needs_its_offset_said_and_then_goes_on_there(
    tmp_path: Path,
) -> None:
    """Memory spools: their brokers were lost, and only what they had uploaded is left."""

    async def story(there: Cluster) -> None:
        a = await there.broker("a")
        await there.create(spec(1))
        await there.assign(a)
        stored = Fragment(JOURNAL, 0, 100, bytes([1] * 20), backing_store="s3://x/")
        a.replica.index.replace_remote([stored])
        assert (await a.append(b"x")).status == pb.INDEX_HAS_GREATER_OFFSET
        for wrong in (1, 99, 101):
            assert (await a.append(b"x", offset=wrong)).status == pb.WRONG_APPEND_OFFSET
        reset = await a.append(b"", offset=100)
        assert (reset.status, reset.commit.begin, reset.commit.end) == (pb.OK, 100, 100)
        assert (await a.append(b"on")).commit.begin == 100

    tell(story, tmp_path, is_durable=False)
