"""The store on an etcd that is away, slow, or answers into the void."""

from __future__ import annotations

import asyncio

import pytest

from tests.integration.coordination.running import (
    etcd_store,
    lose_the_answer_to,
    mirror_of,
    put,
    run,
    until,
)
from windrow.coordination.errors import LeaseNotFound, StoreClosed, TxnUnknown, WatchBroken
from windrow.coordination.etcd import EtcdStore
from windrow.coordination.store import Compare, Put
from windrow.embedded.etcd import Etcd
from windrow.embedded.link import Link
from windrow.embedded.link_rules import Action, at_match
from windrow.embedded.ports import free_port
from windrow.errors import Failed, OutcomeUnknown, Unreachable


def test_transaction_to_nobody_certainly_did_not_happen() -> None:
    async def scenario() -> None:
        async with etcd_store(f"127.0.0.1:{free_port()}", call_timeout=0.5) as store:
            began = asyncio.get_running_loop().time()
            with pytest.raises(Unreachable, match="cannot reach etcd") as caught:
                await put(store, "key")
            assert isinstance(caught.value, Failed)
            assert asyncio.get_running_loop().time() - began < 3

    run(scenario())


def test_transaction_whose_answer_is_lost_is_of_unknown_outcome_and_did_happen(
    own_etcd: Etcd, link: Link, prefix: str
) -> None:
    async def scenario() -> None:
        async with etcd_store(link.address) as store, etcd_store(own_etcd.url) as direct:
            await store.load(prefix)
            marked = b"the transaction"
            link.on_bytes = lose_the_answer_to(marked)
            with pytest.raises(TxnUnknown, match="it may have happened") as caught:
                await put(store, prefix + "key", marked)
            assert isinstance(caught.value, OutcomeUnknown)
            assert [kv.value for kv in (await direct.load(prefix)).kvs] == [marked]

    run(scenario())


def test_transaction_lost_on_its_way_is_of_unknown_outcome_too(
    own_etcd: Etcd, link: Link, prefix: str
) -> None:
    """From here both look the same: only reading back tells them apart."""

    async def scenario() -> None:
        async with etcd_store(link.address) as store, etcd_store(own_etcd.url) as direct:
            await store.load(prefix)
            link.on_bytes = at_match(1, lambda payload: b"the transaction" in payload, Action.RESET)
            with pytest.raises(TxnUnknown):
                await put(store, prefix + "key", b"the transaction")
            assert (await direct.load(prefix)).kvs == ()

    run(scenario())


def test_unanswered_call_is_given_up_in_time(link: Link, prefix: str) -> None:
    async def scenario() -> None:
        async with etcd_store(link.address, call_timeout=0.5) as store:
            await store.load(prefix)
            link.stall()
            began = asyncio.get_running_loop().time()
            with pytest.raises(Unreachable, match="DEADLINE_EXCEEDED"):
                await store.load(prefix)
            with pytest.raises(TxnUnknown, match="DEADLINE_EXCEEDED"):
                await put(store, prefix + "key")
            with pytest.raises(Unreachable):
                await store.grant_lease(5)
            assert asyncio.get_running_loop().time() - began < 4
            link.resume()
            await put(store, prefix + "key", b"again")

    run(scenario())


def test_store_finds_etcd_again_after_a_cut_and_a_restart(
    own_etcd: Etcd, link: Link, prefix: str
) -> None:
    async def scenario() -> None:
        async with etcd_store(link.address) as store:
            first = await put(store, prefix + "a")
            link.cut()
            await asyncio.to_thread(own_etcd.restart)
            link.restore()
            second = await put(store, prefix + "a")
            assert second > first
            assert [kv.version for kv in (await store.load(prefix)).kvs] == [2]

    run(scenario())


def test_dead_member_is_passed_over(own_etcd: Etcd, prefix: str) -> None:
    async def scenario() -> None:
        dead = f"127.0.0.1:{free_port()}"
        async with etcd_store(f"{dead},{own_etcd.url}", call_timeout=3.0) as store:
            began = asyncio.get_running_loop().time()
            await put(store, prefix + "a")
            assert asyncio.get_running_loop().time() - began < 2.5

    run(scenario())


def test_member_that_hangs_is_left_for_another(link: Link, other_link: Link, prefix: str) -> None:
    async def scenario() -> None:
        other_link.cut()
        addresses = f"{link.address},{other_link.address}"
        async with etcd_store(addresses, call_timeout=4.0) as store:
            await store.load(prefix)
            link.stall()
            other_link.restore()
            # A question is put to the next member within its own time.
            await store.load(prefix)
            await put(store, prefix + "a")
            assert [kv.key for kv in (await store.load(prefix)).kvs] == [prefix + "a"]

    run(scenario())


def test_watch_that_hears_nothing_notices_that_its_member_is_gone(
    own_etcd: Etcd, link: Link, other_link: Link, prefix: str
) -> None:
    """Nothing closes the connection: only a question that is not answered tells."""

    async def scenario() -> None:
        other_link.cut()
        addresses = f"{link.address},{other_link.address}"
        async with (
            etcd_store(addresses) as store,
            etcd_store(own_etcd.url) as direct,
            mirror_of(store, prefix) as mirror,
        ):
            await mirror.wait_revision(await put(direct, prefix + "a"))
            link.stall()
            other_link.restore()
            revision = await put(direct, prefix + "b")
            began = asyncio.get_running_loop().time()
            await mirror.wait_revision(revision)
            assert asyncio.get_running_loop().time() - began < 20

    run(scenario())


def test_watch_over_a_link_that_breaks_ends_and_can_go_on(
    own_etcd: Etcd, link: Link, prefix: str
) -> None:
    async def scenario() -> None:
        async with etcd_store(link.address) as store, etcd_store(own_etcd.url) as direct:
            start = await put(direct, prefix + "a", b"0")
            watch = store.watch(prefix, start)
            coming = asyncio.ensure_future(anext(watch))
            first = await put(direct, prefix + "a", b"1")
            assert (await coming).revision == first
            coming = asyncio.ensure_future(anext(watch))
            await asyncio.sleep(0)
            link.reset()
            with pytest.raises(WatchBroken):
                await coming
            await put(direct, prefix + "a", b"2")
            again = store.watch(prefix, first)
            batch = await anext(again)
            assert [event.kv.value for event in batch.events] == [b"2"]
            await again.aclose()

    run(scenario())


@pytest.mark.parametrize("how", ["revoked by a stranger", "etcd is away", "etcd hangs"])
def test_lost_lease_is_told(own_etcd: Etcd, link: Link, prefix: str, how: str) -> None:
    async def scenario() -> None:
        async with etcd_store(link.address) as store, etcd_store(own_etcd.url) as direct:
            lease = await store.grant_lease(2)
            await put(store, prefix + "a", b"", lease.id)
            began = asyncio.get_running_loop().time()
            if how == "revoked by a stranger":
                await direct.revoke_lease(lease.id)
            elif how == "etcd is away":
                link.cut()
            else:
                link.stall()
            await asyncio.wait_for(lease.lost.wait(), 10)
            assert asyncio.get_running_loop().time() - began < 4
            if how != "revoked by a stranger":
                # We gave it up no later than etcd did.
                await until_gone(direct, prefix)
                link.restore()
                link.resume()
            with pytest.raises(LeaseNotFound):
                await put(store, prefix + "b", b"", lease.id)

    run(scenario())


async def until_gone(store: EtcdStore, prefix: str) -> None:
    while (await store.load(prefix)).kvs:  # noqa: ASYNC110 - etcd ends it in its own time
        await asyncio.sleep(0.05)


def test_lease_outlives_a_short_cut_and_a_restart(own_etcd: Etcd, link: Link, prefix: str) -> None:
    async def scenario() -> None:
        async with etcd_store(link.address) as store:
            lease = await store.grant_lease(6)
            await put(store, prefix + "a", b"", lease.id)
            link.cut()
            await asyncio.to_thread(own_etcd.kill)
            await asyncio.to_thread(own_etcd.restart)
            link.restore()
            term = lease._term
            await until(lambda: lease._term is not term)  # renewed since
            assert not lease.lost.is_set()
            assert [kv.lease for kv in (await store.load(prefix)).kvs] == [lease.id]
            await lease.revoke()

    run(scenario())


def test_keys_of_a_closed_store_go_with_its_leases(own_etcd: Etcd, prefix: str) -> None:
    async def scenario() -> None:
        async with etcd_store(own_etcd.url) as direct:
            async with etcd_store(own_etcd.url) as store:
                lease = await store.grant_lease(1)
                await put(store, prefix + "a", b"", lease.id)
            await until_gone(direct, prefix)
            with pytest.raises(StoreClosed):
                await store.load(prefix)

    run(scenario())


def test_large_values_and_many_keys_pass(own_etcd: Etcd, prefix: str) -> None:
    """More than gRPC takes by default in one message."""

    async def scenario() -> None:
        async with etcd_store(own_etcd.url) as store:
            for n in range(8):
                await put(store, f"{prefix}{n}", bytes(1_000_000))
            snapshot = await store.load(prefix)
            assert sum(len(kv.value) for kv in snapshot.kvs) == 8_000_000
            absent = [Compare.version(prefix + "0", 0)]
            assert not (await store.txn(absent, [Put(prefix + "0", b"")])).succeeded

    run(scenario())
