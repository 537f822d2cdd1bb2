"""Brokers that come back: what they had is recovered, and what was given up stays away."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from pathlib import Path

import grpc
import pytest

from tests.integration.journal.broker.cluster import (
    JOURNAL,
    KEYS,
    Broker,
    Cluster,
    spec,
    tell,
    until,
)
from tests.integration.journal.broker.scripted import ScriptedReplica, synced
from windrow.journal.broker.head import Head
from windrow.journal.broker.pulse import Pulse
from windrow.journal.wire import protocol_pb2 as pb


async def head_of(there: Cluster) -> Head:
    (kv,) = (await there.store.load(KEYS.head(JOURNAL))).kvs
    return Head.decode(JOURNAL, kv.value, kv.mod_revision)


async def restarted(there: Cluster, *brokers: Broker) -> list[Broker]:
    """Stop brokers without a word, and start others on their disks."""
    for broker in brokers:
        await there.stop(broker)
    return [await there.broker(broker.id.suffix.removeprefix("broker-")) for broker in brokers]


def test_all_brokers_can_go_and_no_acknowledged_byte_or_register_is_lost(tmp_path: Path) -> None:
    async def story(there: Cluster) -> None:
        a, b, c = [await there.broker(name) for name in "abc"]
        await there.create(spec(3))
        await there.assign(a, b, c)
        await a.append(b"one ", union_registers={"last": "1"})
        await a.append(b"two ", union_registers={"last": "2"})
        await a.append(b"three ", union_registers={"last": "3"})
        a, b, c = await restarted(there, a, b, c)
        assert a.shown <= 4  # what was rolled is known to be acknowledged, the rest not yet
        await there.assign(c, b, a)
        response = await c.append(b"four", check_registers={"last": "3"})
        assert response.status == pb.OK
        assert response.commit.begin == 14
        for broker in (a, b, c):
            await until(lambda one=broker: one.shown == 18)  # type: ignore[misc]
            assert broker.read(0, 18) == b"one two three four"

    tell(story, tmp_path)


def test_a_replacement_joins_where_the_journal_stands(tmp_path: Path) -> None:
    async def story(there: Cluster) -> None:
        a, b, c = [await there.broker(name) for name in "abc"]
        await there.create(spec(2))
        await there.assign(a, b)
        for number in range(3):
            await a.append(b"%d" % number, union_registers={"last": str(number)})
        before = await head_of(there)
        await there.stop(b)
        await there.assign(a, c)
        response = await a.append(b"3", check_registers={"last": "2"})
        assert (response.status, response.commit.begin) == (pb.OK, 3)
        after = await head_of(there)
        assert after.term != before.term
        assert after.members == (str(a.id), str(c.id))
        assert (after.end, after.ended[0]) == (3, (before.term, 3))
        assert [one.fragment.end for one in a.completed] == [1, 3]

    tell(story, tmp_path)


def test_a_spool_that_was_away_does_not_bring_back_what_was_given_up(tmp_path: Path) -> None:
    """J1 with real brokers: B holds bytes that A and C went on without."""

    async def story(there: Cluster) -> None:
        a, b, c = [await there.broker(name) for name in "abc"]
        await there.create(spec(2))
        await there.assign(b, a)
        await b.append(b"base")
        # X is on B's disk; A is gone before it is on A's.
        a.replica._spool.flush = asyncio.Event().wait  # type: ignore[assignment,method-assign]
        lost = asyncio.create_task(b.append(b"XXXXXXXX"))
        await until(lambda: b.replica._spool.fragment.end == 12)
        await b.replica._spool.flush()
        await there.stop(a)
        await asyncio.wait([lost])
        assert lost.exception() is not None
        assert b.replica._spool.fragment.end == 12
        await there.stop(b)
        a = await there.broker("a")
        await there.assign(a, c)
        assert (await a.append(b"YY")).commit.begin == 4
        b = await there.broker("b")
        await there.assign(b, c)
        response = await b.append(b"Z")
        assert response.commit.begin == 6
        await until(lambda: c.shown == 7)
        assert c.read(4, 7) == b"YYZ"
        # Nor is any of it uploaded, as a part of what B had before it went.
        assert b"X" not in b"".join(one.read_at(one.fragment.begin, 100) for one in b.completed)

    tell(story, tmp_path)


@pytest.mark.parametrize("is_primary", [True, False])
def test_a_tail_that_one_disk_has_is_copied_to_who_comes_new(
    tmp_path: Path, is_primary: bool
) -> None:
    """J3 with real brokers: whoever has it may be the primary, or be asked for it."""
    tail = b"X" * 3_000_000

    async def story(there: Cluster) -> None:
        b, c = await there.broker("b"), await there.broker("c")
        a = await there.scripted("a")
        replica = ScriptedReplica(a)
        await there.create(spec(2))
        await there.assign(b, a)
        base = asyncio.create_task(b.append(b"base", union_registers={"last": "base"}))
        stream = await synced(replica)
        stream.agree(await stream.receive_proposal())
        await base
        chunks = [tail[:1_500_000], tail[1_500_000:]]
        lost = asyncio.create_task(b.append_chunks(chunks, union_registers={"last": "X"}))
        await stream.receive_proposal()  # and A is never heard of again
        await asyncio.wait([lost])
        assert lost.exception() is not None
        (b,) = await restarted(there, b)
        first, second = (b, c) if is_primary else (c, b)
        await there.assign(first, second)
        response = await first.append(b"Y", check_registers={"last": "X"})
        assert (response.status, response.commit.begin) == (pb.OK, 3_000_004)
        await until(lambda: c.shown == b.shown == 3_000_005)
        assert c.read(4, 3_000_005) == tail + b"Y"

    tell(story, tmp_path, timeout=1.0)


def test_without_a_member_of_the_head_only_reset_head_goes_on(tmp_path: Path) -> None:
    async def story(there: Cluster) -> None:
        a, b = await there.broker("a"), await there.broker("b")
        await there.create(spec(1))
        await there.assign(a)
        await a.append(b"base")
        await there.stop(a)
        await there.assign(b)
        refused = await b.append(b"x")
        assert refused.status == pb.INDEX_HAS_GREATER_OFFSET
        listed = b.replica.index
        # The store has what A had uploaded: the operator confirms its end.
        from windrow.journal.fragment import Fragment

        listed.replace_remote([Fragment(JOURNAL, 0, 4, bytes([1] * 20), backing_store="s3://x/")])
        wrong = await b.append(b"", offset=3, suspend=pb.AppendRequest.SUSPEND_KEEP)
        assert wrong.status == pb.WRONG_APPEND_OFFSET
        reset = await b.append(b"", offset=4, suspend=pb.AppendRequest.SUSPEND_KEEP)
        assert reset.status == pb.OK
        assert (await b.append(b"on")).commit.begin == 4
        # A comes back too late: it has nothing to say any more.
        a = await there.broker("a")
        await there.assign(b, a)
        await there.create(spec(2))
        assert (await b.append(b"!")).commit.begin == 6

    tell(story, tmp_path)


def test_a_broker_that_hands_over_uploads_the_rest_and_leaves_no_spool(tmp_path: Path) -> None:
    async def story(there: Cluster) -> None:
        a, b = await there.broker("a"), await there.broker("b")
        await there.create(spec(2))
        await there.assign(a, b)
        for content in (b"1", b"2", b"3"):
            await a.append(content)
        await until(lambda: b.shown == 3)
        await there.create(spec(1))
        await there.assign(b)
        await until(lambda: [one.fragment.end for one in a.completed] == [1, 3])
        await until(lambda: not list((tmp_path / "spools" / "a").rglob("*-0000000000000003.spool")))
        assert (await b.append(b"4")).commit.begin == 3

    tell(story, tmp_path)


def test_a_replica_that_comes_back_waits_until_the_one_before_it_has_ended(tmp_path: Path) -> None:
    """It would count with what the file holds now, and not know of what the other still takes."""

    async def story(there: Cluster) -> None:
        a, b = await there.broker("a"), await there.broker("b")
        await there.create(spec(2))
        await there.assign(b, a)
        for content in (b"1", b"2", b"3"):
            await b.append(content)
        before, resolver = a.replica, a.resolver
        pipeline = await before.pipeline.take()
        await there.assign(b)
        await there.assign(b, a)
        assert (await b.append(b"4")).commit.begin == 3  # by the stream of before
        before.pipeline.give(pipeline)
        assert resolver is not None
        await until(lambda: before.spool.is_awaited)
        await until(lambda: not before.spool.is_awaited and JOURNAL in resolver.replicas)
        with suppress(grpc.aio.AioRpcError):
            await b.append()  # finds the stream ended
        assert (await b.append(b"5")).commit.begin == 4
        assert b.read(0, 5) == b"12345"

    tell(story, tmp_path, timeout=0.5)


def test_a_broker_that_only_stops_leaves_its_spool_as_it_is(tmp_path: Path) -> None:
    async def story(there: Cluster) -> None:
        a = await there.broker("a")
        await there.create(spec(1))
        await there.assign(a)
        for content in (b"1", b"2", b"3"):
            await a.append(content)
        await a.replica.stop(hands_over=False)
        assert [one.fragment.end for one in a.completed] == [1]
        (a,) = await restarted(there, a)
        assert (await a.append(b"4")).commit.begin == 3

    tell(story, tmp_path)


def test_a_sync_that_fails_fails_the_replica_for_good(tmp_path: Path) -> None:
    """J4: what the disk has is unknown after it, and a second sync would only hide that."""

    async def story(there: Cluster) -> None:
        a = await there.broker("a")
        await there.create(spec(1))
        await there.assign(a)
        await a.append(b"1")
        a.replica._spool._group.failure = OSError("I/O error")
        for _ in range(2):
            failed = asyncio.create_task(a.append(b"2"))
            await asyncio.wait([failed])
            assert "I/O error" in str(failed.exception())
        assert a.shown == 1
        (a,) = await restarted(there, a)
        assert (await a.append(b"3")).commit.begin == 1

    tell(story, tmp_path)


def test_a_primary_that_is_one_no_more_lets_the_next_have_the_spools_at_once(
    tmp_path: Path,
) -> None:
    async def story(there: Cluster) -> None:
        a, b, c = [await there.broker(name) for name in "abc"]
        await there.create(spec(3))
        await there.assign(a, b, c)
        await a.append(b"1")
        assert a.api is not None
        assert a.resolver is not None
        pulse = asyncio.create_task(Pulse(a.api, a.resolver, a.replica).run())
        await there.assign(b, a, c)
        began = time.monotonic()
        assert (await b.append(b"2")).commit.begin == 1
        assert time.monotonic() - began < there.timeouts.stale_stream
        a.replica.ended.set()
        await pulse

    tell(story, tmp_path, timeout=10.0)


def test_memory_spools_are_completed_when_their_broker_stops(tmp_path: Path) -> None:
    """Nothing of them is there at the next start, so that it has to be uploaded now."""

    async def story(there: Cluster) -> None:
        a = await there.broker("a")
        await there.create(spec(1))
        await there.assign(a)
        for content in (b"1", b"2", b"3"):
            await a.append(content)
        await a.replica.stop(hands_over=False)
        assert [(one.fragment.begin, one.fragment.end) for one in a.completed] == [(0, 1), (1, 3)]
        assert a.completed[-1].read_at(1, 2) == b"23"

    tell(story, tmp_path, is_durable=False)
