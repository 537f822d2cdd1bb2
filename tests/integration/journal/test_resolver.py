"""The resolver against a real etcd: what it answers, and which replicas it keeps."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from tests.integration.journal.conftest import EtcdPrefix
from windrow.coordination.etcd import EtcdStore
from windrow.coordination.mirror import Mirror
from windrow.coordination.store import Delete, Op, Put
from windrow.journal.broker.decoders import decoders
from windrow.journal.broker.resolution import JournalView, WrongCluster, WrongProcess
from windrow.journal.broker.resolver import Resolved, Resolver
from windrow.journal.broker.tokens import Capability, Claims, current_claims
from windrow.journal.codec import Codec
from windrow.journal.keys import Keys
from windrow.journal.labels import EMPTY, Label, LabelSelector, LabelSet
from windrow.journal.messages import encode_broker_spec, encode_spec
from windrow.journal.spec import (
    BrokerSpec,
    FragmentSpec,
    Header,
    JournalSpec,
    ProcessId,
    Route,
)
from windrow.journal.status import Status

US, PEER = ProcessId("a", "us-1"), ProcessId("b", "peer")
SPEC = JournalSpec(
    "a/journal", replication=2, fragment=FragmentSpec(1024, Codec.NONE, (), refresh_interval=60.0)
)


@dataclass
class Held:
    """Stands for a replica: only who holds it, and when it began, matters here."""

    journal: str
    renewed: int = 0
    ended: bool = False


@dataclass
class Keeper:
    began: list[Held] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)

    def begin(self, view: JournalView, invalidated: asyncio.Event) -> Any:
        self.began.append(Held(view.journal))
        return self.began[-1]

    def renew(self, replica: Any, view: JournalView, invalidated: asyncio.Event) -> None:
        replica.renewed += 1

    def end(self, replica: Any) -> asyncio.Future[None]:
        replica.ended = True
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        ended.set_result(None)
        return ended

    def on_members_gone(self, endpoints: Collection[str]) -> None:
        self.gone += list(endpoints)


@dataclass
class Cluster:
    store: EtcdStore
    keys: Keys
    resolver: Resolver
    keeper: Keeper

    async def change(self, *ops: Op) -> int:
        result = await self.store.txn((), ops)
        await self.resolver.wait_revision(result.revision)
        return result.revision

    def put_spec(self, spec: JournalSpec = SPEC) -> Put:
        return Put(self.keys.item(spec.name), encode_spec(spec))

    def put_member(self, process: ProcessId) -> Put:
        spec = BrokerSpec(process, f"http://{process.suffix}.test:80", 10)
        return Put(self.keys.member(process), encode_broker_spec(spec))

    def assign(self, process: ProcessId, slot: int, value: bytes = b"") -> Put:
        return Put(self.keys.assignment(SPEC.name, process, slot), value)

    def unassign(self, process: ProcessId, slot: int) -> Delete:
        return Delete(self.keys.assignment(SPEC.name, process, slot))

    async def resolve(
        self, *, require_primary: bool = False, may_proxy: bool = True, **more: Any
    ) -> Resolved:
        return await self.resolver.resolve(
            SPEC.name, require_primary=require_primary, may_proxy=may_proxy, **more
        )


@asynccontextmanager
async def cluster(cluster_etcd: EtcdPrefix, watch_delay: float) -> AsyncIterator[Cluster]:
    store, keys, keeper = EtcdStore(cluster_etcd.url), Keys(cluster_etcd.prefix), Keeper()
    mirror = Mirror(store, keys.prefix + "/", watch_delay=watch_delay, decoders=decoders(keys))
    resolver = Resolver(mirror, keys, US, store.header, keeper)
    await mirror.start()
    try:
        yield Cluster(store, keys, resolver, keeper)
    finally:
        await mirror.stop()
        await store.close()


def run(cluster_etcd: EtcdPrefix, story: Any, watch_delay: float = 0.005) -> None:
    async def tell() -> None:
        async with cluster(cluster_etcd, watch_delay) as there:
            async with asyncio.timeout(20):
                await story(there)

    asyncio.run(tell())


def test_status_follows_the_keys_from_nothing_to_a_full_route(cluster_etcd: EtcdPrefix) -> None:
    async def story(there: Cluster) -> None:
        await there.change(there.put_member(US), there.put_member(PEER))
        found = await there.resolve()
        assert (found.status, found.header.process_id) == (Status.JOURNAL_NOT_FOUND, US)
        assert found.route == Route.NONE
        await there.change(there.put_spec())
        assert (await there.resolve()).status is Status.INSUFFICIENT_JOURNAL_BROKERS
        found = await there.resolve(require_primary=True)
        assert found.status is Status.NO_JOURNAL_PRIMARY_BROKER
        await there.change(there.assign(PEER, 0), there.assign(US, 1))
        found = await there.resolve(require_primary=True)
        assert (found.status, found.header.process_id) == (Status.OK, PEER)
        assert found.route == Route((US, PEER), 1, ("http://us-1.test:80", "http://peer.test:80"))
        assert not found.is_local_primary
        found = await there.resolve(require_primary=True, may_proxy=False)
        assert found.status is Status.NOT_JOURNAL_PRIMARY_BROKER
        found = await there.resolve(may_proxy=False)
        assert (found.status, found.header.process_id) == (Status.OK, US)
        assert found.replica is not None
        assert found.desired_replicas == 2
        assert [kv.key for kv in found.assignments] == [
            there.keys.assignment(SPEC.name, US, 1),
            there.keys.assignment(SPEC.name, PEER, 0),
        ]

    run(cluster_etcd, story)


def test_a_member_whose_key_is_gone_is_still_proxied_to(cluster_etcd: EtcdPrefix) -> None:
    async def story(there: Cluster) -> None:
        await there.change(there.put_member(US), there.put_spec(), there.assign(PEER, 0))
        found = await there.resolve(require_primary=True)
        assert (found.status, found.header.process_id) == (Status.OK, PEER)
        assert found.route.endpoints == ("",)

    run(cluster_etcd, story)


def test_a_broker_that_came_back_is_another_process(cluster_etcd: EtcdPrefix) -> None:
    """Connections to the old one would keep failing for a while, though the new one is there."""

    async def story(there: Cluster) -> None:
        await there.change(there.put_member(US), there.put_member(PEER))
        assert there.keeper.gone == []
        await there.change(Delete(there.keys.member(PEER)))
        await there.change(there.put_member(PEER))
        assert there.keeper.gone == ["http://peer.test:80"]

    run(cluster_etcd, story)


def test_a_replica_is_kept_across_route_changes_and_ended_with_its_assignment(
    cluster_etcd: EtcdPrefix,
) -> None:
    async def story(there: Cluster) -> None:
        await there.change(there.put_member(US), there.put_spec(), there.assign(US, 0))
        [held] = there.keeper.began
        before = await there.resolve()
        await there.change(there.put_member(PEER), there.assign(PEER, 1))
        assert before.invalidated.is_set()
        assert there.keeper.began == [held]
        assert held.renewed == 1
        after = await there.resolve()
        assert not after.invalidated.is_set()
        assert after.replica is before.replica
        await there.change(there.unassign(US, 0))
        assert held.ended
        assert (await there.resolve()).replica is None

    run(cluster_etcd, story)


def test_an_assignment_value_that_is_rewritten_invalidates_nothing(
    cluster_etcd: EtcdPrefix,
) -> None:
    async def story(there: Cluster) -> None:
        await there.change(there.put_member(US), there.put_spec(), there.assign(US, 0))
        before = await there.resolve()
        await there.change(there.assign(US, 0, b"\x0a\x09\x0a\x01a\x12\x04us-1"))
        assert not before.invalidated.is_set()
        assert (await there.resolve()).assignments[0].value != b""

    run(cluster_etcd, story)


def test_a_journal_deleted_and_created_again_gets_another_replica(cluster_etcd: EtcdPrefix) -> None:
    async def story(there: Cluster) -> None:
        await there.change(there.put_member(US), there.put_spec(), there.assign(US, 0))
        before = await there.resolve()
        await there.change(Delete(there.keys.item(SPEC.name)))
        assert there.keeper.began[0].ended
        await there.change(there.put_spec())
        assert len(there.keeper.began) == 2
        assert before.invalidated.is_set()

    run(cluster_etcd, story)


def test_both_within_one_batch_rebuild_the_replica_too(cluster_etcd: EtcdPrefix) -> None:
    async def story(there: Cluster) -> None:
        await there.change(there.put_member(US), there.put_spec(), there.assign(US, 0))
        await there.store.txn((), [Delete(there.keys.item(SPEC.name))])
        await there.change(there.put_spec())
        assert [held.ended for held in there.keeper.began] == [True, False]

    run(cluster_etcd, story, watch_delay=0.3)


def test_other_stores_invalidate_and_other_lengths_do_not(cluster_etcd: EtcdPrefix) -> None:
    async def story(there: Cluster) -> None:
        await there.change(there.put_member(US), there.put_spec(), there.assign(US, 0))
        before = await there.resolve()
        longer = replace(SPEC, fragment=replace(SPEC.fragment, length=2048))
        await there.change(there.put_spec(longer))
        assert not before.invalidated.is_set()
        found = await there.resolve()
        assert found.journal_spec is not None
        assert found.journal_spec.fragment.length == 2048
        stored = replace(SPEC, fragment=replace(SPEC.fragment, stores=("s3://bucket/",)))
        await there.change(there.put_spec(stored))
        assert before.invalidated.is_set()

    run(cluster_etcd, story)


def test_a_future_revision_is_waited_for(cluster_etcd: EtcdPrefix) -> None:
    async def story(there: Cluster) -> None:
        revision = await there.change(there.put_member(US))
        asked = asyncio.create_task(there.resolve(min_revision=revision + 1))
        done, _ = await asyncio.wait({asked}, timeout=0.1)
        assert not done
        await there.change(there.put_spec())
        assert (await asked).status is Status.INSUFFICIENT_JOURNAL_BROKERS

    run(cluster_etcd, story)


def test_a_header_of_another_cluster_or_process_is_refused(cluster_etcd: EtcdPrefix) -> None:
    async def story(there: Cluster) -> None:
        await there.change(there.put_member(US))
        ours = there.resolver.etcd_header()
        foreign = Header(US, Route.NONE, replace(ours, cluster_id=ours.cluster_id + 1))
        with pytest.raises(WrongCluster):
            await there.resolve(header=foreign)
        with pytest.raises(WrongProcess):
            await there.resolve(header=Header(PEER, Route.NONE, ours))
        found = await there.resolve(header=Header(US, Route.NONE, ours))
        assert found.status is Status.JOURNAL_NOT_FOUND

    run(cluster_etcd, story)


def test_a_journal_outside_the_callers_selector_looks_as_if_it_did_not_exist(
    cluster_etcd: EtcdPrefix,
) -> None:
    async def story(there: Cluster) -> None:
        await there.change(there.put_member(US), there.put_spec(), there.assign(US, 0))
        only = LabelSelector(LabelSet((Label("name", "other/", prefix=True),)), EMPTY)
        current_claims.set(Claims(Capability.READ, only))
        found = await there.resolve()
        assert (found.status, found.route) == (Status.JOURNAL_NOT_FOUND, Route.NONE)
        assert found.replica is None
        mine = LabelSelector(LabelSet((Label("name", "a/", prefix=True),)), EMPTY)
        current_claims.set(Claims(Capability.READ, mine))
        assert (await there.resolve()).status is Status.OK

    run(cluster_etcd, story)


def test_the_revision_of_a_header_is_waited_for_as_well(cluster_etcd: EtcdPrefix) -> None:
    """Whoever passes a request on knows of a route that we may not have seen yet."""

    async def story(there: Cluster) -> None:
        await there.change(there.put_member(US))
        ours = there.resolver.etcd_header()
        header = Header(US, Route.NONE, replace(ours, revision=ours.revision + 1))
        asked = asyncio.create_task(there.resolve(header=header))
        done, _ = await asyncio.wait({asked}, timeout=0.1)
        assert not done
        await there.change(there.put_spec())
        assert (await asked).status is Status.INSUFFICIENT_JOURNAL_BROKERS

    run(cluster_etcd, story)


def test_a_primary_that_becomes_a_replica_keeps_what_it_has(cluster_etcd: EtcdPrefix) -> None:
    async def story(there: Cluster) -> None:
        await there.change(there.put_member(US), there.put_spec(), there.assign(US, 0))
        before = await there.resolve(require_primary=True)
        assert before.is_local_primary
        await there.change(there.unassign(US, 0), there.assign(US, 1), there.assign(PEER, 0))
        [held] = there.keeper.began
        assert before.invalidated.is_set()
        assert (held.ended, held.renewed) == (False, 1)
        after = await there.resolve(require_primary=True)
        assert not after.is_local_primary
        assert after.replica is before.replica

    run(cluster_etcd, story)
