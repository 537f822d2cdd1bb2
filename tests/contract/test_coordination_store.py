"""One suite for every coordination store: what EtcdStore does, LocalStore does too."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass

import pytest

from windrow.coordination.errors import (
    InvalidTransaction,
    KeyNotFound,
    LeaseNotFound,
    RevisionWentBack,
)
from windrow.coordination.etcd import EtcdStore
from windrow.coordination.local import LocalStore
from windrow.coordination.store import (
    DELETE,
    MAX_TXN_OPS,
    PUT,
    Compare,
    Delete,
    Event,
    KeyValue,
    Op,
    Put,
    Store,
)

PATIENCE = 20.0


@dataclass
class Place:
    """A store of one kind, and a prefix in it that is the test's own."""

    prefix: str
    open: Callable[[], Store]

    def run(self, scenario: Callable[[Store], Awaitable[None]]) -> None:
        async def with_store() -> None:
            store = self.open()
            try:
                await asyncio.wait_for(scenario(store), PATIENCE)
            finally:
                await store.close()

        asyncio.run(with_store())

    async def find(self, store: Store, key: str) -> KeyValue:
        return next(kv for kv in (await store.load(self.prefix)).kvs if kv.key == self.prefix + key)

    async def keys(self, store: Store) -> list[str]:
        return [kv.key.removeprefix(self.prefix) for kv in (await store.load(self.prefix)).kvs]


@pytest.fixture(params=["etcd", "local"])
def place(request: pytest.FixtureRequest) -> Place:
    if request.param == "etcd":
        address = request.getfixturevalue("etcd")
        prefix = request.getfixturevalue("etcd_prefix")
        return Place(prefix, lambda: EtcdStore(address, page_size=10))
    directory = request.getfixturevalue("tmp_path") / "store"
    return Place("test/", lambda: LocalStore(directory))


async def put(store: Store, key: str, value: bytes = b"v", lease: int = 0) -> int:
    result = await store.txn([], [Put(key, value, lease=lease)])
    assert result.succeeded
    return result.revision


async def gather_events(store: Store, prefix: str, after: int, count: int) -> list[Event]:
    """The next ``count`` changes, by their own account, and no revision in two pieces."""
    events: list[Event] = []
    revisions: list[int] = []
    async with aclosing(store.watch(prefix, after)) as batches:
        async for batch in batches:
            if batch.events:
                # Whoever goes on after it must have been told everything up to it.
                assert batch.revision == max(e.kv.mod_revision for e in batch.events)
                revisions.append(batch.revision)
                events += batch.events
            if len(events) >= count:
                break
    assert revisions == sorted(set(revisions))
    return events


def told(events: list[Event], prefix: str) -> list[tuple[str, str, bytes]]:
    return [(e.kind.value, e.kv.key.removeprefix(prefix), e.kv.value) for e in events]


def test_put_key_is_loaded_with_its_revisions(place: Place) -> None:
    async def scenario(store: Store) -> None:
        first = await put(store, place.prefix + "a", b"1")
        second = await put(store, place.prefix + "a", b"2")
        assert second > first
        assert await place.find(store, "a") == KeyValue(place.prefix + "a", b"2", first, second, 2)
        snapshot = await store.load(place.prefix)
        assert snapshot.revision >= second
        assert snapshot.cluster_id == store.header().cluster_id

    place.run(scenario)


def test_keys_are_any_text_and_values_any_bytes(place: Place) -> None:
    async def scenario(store: Store) -> None:
        key, value = place.prefix + "ключ #0/ä", bytes(range(256))
        await put(store, key, value)
        await put(store, place.prefix + "empty", b"")
        assert (await place.find(store, "ключ #0/ä")).value == value
        assert (await place.find(store, "empty")).value == b""

    place.run(scenario)


def test_load_gives_every_key_of_the_prefix_and_no_other_in_order(place: Place) -> None:
    async def scenario(store: Store) -> None:
        inside = place.prefix + "in/"
        names = ["b", "a", "c", "a/b", "ü", "a#1"]
        for name in names:
            await put(store, inside + name)
        for outside in ("in", "in0", "im/", "io"):
            await put(store, place.prefix + outside)
        found = [kv.key for kv in (await store.load(inside)).kvs]
        assert found == sorted(inside + name for name in names)

    place.run(scenario)


def test_many_pages_are_read_at_one_revision(place: Place) -> None:
    """Keys are moved all the time; whoever read pages at different revisions would miss some."""

    async def scenario(store: Store) -> None:
        keys = [f"{place.prefix}{n:03}" for n in range(95)]
        await store.txn([], [Put(key, b"0") for key in keys])
        done = asyncio.Event()

        async def move_all() -> None:
            turn = 0
            while not done.is_set():
                turn += 1
                await store.txn([], [Put(key, str(turn).encode()) for key in keys])

        mover = asyncio.create_task(move_all())
        try:
            for _ in range(20):
                snapshot = await store.load(place.prefix)
                assert [kv.key for kv in snapshot.kvs] == keys
                assert len({kv.value for kv in snapshot.kvs}) == 1
        finally:
            done.set()
            await mover

    place.run(scenario)


@pytest.mark.parametrize("target", ["mod_revision", "create_revision", "version", "lease"])
def test_transaction_happens_only_if_its_comparison_holds(place: Place, target: str) -> None:
    async def scenario(store: Store) -> None:
        lease = await store.grant_lease(60)
        key, other = place.prefix + "key", place.prefix + "other"
        for _ in range(9):  # so that no number of the key is by chance another one
            await put(store, place.prefix + "unlike", b"")
        await store.txn([], [Delete(place.prefix + "unlike")])
        await put(store, key, b"1")
        await put(store, key, b"2", lease.id)
        kv = await place.find(store, "key")
        compare = getattr(Compare, target)
        actual = getattr(kv, target)
        assert len({kv.mod_revision, kv.create_revision, kv.version, kv.lease}) == 4

        lost = await store.txn([compare(key, actual + 1)], [Put(other, b"")])
        assert not lost.succeeded
        assert await place.keys(store) == ["key"]

        won = await store.txn([compare(key, actual)], [Put(other, b"")])
        assert won.succeeded
        assert await place.keys(store) == ["key", "other"]
        await lease.revoke()

    place.run(scenario)


@pytest.mark.parametrize("target", ["mod_revision", "create_revision", "version", "lease"])
def test_every_number_of_an_absent_key_is_0(place: Place, target: str) -> None:
    async def scenario(store: Store) -> None:
        absent = getattr(Compare, target)(place.prefix + "absent", 0)
        assert (await store.txn([absent], [Put(place.prefix + "a", b"")])).succeeded
        there = getattr(Compare, target)(place.prefix + "absent", 1)
        assert not (await store.txn([there], [Put(place.prefix + "b", b"")])).succeeded
        assert await place.keys(store) == ["a"]

    place.run(scenario)


def test_all_comparisons_have_to_hold(place: Place) -> None:
    async def scenario(store: Store) -> None:
        a, b = place.prefix + "a", place.prefix + "b"
        revision = await put(store, a)
        conditions = [Compare.mod_revision(a, revision), Compare.version(b, 1)]
        assert not (await store.txn(conditions, [Delete(a)])).succeeded
        await put(store, b)
        assert (await store.txn(conditions, [Delete(a)])).succeeded
        assert await place.keys(store) == ["b"]

    place.run(scenario)


def test_all_changes_of_a_transaction_have_one_revision(place: Place) -> None:
    async def scenario(store: Store) -> None:
        await put(store, place.prefix + "gone")
        ops: list[Op] = [Put(place.prefix + name, b"") for name in "abc"]
        result = await store.txn([], [*ops, Delete(place.prefix + "gone")])
        snapshot = await store.load(place.prefix)
        assert {kv.mod_revision for kv in snapshot.kvs} == {result.revision}
        events = await gather_events(store, place.prefix, result.revision - 1, 4)
        assert {event.kv.mod_revision for event in events} == {result.revision}
        assert sorted(e.kv.key.removeprefix(place.prefix) for e in events if e.kind is PUT) == [
            "a", "b", "c",
        ]  # fmt: skip
        assert [e.kv.key for e in events if e.kind is DELETE] == [place.prefix + "gone"]

    place.run(scenario)


def test_lost_transaction_names_the_latest_change_of_what_it_compared(place: Place) -> None:
    """Not the store's revision: a change elsewhere is one that a mirror never hears of."""

    async def scenario(store: Store) -> None:
        a, b = place.prefix + "a", place.prefix + "b"
        first, second = await put(store, a), await put(store, b)
        elsewhere = await put(store, place.prefix.rstrip("/") + "-elsewhere")
        assert elsewhere > second
        both = [Compare.mod_revision(a, first), Compare.mod_revision(b, first)]
        assert (await store.txn(both, [Delete(a)])).revision == second
        none = [Compare.version(place.prefix + "absent", 7)]
        assert (await store.txn(none, [Delete(a)])).revision == 0
        await store.txn([], [Delete(place.prefix.rstrip("/") + "-elsewhere")])

    place.run(scenario)


def test_transaction_that_changes_nothing_takes_no_revision(place: Place) -> None:
    async def scenario(store: Store) -> None:
        revision = await put(store, place.prefix + "a")
        holds = [Compare.mod_revision(place.prefix + "a", revision)]
        result = await store.txn(holds, [Delete(place.prefix + "absent")])
        assert (result.succeeded, result.revision) == (True, revision)
        assert (await store.txn(holds, [])).succeeded
        assert await put(store, place.prefix + "b") == revision + 1

    place.run(scenario)


@pytest.mark.parametrize(
    "ops",
    [
        [Put("k", b"1"), Put("k", b"2")],
        [Put("k", b"1"), Delete("k")],
        [Put(f"k{n}", b"") for n in range(MAX_TXN_OPS + 1)],
        [Put("", b"")],
    ],
)
def test_transaction_no_store_could_perform_is_refused_and_changes_nothing(
    place: Place, ops: list[Op]
) -> None:
    async def scenario(store: Store) -> None:
        with pytest.raises(InvalidTransaction):
            await store.txn([], ops)
        compares = [Compare.version(f"k{n}", 0) for n in range(MAX_TXN_OPS + 1)]
        with pytest.raises(InvalidTransaction):
            await store.txn(compares, [Put(place.prefix + "k", b"")])
        assert await place.keys(store) == []

    place.run(scenario)


def test_largest_transaction_is_performed(place: Place) -> None:
    async def scenario(store: Store) -> None:
        keys = [f"{place.prefix}{n:03}" for n in range(MAX_TXN_OPS)]
        absent = [Compare.version(key, 0) for key in keys]
        puts = [Put(key, b"") for key in keys]
        assert (await store.txn(absent, puts)).succeeded
        assert not (await store.txn(absent, puts)).succeeded
        assert len(await place.keys(store)) == MAX_TXN_OPS

    place.run(scenario)


def test_deleted_and_recreated_key_has_another_create_revision(place: Place) -> None:
    async def scenario(store: Store) -> None:
        key = place.prefix + "key"
        await put(store, key)
        await put(store, key)
        before = await place.find(store, "key")
        await store.txn([], [Delete(key)])
        await put(store, key)
        after = await place.find(store, "key")
        assert after.create_revision > before.mod_revision
        assert (after.version, after.create_revision) == (1, after.mod_revision)
        stale = [Compare.create_revision(key, before.create_revision)]
        assert not (await store.txn(stale, [Delete(key)])).succeeded

    place.run(scenario)


# -- leases ------------------------------------------------------------------------------------


def test_put_that_ignores_leases_keeps_the_keys_lease_and_another_takes_it_off(
    place: Place,
) -> None:
    async def scenario(store: Store) -> None:
        lease = await store.grant_lease(60)
        kept, freed = place.prefix + "kept", place.prefix + "freed"
        await put(store, kept, b"1", lease.id)
        await put(store, freed, b"1", lease.id)
        await store.txn([], [Put(kept, b"2", ignore_lease=True)])
        await store.txn([], [Put(freed, b"2")])
        assert (await place.find(store, "kept")).lease == lease.id
        assert (await place.find(store, "freed")).lease == 0
        await lease.revoke()
        assert await place.keys(store) == ["freed"]

    place.run(scenario)


def test_put_that_keeps_the_lease_of_an_absent_key_is_refused_whole(place: Place) -> None:
    async def scenario(store: Store) -> None:
        absent = Put(place.prefix + "absent", b"", ignore_lease=True)
        with pytest.raises(KeyNotFound):
            await store.txn([], [Put(place.prefix + "a", b""), absent])
        assert await place.keys(store) == []
        # A condition that fails is the answer, not an error.
        there = Compare.version(place.prefix + "absent", 1)
        assert not (await store.txn([there], [absent])).succeeded

    place.run(scenario)


def test_put_under_an_ended_lease_is_refused_whole(place: Place) -> None:
    async def scenario(store: Store) -> None:
        lease = await store.grant_lease(60)
        await lease.revoke()
        with pytest.raises(LeaseNotFound):
            await store.txn(
                [], [Put(place.prefix + "a", b""), Put(place.prefix + "b", b"", lease.id)]
            )
        assert await place.keys(store) == []

    place.run(scenario)


def test_revoked_lease_deletes_its_keys_at_one_revision_and_is_not_called_lost(
    place: Place,
) -> None:
    async def scenario(store: Store) -> None:
        lease = await store.grant_lease(60)
        assert lease.id > 0
        for name in "ab":
            await put(store, place.prefix + name, b"", lease.id)
        last = await put(store, place.prefix + "c")
        await lease.revoke()
        await lease.revoke()
        assert await place.keys(store) == ["c"]
        events = await gather_events(store, place.prefix, last, 2)
        assert sorted(told(events, place.prefix)) == [("delete", "a", b""), ("delete", "b", b"")]
        assert not lease.lost.is_set()

    place.run(scenario)


def test_a_lease_can_be_ended_by_its_number_and_one_that_is_gone_is_no_matter(
    place: Place,
) -> None:
    """So does a process that comes back, with that of the process it was."""

    async def scenario(store: Store) -> None:
        lease = await store.grant_lease(60)
        await put(store, place.prefix + "a", b"", lease.id)
        await store.revoke_lease(lease.id)
        await store.revoke_lease(lease.id)
        assert await place.keys(store) == []

    place.run(scenario)


def test_lease_that_nobody_keeps_alive_expires_with_its_keys_and_is_called_lost(
    place: Place,
) -> None:
    async def scenario(store: Store) -> None:
        lease = await store.grant_lease(1, keep_alive=False)
        last = await put(store, place.prefix + "a", b"", lease.id)
        events = await gather_events(store, place.prefix, last, 1)
        assert told(events, place.prefix) == [("delete", "a", b"")]
        assert lease.lost.is_set()
        assert await place.keys(store) == []

    place.run(scenario)


def test_lease_that_is_kept_alive_outlives_its_time(place: Place) -> None:
    async def scenario(store: Store) -> None:
        kept = await store.grant_lease(1)
        await put(store, place.prefix + "kept", b"", kept.id)
        for _ in range(2):
            doomed = await store.grant_lease(1, keep_alive=False)
            last = await put(store, place.prefix + "doomed", b"", doomed.id)
            await gather_events(store, place.prefix, last, 1)
        assert await place.keys(store) == ["kept"]
        assert not kept.lost.is_set()
        await kept.revoke()

    place.run(scenario)


def test_leases_are_distinct(place: Place) -> None:
    async def scenario(store: Store) -> None:
        leases = [await store.grant_lease(60) for _ in range(3)]
        assert len({lease.id for lease in leases}) == 3
        for n, lease in enumerate(leases):
            await put(store, f"{place.prefix}{n}", b"", lease.id)
        await leases[1].revoke()
        assert await place.keys(store) == ["0", "2"]
        for lease in leases:
            await lease.revoke()

    place.run(scenario)


# -- watching ----------------------------------------------------------------------------------


def test_watch_from_a_past_revision_tells_every_change_once_and_in_order(place: Place) -> None:
    async def scenario(store: Store) -> None:
        inside = place.prefix + "in/"
        start = await put(store, inside + "before")
        expected = []
        for n in range(60):
            key = inside + f"{n % 7}"
            if n % 5 == 4:
                await store.txn([], [Delete(key)])
                expected.append(("delete", f"{n % 7}", b""))
            else:
                await put(store, key, str(n).encode())
                expected.append(("put", f"{n % 7}", str(n).encode()))
            await put(store, place.prefix + "outside", str(n).encode())
        # A key deleted while it was absent is no change.
        alive: set[str] = set()
        real = []
        for kind, name, value in expected:
            if kind == "put":
                alive.add(name)
            elif name not in alive:
                continue
            else:
                alive.discard(name)
            real.append((kind, name, value))
        events = await gather_events(store, inside, start, len(real))
        assert told(events, inside) == real
        revisions = [event.kv.mod_revision for event in events]
        assert revisions == sorted(set(revisions))

    place.run(scenario)


def test_watch_passes_from_the_past_to_the_present_without_a_gap(place: Place) -> None:
    async def scenario(store: Store) -> None:
        start = await put(store, place.prefix + "n", b"start")

        async def write() -> None:
            for n in range(200):
                await put(store, place.prefix + "n", str(n).encode())

        writer = asyncio.create_task(write())
        events = await gather_events(store, place.prefix, start, 200)
        await writer
        assert [event.kv.value for event in events] == [str(n).encode() for n in range(200)]
        assert [event.kv.version for event in events] == list(range(2, 202))

    place.run(scenario)


def test_two_watches_tell_the_same(place: Place) -> None:
    async def scenario(store: Store) -> None:
        start = await put(store, place.prefix + "a")
        both = [
            asyncio.create_task(gather_events(store, place.prefix, start, 20)) for _ in range(2)
        ]
        for n in range(20):
            await put(store, place.prefix + "a", str(n).encode())
        first, second = [await one for one in both]
        assert first == second
        assert len(first) == 20

    place.run(scenario)


def test_watch_beyond_the_stores_revision_is_refused(place: Place) -> None:
    async def scenario(store: Store) -> None:
        revision = await put(store, place.prefix + "a")
        with pytest.raises(RevisionWentBack):
            await gather_events(store, place.prefix, revision + 1_000_000, 1)

    place.run(scenario)


# -- identity ----------------------------------------------------------------------------------


def test_header_is_whole_and_outlives_the_connection(place: Place) -> None:
    headers = []

    async def scenario(store: Store) -> None:
        await store.load(place.prefix)
        headers.append(store.header())

    place.run(scenario)
    place.run(scenario)
    assert all(number > 0 for number in headers[0])
    assert headers[0][:2] == headers[1][:2]
    assert headers[0].raft_term <= headers[1].raft_term


def test_keys_and_revisions_outlive_the_connection(place: Place) -> None:
    revisions = []

    async def write(store: Store) -> None:
        await put(store, place.prefix + "a", b"1")
        revisions.append(await put(store, place.prefix + "a", b"2"))

    async def read(store: Store) -> None:
        kv = await place.find(store, "a")
        assert (kv.value, kv.version, kv.mod_revision) == (b"2", 2, revisions[0])
        assert (await store.load(place.prefix)).revision >= revisions[0]
        assert await put(store, place.prefix + "a") > revisions[0]

    place.run(write)
    place.run(read)
