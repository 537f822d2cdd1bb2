"""A broker as a process of its own: alone, in a cluster, killed, paused and asked to leave."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest

from tests.fixtures.services import start_service
from tests.integration.journal.conftest import EtcdPrefix
from tests.integration.journal.failing_disk import FailingBroker
from tests.integration.journal.stage import Caller, spec
from windrow.embedded.broker import Broker
from windrow.errors import StartFailed
from windrow.journal.wire import protocol_pb2 as pb
from windrow.journal.wire.protocol_pb2_grpc import JournalStub
from windrow.version import __version__

OWNED = pb.LabelSet(labels=[pb.Label(name="owner", value="us")])
QUICK = {"etcd-lease": "3s", "pulse-interval": "1s", "peer-timeout": "2s"}


def call(broker: Broker, story: Callable[[Caller], Coroutine[Any, Any, Any]]) -> Any:
    """Run a story with calls of a broker."""

    async def tell() -> Any:
        async with (
            asyncio.timeout(60),
            grpc.aio.insecure_channel(broker.address) as channel,
        ):
            return await story(Caller(JournalStub(channel)))

    return asyncio.run(tell())


@pytest.fixture
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    with start_service(request.config, "broker", Broker.start) as started:
        yield started


@pytest.fixture
def cluster(
    request: pytest.FixtureRequest, cluster_etcd: EtcdPrefix
) -> Iterator[dict[str, Broker]]:
    brokers: dict[str, Broker] = {}
    try:
        for name in ("broker-a", "broker-b", "broker-c"):
            brokers[name] = start_service(
                request.config,
                "broker",
                lambda name=name: Broker.start(  # type: ignore[misc]
                    etcd_url=cluster_etcd.url, prefix=cluster_etcd.prefix, id=name, flags=QUICK
                ),
            )
        yield brokers
    finally:
        for started in brokers.values():
            started.stop()


async def create(caller: Caller, replication: int = 1) -> None:
    assert (await caller.apply(spec(replication=replication))).status == pb.Status.OK
    await caller.appended(b"kept")


async def content(caller: Caller) -> bytes:
    return await caller.content()


def test_a_broker_alone_serves_appends_and_reads(broker: Broker) -> None:
    call(broker, create)
    assert call(broker, content) == b"kept"
    assert broker.version == __version__


def test_acknowledged_bytes_survive_kill_9_of_a_broker_alone(broker: Broker) -> None:
    call(broker, create)
    broker.kill()
    broker.restart()

    async def go_on(caller: Caller) -> bytes:
        assert (await caller.appended(b", and more")).commit.begin == 4
        return await caller.content()

    assert call(broker, go_on) == b"kept, and more"


def test_a_stopped_broker_keeps_everything_for_its_restart(broker: Broker) -> None:
    call(broker, create)
    broker.end()
    assert not broker.is_alive()
    broker.restart()

    async def read_back(caller: Caller) -> bytes:
        return await caller.content(end_offset=4, block=True)

    assert call(broker, read_back) == b"kept"


def test_a_paused_broker_answers_once_it_is_resumed(broker: Broker) -> None:
    call(broker, create)
    broker.pause()
    with pytest.raises(TimeoutError):
        asyncio.run(asyncio.wait_for(_names(broker), 0.5))
    broker.resume()
    assert asyncio.run(_names(broker)) == ["a/journal"]


async def _names(broker: Broker) -> list[str]:
    async with grpc.aio.insecure_channel(broker.address) as channel:
        return await Caller(JournalStub(channel)).names()


def test_the_second_signal_does_not_wait_for_calls(broker: Broker) -> None:
    call(broker, create)

    async def hold_on(caller: Caller) -> float:
        async def requests() -> Any:
            yield pb.AppendRequest(journal="a/journal")
            while True:
                yield pb.AppendRequest(content=b"x" * 65536)
                await asyncio.sleep(0.05)

        held = asyncio.ensure_future(caller.stub.Append(requests()))
        await asyncio.sleep(0.3)
        os.kill(broker.pid, signal.SIGTERM)
        await asyncio.sleep(0.5)
        assert broker.is_alive()
        assert not held.done()
        os.kill(broker.pid, signal.SIGTERM)
        began = time.monotonic()
        while broker.is_alive():  # noqa: ASYNC110 - a process sets no event
            await asyncio.sleep(0.01)
        with pytest.raises(grpc.aio.AioRpcError):
            await held
        return time.monotonic() - began

    assert call(broker, hold_on) < 5


def test_a_broker_that_cannot_start_says_why() -> None:
    with pytest.raises(StartFailed, match=r"cannot reach etcd at .*127\.0\.0\.1:1"):
        Broker.start(etcd_url="http://127.0.0.1:1")
    with pytest.raises(StartFailed, match="--spool is durable or memory"):
        Broker.start(flags={"spool": "tape"})


def test_acknowledged_bytes_survive_kill_9_of_every_broker(cluster: dict[str, Broker]) -> None:
    brokers = list(cluster.values())

    async def create_replicated(caller: Caller) -> None:
        await create(caller, 3)

    call(brokers[0], create_replicated)
    for one in brokers:
        one.kill()
    for one in brokers:
        one.restart()

    async def go_on(caller: Caller) -> bytes:
        assert (await caller.appended(b"!")).commit.begin == 4
        return await caller.content(end_offset=5, block=True)

    for one in brokers[:1]:
        assert call(one, go_on) == b"kept!"


def test_appends_go_on_after_kill_9_of_the_primary(cluster: dict[str, Broker]) -> None:
    async def create_and_find(caller: Caller) -> str:
        await create(caller, 2)
        [message] = await caller.journals()
        route = message.journals[0].route
        return route.members[route.primary].suffix

    primary = call(cluster["broker-a"], create_and_find)
    cluster[primary].kill()
    began = time.monotonic()
    other = next(broker for name, broker in cluster.items() if name != primary)

    async def go_on(caller: Caller) -> int:
        return (await caller.appended(b"!")).commit.begin

    assert call(other, go_on) == 4
    assert time.monotonic() - began < 15


def test_a_broker_that_is_asked_to_end_hands_its_journals_over(
    cluster: dict[str, Broker],
) -> None:
    async def create_all(caller: Caller) -> None:
        await caller.apply(*[spec(f"many/{n}", 2) for n in range(10)])
        for n in range(10):
            await caller.appended(b"kept", f"many/{n}")

    call(cluster["broker-b"], create_all)
    cluster["broker-a"].end()

    async def go_on(caller: Caller) -> list[int]:
        answers = [await caller.append(b"!", f"many/{n}") for n in range(10)]
        assert [answer.status for answer in answers] == [pb.Status.OK] * 10
        return [answer.commit.begin for answer in answers]

    assert call(cluster["broker-b"], go_on) == [4] * 10


def test_a_broker_whose_disk_fails_a_sync_ends_and_comes_back_with_what_the_disk_has(
    request: pytest.FixtureRequest,
) -> None:
    """J4: nobody knows what a failed sync has written, so nothing more is built on it."""

    async def before(caller: Caller) -> None:
        await caller.apply(spec())
        await caller.appended(b"kept")

    async def while_it_fails(caller: Caller) -> None:
        with pytest.raises(grpc.aio.AioRpcError):
            await caller.append(b"unknown")

    async def after(caller: Caller) -> bytes:
        await caller.appended(b"!")
        return await caller.content()

    with start_service(request.config, "broker", FailingBroker.start) as broker:
        call(broker, before)
        broker.fails.touch()
        call(broker, while_it_fails)
        assert broker.wait(30) == 1
        told = broker.log.read_text()
        assert "broker ends because a sync failed" in told
        assert "Input/output error; check the disk and restart the broker" in told
        broker.fails.unlink()
        broker.restart()
        assert call(broker, after) in (b"kept!", b"keptunknown!")


def test_a_killed_broker_comes_back_without_waiting_for_its_old_lease(
    request: pytest.FixtureRequest, cluster_etcd: EtcdPrefix
) -> None:
    """Whoever holds the data directory knows that the process before it is no more."""

    def start() -> Broker:
        return Broker.start(
            etcd_url=cluster_etcd.url,
            prefix=cluster_etcd.prefix,
            id="broker-a",
            flags={**QUICK, "etcd-lease": "600s"},
        )

    with start_service(request.config, "broker", start) as broker:
        call(broker, create)
        broker.kill()
        broker.restart()  # would time out
        assert call(broker, go_on_after_kill) == b"kept!"


async def go_on_after_kill(caller: Caller) -> bytes:
    assert (await caller.appended(b"!")).commit.begin == 4
    return await caller.content()


def test_all_brokers_asked_to_end_at_once_come_back_with_everything(
    cluster: dict[str, Broker],
) -> None:
    """Nobody is left to hand over to, so that each keeps what it has."""
    brokers = list(cluster.values())

    async def create_replicated(caller: Caller) -> None:
        await create(caller, 2)
        assert (await caller.append(b", registered", union_registers=OWNED)).commit.begin == 4

    call(brokers[0], create_replicated)
    began = time.monotonic()
    with ThreadPoolExecutor() as threads:
        list(threads.map(Broker.end, brokers))
    assert time.monotonic() - began < 30
    assert not any(broker.is_alive() for broker in brokers)
    with ThreadPoolExecutor() as threads:
        list(threads.map(Broker.restart, brokers))

    async def go_on(caller: Caller) -> bytes:
        answer = await caller.appended(b"!")
        assert (answer.commit.begin, answer.registers) == (16, OWNED)
        return await caller.content(end_offset=17, block=True)

    assert call(brokers[1], go_on) == b"kept, registered!"
