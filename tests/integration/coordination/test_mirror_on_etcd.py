"""A mirror under an etcd that restarts, forgets, is cut off or becomes another one."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from tests.fixtures import etcd_gateway
from tests.integration.coordination.running import etcd_store, mirror_of, put, run, until
from windrow.coordination.errors import ClusterChanged, NotFollowing, RevisionWentBack
from windrow.coordination.store import Compare, Delete, Put
from windrow.embedded.etcd import Etcd
from windrow.embedded.link import Link
from windrow.embedded.ports import LOOPBACK


def test_mirror_catches_up_after_etcd_was_killed_and_restarted(own_etcd: Etcd, prefix: str) -> None:
    async def scenario() -> None:
        async with etcd_store(own_etcd.url) as store, mirror_of(store, prefix) as mirror:
            await mirror.wait_revision(await put(store, prefix + "before"))
            await asyncio.to_thread(own_etcd.kill)
            await asyncio.to_thread(own_etcd.restart)
            revision = await put(store, prefix + "after")
            await mirror.wait_revision(revision)
            assert [kv.key.removeprefix(prefix) for kv in mirror.prefixed(prefix)] == [
                "after",
                "before",
            ]
            assert mirror.revision == revision

    run(scenario())


def test_mirror_misses_nothing_of_what_happened_while_it_was_cut_off(
    own_etcd: Etcd, link: Link, prefix: str
) -> None:
    async def scenario() -> None:
        async with (
            etcd_store(link.address) as store,
            etcd_store(own_etcd.url) as direct,
            mirror_of(store, prefix) as mirror,
        ):
            await mirror.wait_revision(await put(direct, prefix + "doomed"))
            for turn in range(3):
                link.cut() if turn % 2 else link.reset()
                await direct.txn([], [Put(f"{prefix}{turn}", b""), Put(prefix + "x", b"")])
                await direct.txn([], [Delete(prefix + "x")])
                link.restore()
            revision = (await direct.txn([], [Delete(prefix + "doomed")])).revision
            await mirror.wait_revision(revision)
            assert tuple(mirror.prefixed(prefix)) == (await direct.load(prefix)).kvs
            assert mirror.revision == revision

    run(scenario())


def test_mirror_equals_the_store_after_any_changes_over_a_bad_link(
    own_etcd: Etcd, link: Link, prefix: str
) -> None:
    async def scenario() -> None:
        random = Random(3)
        async with (
            etcd_store(link.address) as store,
            etcd_store(own_etcd.url) as direct,
            mirror_of(store, prefix) as mirror,
        ):
            last_seen = 0

            def observe(_: object) -> None:
                nonlocal last_seen
                assert mirror.revision > last_seen
                last_seen = mirror.revision

            mirror.observers.append(observe)
            for n in range(300):
                key = f"{prefix}{random.randrange(20)}"
                ops = [Delete(key) if random.random() < 0.3 else Put(key, str(n).encode())]
                await direct.txn([], ops)
                if n % 60 == 59:
                    link.reset()
            revision = await put(direct, prefix + "last")
            await mirror.wait_revision(revision)
            assert tuple(mirror.prefixed(prefix)) == (await direct.load(prefix)).kvs

    run(scenario())


def test_mirror_loads_again_what_etcd_has_compacted(
    own_etcd: Etcd, link: Link, prefix: str
) -> None:
    async def scenario() -> None:
        async with (
            etcd_store(link.address) as store,
            etcd_store(own_etcd.url) as direct,
            mirror_of(store, prefix) as mirror,
        ):
            await mirror.wait_revision(await put(direct, prefix + "doomed"))
            link.cut()
            await direct.txn([], [Delete(prefix + "doomed"), Put(prefix + "a", b"1")])
            revision = await put(direct, prefix + "a", b"2")
            await asyncio.to_thread(
                etcd_gateway.call, own_etcd.url, "kv/compaction", {"revision": str(revision)}
            )
            link.restore()
            await mirror.wait_revision(revision)
            assert [(kv.key, kv.value) for kv in mirror.prefixed(prefix)] == [(prefix + "a", b"2")]
            # and goes on watching from there
            await mirror.wait_revision(await put(direct, prefix + "b"))

    run(scenario())


def test_only_revisions_under_the_prefix_can_be_awaited(own_etcd: Etcd, prefix: str) -> None:
    """A mirror hears of nothing else; the next change under its prefix covers what came before."""

    async def scenario() -> None:
        async with etcd_store(own_etcd.url) as store, mirror_of(store, prefix) as mirror:
            inside = await put(store, prefix + "a")
            await mirror.wait_revision(inside)
            outside = await put(store, "elsewhere/" + prefix)
            assert outside == inside + 1
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(mirror.wait_revision(outside), 0.5)
            assert mirror.revision == inside
            waiting = asyncio.create_task(mirror.wait_revision(outside))
            await put(store, prefix + "a")
            await waiting
            assert mirror.revision == outside + 1

    run(scenario())


def test_lost_transaction_names_a_revision_that_a_mirror_reaches(
    own_etcd: Etcd, prefix: str
) -> None:
    """Even if strangers have moved the store's revision on since."""

    async def scenario() -> None:
        async with etcd_store(own_etcd.url) as store, mirror_of(store, prefix) as mirror:
            await put(store, prefix + "a")
            await put(store, "elsewhere/" + prefix)
            lost = await store.txn([Compare.version(prefix + "a", 0)], [Put(prefix + "a", b"")])
            assert not lost.succeeded
            await asyncio.wait_for(mirror.wait_revision(lost.revision), 5)
            assert mirror.get(prefix + "a") is not None

    run(scenario())


def test_another_cluster_at_the_same_address_ends_the_mirror(
    own_etcd: Etcd, link: Link, prefix: str, etcd: str
) -> None:
    async def scenario() -> None:
        async with etcd_store(link.address) as store, mirror_of(store, prefix) as mirror:
            await mirror.wait_revision(await put(store, prefix + "a"))
            waiting = asyncio.create_task(mirror.wait_revision(10**9))
            link.target = (LOOPBACK, int(etcd.rpartition(":")[2]))
            link.reset()
            with pytest.raises(ClusterChanged):
                await mirror.wait_failed()
            with pytest.raises(NotFollowing):
                await waiting
            # The copy stays as it was: nothing of the other cluster got in.
            assert [kv.key for kv in mirror.prefixed("")] == [prefix + "a"]

    run(scenario())


def test_watch_for_the_future_of_a_store_that_lost_its_past_is_refused(
    own_etcd: Etcd, prefix: str
) -> None:
    """A watch of etcd would wait in silence until the old revision is reached again."""

    async def scenario() -> None:
        async with etcd_store(own_etcd.url) as store:
            now = await put(store, prefix + "a")
            with pytest.raises(RevisionWentBack):
                await anext(store.watch(prefix, now + 1))

    run(scenario())


def test_paused_etcd_stops_nothing_for_good(own_etcd: Etcd, prefix: str) -> None:
    async def scenario() -> None:
        async with (
            etcd_store(own_etcd.url, call_timeout=1.0) as store,
            mirror_of(store, prefix) as mirror,
        ):
            await mirror.wait_revision(await put(store, prefix + "a"))
            await asyncio.to_thread(own_etcd.pause)
            await asyncio.sleep(0.5)
            await asyncio.to_thread(own_etcd.resume)
            await mirror.wait_revision(await put(store, prefix + "b"))
            await until(lambda: len(mirror.prefixed(prefix)) == 2)

    run(scenario())


def test_watch_that_catches_up_in_many_pieces_can_go_on_after_each(
    own_etcd: Etcd, prefix: str
) -> None:
    """A piece tells a thousand revisions, and the head of the answer names the store's own.

    Who went on after that one would miss all pieces that were still to come.
    """

    async def scenario() -> None:
        async with etcd_store(own_etcd.url) as store:
            start = await put(store, prefix + "n", b"start")
            for n in range(2_500):
                await put(store, prefix + "n", str(n).encode())
            values: list[bytes] = []
            while len(values) < 2_500:
                watch = store.watch(prefix, start)
                batch = await anext(watch)
                await watch.aclose()
                values += [event.kv.value for event in batch.events]
                start = batch.revision
            assert values == [str(n).encode() for n in range(2_500)]

    run(scenario())
