"""Appends that wait: what becomes of them when their client goes, their route or their store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.integration.journal.broker.cluster import JOURNAL, Broker, Cluster, spec, tell, until
from tests.integration.journal.broker.scripted import ScriptedReplica
from windrow.journal.broker import readiness
from windrow.journal.wire import protocol_pb2 as pb

FAR_FUTURE = 1 << 40


async def until_gone(broker: Broker) -> None:
    """Until no append is under way at a broker."""
    assert broker.api is not None
    runs = broker.api._runs
    await until(lambda: not runs)


async def at_pipeline(a: Broker) -> tuple[dict[str, Any], Callable[[], object]]:
    pipeline = a.replica.pipeline.take_now()
    return {}, lambda: a.replica.pipeline.give(pipeline)


async def at_spool(a: Broker) -> tuple[dict[str, Any], Callable[[], object]]:
    spool = a.replica.spool.take_now()
    return {}, lambda: a.replica.spool.give(spool)


async def at_index(a: Broker) -> tuple[dict[str, Any], Callable[[], object]]:
    return {}, lambda: a.replica.index.replace_remote(())


async def at_revision(a: Broker) -> tuple[dict[str, Any], Callable[[], object]]:
    a.replica.index.replace_remote(())
    return {"min_etcd_revision": FAR_FUTURE}, lambda: None


Hold = Callable[[Broker], Awaitable[tuple[dict[str, Any], Callable[[], object]]]]


@pytest.mark.parametrize("hold", [at_pipeline, at_spool, at_index, at_revision])
def test_an_append_whose_client_goes_while_it_waits_ends_and_leaves_all_in_order(
    tmp_path: Path, hold: Hold
) -> None:
    async def story(there: Cluster) -> None:
        a = await there.broker("a")
        await there.create(spec(1))
        await there.assign(a)
        conditions, release = await hold(a)
        waiting = asyncio.create_task(a.append(b"never", **conditions))
        assert a.api is not None
        runs = a.api._runs
        await until(lambda: bool(runs))
        await asyncio.sleep(0.1)  # for it to come to where it waits
        assert not waiting.done()
        waiting.cancel()
        await until_gone(a)
        release()
        a.replica.index.replace_remote(())
        response = await a.append(b"next")
        assert (response.status, response.commit.begin) == (pb.OK, 0)

    tell(story, tmp_path, is_listed=False)


@pytest.mark.parametrize("hold", [at_spool, at_index])
def test_an_append_whose_route_changes_while_it_waits_goes_by_the_new_one(
    tmp_path: Path, hold: Hold
) -> None:
    """To another primary, though what it waited for has not come about yet."""

    async def story(there: Cluster) -> None:
        a, b = await there.broker("a"), await there.broker("b")
        await there.create(spec(1))
        await there.assign(a)
        await hold(a)
        assert a.api is not None
        runs = a.api._runs
        waiting = asyncio.create_task(a.append(b"here"))
        await until(lambda: bool(runs))
        await asyncio.sleep(0.1)  # for it to come to where it waits
        before = a.replica
        await there.assign(b)
        b.replica.index.replace_remote(())
        assert before.ended.is_set()
        response = await waiting
        assert response.header.process_id.suffix == "broker-b"
        assert before.pipeline.peek() is None

    tell(story, tmp_path, is_listed=False, is_durable=False)


def test_an_append_that_finds_another_primary_gives_the_pipeline_back_and_is_passed_on(
    tmp_path: Path,
) -> None:
    """The route changes while its members synchronise, so that advertising it comes too late."""

    async def story(there: Cluster) -> None:
        a, b = await there.broker("a"), await there.scripted("b")
        replica, passed = ScriptedReplica(b), asyncio.Queue[pb.AppendRequest]()

        async def append(requests: Any, _: object) -> pb.AppendResponse:
            passed.put_nowait(await anext(requests))
            return pb.AppendResponse(status=pb.OK)

        b.servicer.append = append
        await there.create(spec(2))
        await there.assign(a, b)
        waiting = asyncio.create_task(a.append(b"x"))
        stream = await replica.stream()
        sync = await stream.receive()
        await there.assign(b, a)
        stream.agree(sync)
        assert (await waiting).status == pb.OK
        request = passed.get_nowait()
        assert request.header.process_id.suffix == "broker-b"
        assert request.journal == JOURNAL
        stream.close()
        await until(lambda: a.replica.pipeline.is_here and a.replica.spool.is_here)

    tell(story, tmp_path, timeout=1.0)


def test_an_append_passed_on_and_queued_is_served_by_whoever_is_primary_next(
    tmp_path: Path,
) -> None:
    """C hands it to A, where it waits; A is primary no more, and hands it to B."""

    async def story(there: Cluster) -> None:
        a, b, c = [await there.broker(name) for name in "abc"]
        await there.create(spec(2))
        await there.assign(a, b)
        await a.append(b"before")
        pipeline = a.replica.pipeline.take_now()
        queued = asyncio.create_task(c.append(b"queued"))
        await until(lambda: len(a.replica.waiting) == 1)
        await there.assign(b, a)
        assert pipeline is not None
        await pipeline.close()
        a.replica.pipeline.give(None)
        response = await queued
        assert (response.status, response.commit.begin, response.commit.end) == (pb.OK, 6, 12)
        assert response.header.process_id.suffix == "broker-b"

    tell(story, tmp_path)


class Health:
    """A store of which a test says how it is."""

    def __init__(self) -> None:
        self.problem: asyncio.Future[str | None] | None = None
        self.asked = asyncio.Event()

    def is_healthy(self, store: str) -> bool:
        return False

    async def check(self, store: str) -> str | None:
        self.asked.set()
        return None if self.problem is None else await self.problem


def test_an_append_waits_for_its_store_to_be_known_and_is_refused_if_it_is_sick(
    tmp_path: Path,
) -> None:
    health = Health()

    async def story(there: Cluster) -> None:
        a = await there.broker("a")
        await there.create(spec(1, stores=("file:///store/",)))
        await there.assign(a)
        health.problem = asyncio.get_running_loop().create_future()
        waiting = asyncio.create_task(a.append(b"x"))
        await health.asked.wait()
        assert not waiting.done()
        health.problem.set_result("no such bucket")
        response = await waiting
        assert response.status == pb.FRAGMENT_STORE_UNHEALTHY
        assert response.store_health_error == "no such bucket"
        health.problem = None
        response = await a.append(b"y")
        assert (response.status, response.commit.begin) == (pb.OK, 0)

    tell(story, tmp_path, services={"store_health": health})


def test_an_append_to_a_store_that_was_never_there_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a store is never listed either, and that alone would let the append wait for ever."""
    monkeypatch.setattr(readiness, "LISTING_PATIENCE", 0.1)
    health = Health()

    async def story(there: Cluster) -> None:
        a = await there.broker("a")
        await there.create(spec(1, stores=("file:///store/",)))
        await there.assign(a)
        health.problem = asyncio.get_running_loop().create_future()
        health.problem.set_result("no such bucket")
        async with asyncio.timeout(5):
            response = await a.append(b"x")
        assert response.status == pb.FRAGMENT_STORE_UNHEALTHY
        # One that is well, and not listed yet, is waited for.
        health.problem = None
        waiting = asyncio.create_task(a.append(b"y"))
        await asyncio.sleep(0.3)
        assert not waiting.done()
        a.replica.index.replace_remote(())
        assert (await waiting).status == pb.OK

    tell(story, tmp_path, services={"store_health": health}, is_listed=False)


def test_an_append_that_fails_by_itself_is_told_that_and_not_what_failed_after_it(
    tmp_path: Path,
) -> None:
    """Its client gave it up; that the replica then fails to drop it is no news to the client."""

    async def story(there: Cluster) -> None:
        a, b = await there.broker("a"), await there.scripted("b")
        replica = ScriptedReplica(b)
        await there.create(spec(2))
        await there.assign(a, b)
        call = a.connections.stub(a.endpoint).Append()
        await call.write(pb.AppendRequest(journal=JOURNAL))
        await call.write(pb.AppendRequest(content=b"x" * 300_000))
        await call.done_writing()
        stream = await replica.stream()
        stream.agree(await stream.receive())
        await stream.receive_proposal()
        stream.fail("disk on fire")
        with pytest.raises(grpc.aio.AioRpcError, match="unexpected EOF") as told:
            await call
        assert "disk on fire" not in (told.value.details() or "")
        with suppress(grpc.aio.AioRpcError):
            call.cancel()

    tell(story, tmp_path, timeout=1.0)
