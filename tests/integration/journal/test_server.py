"""Brokers of a cluster, from their start to their leave."""

from __future__ import annotations

import asyncio
import resource
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest

from tests.integration.journal.conftest import EtcdPrefix
from tests.integration.journal.stage import Caller, Stage, play, spec, until
from windrow.coordination.store import Delete, Op, Put
from windrow.errors import Unreachable
from windrow.journal.broker import readiness
from windrow.journal.broker.home import DataDirInUse
from windrow.journal.broker.server import BrokerServer, LeaseLost
from windrow.journal.broker.settings import BrokerSettings, WrongBrokerSettings
from windrow.journal.fragments.stores import health
from windrow.journal.not_written import FailureKind
from windrow.journal.wire import protocol_pb2 as pb


async def route_of(caller: Caller, name: str = "a/journal") -> pb.Route:
    [journal] = [j for m in await caller.journals() for j in m.journals if j.spec.name == name]
    return journal.route


async def members_of(caller: Caller, name: str = "a/journal") -> list[str]:
    return [member.suffix for member in (await route_of(caller, name)).members]


async def wait_members(caller: Caller, *expected: str) -> None:
    async def is_so() -> bool:
        return await members_of(caller) == list(expected)

    await until(is_so)


def test_every_broker_of_a_cluster_appends_and_reads_a_replicated_journal(
    tmp_path: Path, cluster_etcd: EtcdPrefix
) -> None:
    async def story(there: Stage) -> None:
        callers = [(await there.broker(f"broker-{n}", zone=f"z{n}"))[1] for n in range(3)]
        await callers[0].apply(spec("repl/two", 2), spec("repl/three", 3))
        for journal in ("repl/two", "repl/three"):
            for number, caller in enumerate(callers):
                answer = await caller.appended(b"%d" % number, journal)
                assert answer.commit.begin == number
            for caller in callers:
                assert await caller.content(journal, end_offset=3, block=True) == b"012"

    play(tmp_path, story, cluster_etcd)


def test_a_journal_waits_until_it_has_enough_brokers(
    tmp_path: Path, cluster_etcd: EtcdPrefix
) -> None:
    async def story(there: Stage) -> None:
        _, first = await there.broker("broker-0")
        await first.apply(spec(replication=2))

        async def is_assigned() -> bool:
            return await members_of(first) == ["broker-0"]

        await until(is_assigned)
        assert (await first.append(b"x")).status == pb.Status.INSUFFICIENT_JOURNAL_BROKERS
        await there.broker("broker-1")
        assert (await first.appended(b"x")).commit.end == 1

    play(tmp_path, story, cluster_etcd)


def test_a_leaving_broker_hands_its_journals_over_before_it_ends(
    tmp_path: Path, cluster_etcd: EtcdPrefix
) -> None:
    async def story(there: Stage) -> None:
        leaving, of_leaving = await there.broker("broker-0")
        await of_leaving.apply(spec())
        await of_leaving.appended(b"before")
        _, staying = await there.broker("broker-1")
        await leaving.leave()
        assert await members_of(staying) == ["broker-1"]
        await leaving.stop()
        answer = await staying.append(b", after")
        assert (answer.status, answer.commit.begin) == (pb.Status.OK, 6)

    play(tmp_path, story, cluster_etcd)


def test_an_append_that_streams_while_its_broker_leaves_completes(
    tmp_path: Path, cluster_etcd: EtcdPrefix
) -> None:
    async def story(there: Stage) -> None:
        leaving, of_leaving = await there.broker("broker-0")
        await of_leaving.apply(spec())
        await of_leaving.appended(b"before")
        _, staying = await there.broker("broker-1")
        go_on = asyncio.Event()

        async def requests() -> AsyncIterator[pb.AppendRequest]:
            yield pb.AppendRequest(journal="a/journal")
            yield pb.AppendRequest(content=b"slow")
            await go_on.wait()
            yield pb.AppendRequest(content=b"ly")
            yield pb.AppendRequest()

        call = asyncio.ensure_future(of_leaving.stub.Append(requests()))
        await asyncio.sleep(0.1)
        leave = asyncio.create_task(leaving.leave())
        await asyncio.sleep(0.2)
        go_on.set()
        answer = await call
        assert (answer.status, answer.commit.begin, answer.commit.end) == (pb.Status.OK, 6, 12)
        await leave
        await leaving.stop()
        assert (await staying.appended(b"!")).commit.begin == 12

    play(tmp_path, story, cluster_etcd)


def test_the_primary_moves_with_the_route_and_appends_go_on_at_the_next_offset(
    tmp_path: Path, cluster_etcd: EtcdPrefix
) -> None:
    """A, B serve; A leaves; B, C serve. B had a replica only, and then may be the primary."""

    async def story(there: Stage) -> None:
        a, of_a = await there.broker("broker-a")
        _, of_b = await there.broker("broker-b")
        await of_a.apply(spec(replication=2))
        await of_a.appended(b"one")
        assert await members_of(of_a) == ["broker-a", "broker-b"]
        _, of_c = await there.broker("broker-c")
        await a.leave()
        assert await members_of(of_b) == ["broker-b", "broker-c"]
        await a.stop()
        for caller in (of_b, of_c):
            await caller.appended(b"two")
        for caller in (of_b, of_c):
            assert await caller.content(offset=3, end_offset=9, block=True) == b"twotwo"

    play(tmp_path, story, cluster_etcd)


def test_a_primary_that_becomes_a_replica_lets_go_of_its_spool(
    tmp_path: Path, cluster_etcd: EtcdPrefix
) -> None:
    """Its idle pipeline owns the spool, and the new primary cannot replicate to it before."""

    async def story(there: Stage) -> None:
        first, of_first = await there.broker("broker-a")
        _, of_second = await there.broker("broker-b")
        await of_first.apply(spec(replication=2))
        await of_first.appended(b"one")
        for _ in range(3):
            await swap_slots(first)
            answer = await of_second.appended(b"two")
            assert answer.status == pb.Status.OK
        assert await of_first.content(end_offset=12, block=True) == b"onetwotwotwo"

    async def swap_slots(server: BrokerServer) -> None:
        kvs = server.mirror.prefixed(server.keys.assignments_of("a/journal"))
        ops: list[Op] = []
        for kv in kvs:
            _, member, slot = server.keys.parse_assignment(kv.key)
            other = server.keys.assignment("a/journal", member, 1 - slot)
            ops += [Delete(kv.key), Put(other, kv.value, lease=kv.lease)]
        result = await server.store.txn((), ops)
        await server.assembly.resolver.wait_revision(result.revision)

    play(tmp_path, story, cluster_etcd)


def test_a_broker_that_is_gone_without_leaving_is_replaced(
    tmp_path: Path, cluster_etcd: EtcdPrefix
) -> None:
    async def story(there: Stage) -> None:
        servers = {}
        callers = {}
        for name in ("broker-a", "broker-b", "broker-c"):
            servers[name], callers[name] = await there.broker(name)
        await callers["broker-a"].apply(spec(replication=2))
        await callers["broker-a"].appended(b"one")
        route = await route_of(callers["broker-a"])
        primary = route.members[route.primary].suffix
        staying = next(caller for name, caller in callers.items() if name != primary)
        await servers[primary].stop(grace=0.0)
        answer = await staying.appended(b"two")
        assert answer.commit.begin == 3
        assert await staying.content(end_offset=6, block=True) == b"onetwo"

    play(tmp_path, story, cluster_etcd)


def test_acknowledged_bytes_and_registers_outlive_a_stop_of_all_brokers(
    tmp_path: Path, cluster_etcd: EtcdPrefix
) -> None:
    async def story(there: Stage) -> None:
        servers = [(await there.broker(f"broker-{n}"))[0] for n in range(2)]
        caller = await there.caller(servers[0])
        await caller.apply(spec(replication=2))
        await caller.appended(b"kept")
        owned = pb.LabelSet(labels=[pb.Label(name="owner", value="me")])
        assert (await caller.append(b"!", union_registers=owned)).status == pb.Status.OK
        for server in servers:
            await server.stop(grace=0.0)
        again = [(await there.broker(f"broker-{n}"))[1] for n in range(2)]
        await again[0].appended(b"?")
        assert await again[1].content(end_offset=6, block=True) == b"kept!?"
        check = pb.LabelSelector(
            include=pb.LabelSet(labels=[pb.Label(name="owner", value="another")])
        )
        refused = await again[0].append(b"x", check_registers=check)
        assert refused.status == pb.Status.REGISTER_MISMATCH
        assert refused.registers == owned

    play(tmp_path, story, cluster_etcd)


def test_a_deleted_and_recreated_journal_begins_anew(
    tmp_path: Path, cluster_etcd: EtcdPrefix
) -> None:
    async def story(there: Stage) -> None:
        _, caller = await there.broker()
        await caller.apply(spec())
        await caller.appended(b"old")
        delete = pb.ApplyRequest.Change(delete="a/journal", expect_mod_revision=-1)
        await caller.stub.Apply(pb.ApplyRequest(changes=[delete]))
        assert (await caller.append(b"x")).status == pb.Status.JOURNAL_NOT_FOUND
        await caller.apply(spec())
        assert (await caller.appended(b"new")).commit.begin == 0
        assert await caller.content() == b"new"

    play(tmp_path, story, cluster_etcd)


def test_a_broker_whose_lease_is_lost_gives_up(tmp_path: Path, cluster_etcd: EtcdPrefix) -> None:
    async def story(there: Stage) -> None:
        server, _ = await there.broker()
        watching = asyncio.ensure_future(server.wait_failed())
        server.lease.lost.set()
        with pytest.raises(LeaseLost, match="could not renew its lease for 10 s"):
            await watching

    play(tmp_path, story, cluster_etcd)


def test_a_broker_keeps_the_name_it_once_had_in_its_directory(tmp_path: Path) -> None:
    async def story(there: Stage) -> None:
        first = BrokerServer(BrokerSettings(data_dir=tmp_path / "home", embedded=True))
        await first.start()
        await first.stop(grace=0.0)
        again = BrokerServer(BrokerSettings(data_dir=tmp_path / "home", embedded=True))
        await again.start()
        await again.stop(grace=0.0)
        assert first.id == again.id

    play(tmp_path, story)


def test_two_brokers_cannot_share_a_directory_or_a_port(tmp_path: Path) -> None:
    async def story(there: Stage) -> None:
        server, _ = await there.broker("one-broker")
        with pytest.raises(DataDirInUse, match="another broker runs on"):
            await there.broker("one-broker")
        with pytest.raises(Unreachable, match="address to listen on"):
            await there.broker("another", port=server.port)
        await there.broker("another")  # it has left nothing behind

    play(tmp_path, story)


@pytest.mark.parametrize("gateway", ["off", "shared"])
def test_a_broker_serves_with_and_without_http_on_its_port(tmp_path: Path, gateway: str) -> None:
    async def story(there: Stage) -> None:
        _, caller = await there.broker(gateway=gateway)
        await caller.apply(spec())
        await caller.appended(b"abc")
        assert await caller.content() == b"abc"

    play(tmp_path, story)


def test_memory_spools_work_and_forget(tmp_path: Path) -> None:
    async def story(there: Stage) -> None:
        server, caller = await there.broker(spool="memory")
        await caller.apply(spec())
        await caller.appended(b"abc")
        assert await caller.content() == b"abc"
        await server.stop(grace=0.0)
        _, again = await there.broker(spool="memory")
        assert (await again.appended(b"new")).commit.begin == 0

    play(tmp_path, story)


def test_an_unreachable_etcd_is_named(tmp_path: Path) -> None:
    settings = BrokerSettings(
        data_dir=tmp_path / "home", id="broker", etcd_address="http://127.0.0.1:1"
    )

    async def start() -> None:
        await BrokerServer(settings).start()

    with pytest.raises(Unreachable, match=r"127\.0\.0\.1:1"):
        asyncio.run(start())


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"embedded": True, "etcd_address": "http://x:1"}, "either --embedded or --etcd-address"),
        ({}, "either --embedded or --etcd-address"),
        ({"embedded": True, "spool": "tape"}, "--spool is durable or memory, not 'tape'"),
        ({"embedded": True, "gateway": "on"}, "--gateway is off or shared, not 'on'"),
        ({"embedded": True, "limit": -1}, "--limit must be 0 to"),
        ({"embedded": True, "file_only": True}, "--file-only needs --file-root"),
        ({"embedded": True, "pulse_interval": 0.0}, "--pulse-interval must be longer"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(
    tmp_path: Path, wrong: dict[str, object], message: str
) -> None:
    with pytest.raises(WrongBrokerSettings, match=message):
        BrokerSettings(data_dir=tmp_path, **wrong)  # type: ignore[arg-type]


async def refused(caller: Caller, content: bytes = b"x") -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await caller.append(content)
    return raised.value


def test_an_append_that_comes_while_the_broker_ends_is_told_that_it_was_not_begun(
    tmp_path: Path,
) -> None:
    """Another append is still under way; without the word, the second could have been written."""

    async def story(there: Stage) -> None:
        server, caller = await there.broker()
        await caller.apply(spec())
        await caller.appended(b"abc")
        begun, go_on = asyncio.Event(), asyncio.Event()

        async def requests() -> AsyncIterator[pb.AppendRequest]:
            yield pb.AppendRequest(journal="a/journal")
            yield pb.AppendRequest(content=b"def")
            begun.set()
            await go_on.wait()
            yield pb.AppendRequest()

        call = asyncio.ensure_future(caller.stub.Append(requests()))
        await begun.wait()
        await until(lambda: is_appending(server))
        stopping = asyncio.create_task(server.stop(grace=10.0))
        error = await until(lambda: refusal(caller))
        assert error.code() is grpc.StatusCode.UNAVAILABLE
        assert FailureKind.of(error.trailing_metadata()) is FailureKind.PASSING
        go_on.set()
        assert (await call).commit.end == 6
        await stopping

    async def is_appending(server: BrokerServer) -> bool:
        return server.assembly.service._appends > 0

    async def refusal(caller: Caller) -> grpc.aio.AioRpcError | None:
        asking = asyncio.ensure_future(refused(caller))
        done, _ = await asyncio.wait([asking], timeout=1.0)
        return asking.result() if done else None

    play(tmp_path, story)


def test_an_append_for_which_there_is_no_room_is_told_that_nothing_was_written(
    tmp_path: Path, cluster_etcd: EtcdPrefix
) -> None:
    """By the primary, and by a broker that hands the append to it."""

    async def story(there: Stage) -> None:
        _, primary = await there.broker("broker-a")
        await primary.apply(spec())
        await primary.appended(b"1")
        _, other = await there.broker("broker-b")
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, hard))
            for caller in (primary, other):
                error = await refused(caller, b"x" * 250_000)
                assert "cannot write its spool" in (error.details() or "")
                assert FailureKind.of(error.trailing_metadata()) is FailureKind.PASSING
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            signal.signal(signal.SIGXFSZ, ignored)
        assert (await other.append(b"2")).commit.begin == 1

    play(tmp_path, story, cluster_etcd)


def test_calls_under_way_are_cut_when_the_grace_has_passed(tmp_path: Path) -> None:
    async def story(there: Stage) -> None:
        server, caller = await there.broker()
        await caller.apply(spec())
        await caller.appended(b"abc")
        begun = asyncio.Event()

        async def requests() -> AsyncIterator[pb.AppendRequest]:
            yield pb.AppendRequest(journal="a/journal")
            begun.set()
            await asyncio.sleep(60)

        call = asyncio.ensure_future(caller.stub.Append(requests()))
        await begun.wait()
        await asyncio.sleep(0.05)
        async with asyncio.timeout(10):
            await server.stop(grace=0.3)
        with pytest.raises(grpc.aio.AioRpcError):
            await call

    play(tmp_path, story)


def test_the_head_of_a_journal_that_was_deleted_behind_our_back_goes_too(
    tmp_path: Path, cluster_etcd: EtcdPrefix
) -> None:
    """By a tool that knows nothing of heads, or with so many that their heads did not fit."""

    async def story(there: Stage) -> None:
        server, caller = await there.broker()
        await caller.apply(spec())
        await caller.appended(b"old")
        assert server.mirror.get(server.keys.head("a/journal")) is not None
        await server.store.txn((), [Delete(server.keys.item("a/journal"))])

        async def is_gone() -> bool:
            return server.mirror.get(server.keys.head("a/journal")) is None

        await until(is_gone)

    play(tmp_path, story, cluster_etcd)


def test_file_only_takes_every_store_for_a_directory(tmp_path: Path) -> None:
    async def story(there: Stage) -> None:
        (there.files / "of").mkdir()
        _, caller = await there.broker(file_only=True)
        await caller.apply(spec(stores=["s3://bucket/of/"], flags=0))
        await caller.appended(b"one")
        await caller.appended(b"two")  # rolls the first

        async def is_stored() -> bool:
            return len(list((there.files / "of" / "a/journal").glob("*.raw"))) == 1

        await until(is_stored)

    play(tmp_path, story)


def test_a_reader_that_takes_nothing_does_not_keep_a_broker_from_ending(tmp_path: Path) -> None:
    async def story(there: Stage) -> None:
        server, caller = await there.broker()
        await caller.apply(spec(length=1 << 30))
        await caller.appended(b"warm up")
        for _ in range(8):
            await caller.append([bytes(1 << 20)] * 4)
        call = caller.stub.Read(pb.ReadRequest(journal="a/journal", block=True))
        await call.read()  # and no more of 32 MiB
        await asyncio.sleep(0.2)
        async with asyncio.timeout(10):
            await server.stop(grace=0.5)
        call.cancel()

    play(tmp_path, story)


def test_an_assignment_keeps_its_lease_when_the_route_is_written_to_it(
    tmp_path: Path, cluster_etcd: EtcdPrefix
) -> None:
    """Or it would stand for ever when its broker is gone."""

    async def story(there: Stage) -> None:
        server, caller = await there.broker()
        await caller.apply(spec())
        await caller.appended(b"x")
        [kv] = server.mirror.prefixed(server.keys.assignments_of("a/journal"))
        assert kv.value != b""
        assert kv.lease == server.lease.id

    play(tmp_path, story, cluster_etcd)


def test_appends_are_refused_while_their_store_is_not_there_and_go_on_once_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readiness, "LISTING_PATIENCE", 0.2)
    monkeypatch.setattr(health, "RETRY_DELAYS", (0.05,))

    async def story(there: Stage) -> None:
        _, caller = await there.broker()
        await caller.apply(spec(stores=["file:///store/"], refresh_interval={"seconds": 1}))

        async def sick() -> pb.AppendResponse | None:
            answer = await caller.append(b"x")
            return answer if answer.status == pb.Status.FRAGMENT_STORE_UNHEALTHY else None

        answer = await until(sick)
        assert "does not exist" in answer.store_health_error
        (there.files / "store").mkdir()
        assert (await caller.appended(b"y")).commit.begin == 0
        assert await caller.content() == b"y"

    play(tmp_path, story)
