"""A process says that it is there: once, under its own lease, and no longer than it lives."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.integration.coordination.running import etcd_store, lose_the_answer_to, put, run
from windrow.coordination.announce import Announcement
from windrow.coordination.errors import AnnouncementLost, LeaseNotFound
from windrow.coordination.local import LocalStore
from windrow.coordination.store import Delete, Store
from windrow.embedded.etcd import Etcd
from windrow.embedded.link import Link


async def find(store: Store, key: str) -> tuple[bytes, int, int]:
    (kv,) = (await store.load(key)).kvs
    return kv.value, kv.lease, kv.mod_revision


def test_announced_key_hangs_on_the_lease_and_goes_with_it(own_etcd: Etcd, prefix: str) -> None:
    async def scenario() -> None:
        async with etcd_store(own_etcd.url) as store:
            lease = await store.grant_lease(60)
            mine = await Announcement.make(store, lease, prefix + "me", b"1")
            assert await find(store, prefix + "me") == (b"1", lease.id, mine.revision)
            revision = await mine.update(b"2")
            assert await find(store, prefix + "me") == (b"2", lease.id, revision)
            assert (mine.value, mine.revision) == (b"2", revision)
            await mine.withdraw()
            assert (await store.load(prefix)).kvs == ()

    run(scenario())


def test_key_that_another_lease_holds_is_waited_for(own_etcd: Etcd, prefix: str) -> None:
    async def scenario() -> None:
        async with etcd_store(own_etcd.url) as store, etcd_store(own_etcd.url) as other:
            theirs = await Announcement.make(
                other, await other.grant_lease(60), prefix + "me", b"theirs"
            )
            lease = await store.grant_lease(60)
            coming = asyncio.create_task(
                Announcement.make(store, lease, prefix + "me", b"ours", retry_interval=0.05)
            )
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(asyncio.shield(coming), 0.5)
            assert (await find(store, prefix + "me"))[0] == b"theirs"
            await theirs.withdraw()
            mine = await coming
            assert await find(store, prefix + "me") == (b"ours", lease.id, mine.revision)

    run(scenario())


def test_announcing_again_what_our_lease_holds_changes_nothing(own_etcd: Etcd, prefix: str) -> None:
    async def scenario() -> None:
        async with etcd_store(own_etcd.url) as store:
            lease = await store.grant_lease(60)
            first = await Announcement.make(store, lease, prefix + "me", b"1")
            again = await Announcement.make(store, lease, prefix + "me", b"1")
            assert again.revision == first.revision
            changed = await Announcement.make(store, lease, prefix + "me", b"2")
            assert await find(store, prefix + "me") == (b"2", lease.id, changed.revision)
            # A key that only begins like ours is somebody else's.
            await put(store, prefix + "me too")
            assert (await Announcement.make(store, lease, prefix + "me", b"2")).revision == (
                changed.revision
            )

    run(scenario())


def test_announcement_ends_when_the_lease_is_lost_while_it_waits(
    own_etcd: Etcd, prefix: str
) -> None:
    async def scenario() -> None:
        async with etcd_store(own_etcd.url) as store:
            holder = await store.grant_lease(60)
            await put(store, prefix + "me", b"", holder.id)
            lease = await store.grant_lease(1, keep_alive=False)
            with pytest.raises(LeaseNotFound):
                await Announcement.make(store, lease, prefix + "me", b"", retry_interval=30)

    run(scenario())


def test_unanswered_announcement_and_update_are_found_to_have_happened(
    own_etcd: Etcd, link: Link, prefix: str
) -> None:
    async def scenario() -> None:
        async with etcd_store(link.address) as store:
            lease = await store.grant_lease(60)
            link.on_bytes = lose_the_answer_to(b"the first value")
            mine = await Announcement.make(store, lease, prefix + "me", b"the first value")
            assert link.acted.is_set()
            assert await find(store, prefix + "me") == (b"the first value", lease.id, mine.revision)

            link.acted.clear()
            link.on_bytes = lose_the_answer_to(b"the second value")
            revision = await mine.update(b"the second value")
            assert link.acted.is_set()
            assert await find(store, prefix + "me") == (b"the second value", lease.id, revision)
            (kv,) = (await store.load(prefix)).kvs
            assert kv.version == 2  # neither was done twice

    run(scenario())


@pytest.mark.parametrize("how", ["deleted", "changed"])
def test_update_of_a_key_that_is_no_longer_ours_is_refused(
    own_etcd: Etcd, prefix: str, how: str
) -> None:
    async def scenario() -> None:
        async with etcd_store(own_etcd.url) as store:
            mine = await Announcement.make(store, await store.grant_lease(60), prefix + "me", b"1")
            if how == "deleted":
                await store.txn([], [Delete(prefix + "me")])
            else:
                await put(store, prefix + "me", b"theirs")
            with pytest.raises(AnnouncementLost, match="restart it"):
                await mine.update(b"2")

    run(scenario())


def test_local_store_is_announced_in_like_etcd(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = LocalStore(tmp_path)
        lease = await store.grant_lease(60)
        mine = await Announcement.make(store, lease, "me", b"1")
        assert await find(store, "me") == (b"1", lease.id, mine.revision)
        await mine.update(b"2")
        await mine.withdraw()
        assert (await store.load("")).kvs == ()
        await store.close()

    run(scenario())
