"""What the local store promises beyond the contract that it shares with etcd."""

from __future__ import annotations

import asyncio
import os
import threading
from contextlib import aclosing, suppress
from pathlib import Path

import pytest

from windrow.coordination.errors import Compacted, DirectoryInUse, StoreClosed
from windrow.coordination.local import LocalStore
from windrow.coordination.store import Compare, Delete, Put, WatchBatch


async def put(store: LocalStore, key: str, value: bytes = b"", lease: int = 0) -> int:
    return (await store.txn([], [Put(key, value, lease)])).revision


def test_keys_of_leases_are_gone_when_the_next_process_opens_the_store(tmp_path: Path) -> None:
    async def first() -> int:
        store = LocalStore(tmp_path)
        lease = await store.grant_lease(60)
        await put(store, "leased", lease=lease.id)
        revision = await put(store, "free")
        await store.close()
        return revision

    async def second(before: int) -> None:
        store = LocalStore(tmp_path)
        snapshot = await store.load("")
        assert [kv.key for kv in snapshot.kvs] == ["free"]
        assert snapshot.revision == before + 1
        # Whoever had seen the key is told that it was deleted.
        async with aclosing(store.watch("", before)) as batches:
            batch = await anext(batches)
        assert [(e.kind.value, e.kv.key) for e in batch.events] == [("delete", "leased")]
        await store.close()

    asyncio.run(second(asyncio.run(first())))


def test_two_stores_cannot_share_a_directory(tmp_path: Path) -> None:
    async def run() -> None:
        store = LocalStore(tmp_path)
        with pytest.raises(DirectoryInUse):
            LocalStore(tmp_path)
        await store.close()
        await LocalStore(tmp_path).close()

    asyncio.run(run())


def test_compaction_loses_nothing_and_no_revision_comes_twice(tmp_path: Path) -> None:
    async def run() -> None:
        store = LocalStore(tmp_path, compact_at=2_000)
        revisions = [await put(store, f"key{n % 10}", str(n).encode() * 10) for n in range(100)]
        await store.txn([], [Delete("key3")])
        before = await store.load("")
        await store.close()
        assert (tmp_path / "1.log").exists() is False

        store = LocalStore(tmp_path, compact_at=2_000)
        assert await store.load("") == before
        assert await put(store, "new") == before.revision + 1
        await store.close()
        assert revisions == sorted(set(revisions))

    asyncio.run(run())


def test_history_that_was_dropped_is_called_compacted(tmp_path: Path) -> None:
    async def run() -> None:
        store = LocalStore(tmp_path, history=10)
        first = await put(store, "a")
        for _ in range(50):
            last = await put(store, "a")
        with pytest.raises(Compacted):
            async with aclosing(store.watch("", first)) as batches:
                await anext(batches)
        async with aclosing(store.watch("", last - 5)) as batches:
            assert (await anext(batches)).revision == last - 4
        await store.close()

    asyncio.run(run())


def test_cancelled_transaction_is_either_whole_in_memory_and_on_disk_or_in_neither(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sync goes on in its thread when who waited for it is gone."""
    reached, go_on = threading.Event(), threading.Event()
    sync = os.fdatasync

    def slow_sync(descriptor: int) -> None:
        reached.set()
        assert go_on.wait(10)
        sync(descriptor)

    async def run() -> None:
        store = LocalStore(tmp_path)
        monkeypatch.setattr(os, "fdatasync", slow_sync)
        task = asyncio.create_task(put(store, "a"))
        assert await asyncio.to_thread(reached.wait, 10)
        assert (await store.load("")).kvs == ()  # not durable, so not visible
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        go_on.set()
        assert not (await store.txn([Compare.version("a", 0)], [Put("a", b"again")])).succeeded
        in_memory = await store.load("")
        await store.close()
        monkeypatch.undo()
        reopened = LocalStore(tmp_path)
        assert await reopened.load("") == in_memory
        await reopened.close()

    asyncio.run(run())


def test_concurrent_claims_have_one_winner(tmp_path: Path) -> None:
    async def run() -> None:
        store = LocalStore(tmp_path)
        claims = [
            store.txn([Compare.version("leader", 0)], [Put("leader", str(n).encode())])
            for n in range(20)
        ]
        results = await asyncio.gather(*claims)
        assert sum(result.succeeded for result in results) == 1
        (leader,) = (await store.load("")).kvs
        assert {r.revision for r in results} == {leader.mod_revision}
        await store.close()

    asyncio.run(run())


def test_closed_store_ends_its_watches_and_takes_nothing_more(tmp_path: Path) -> None:
    async def run() -> None:
        store = LocalStore(tmp_path)

        async def watch() -> list[WatchBatch]:
            return [batch async for batch in store.watch("", 1)]

        watching = asyncio.create_task(watch())
        await put(store, "a")
        await store.close()
        await store.close()
        with pytest.raises(StoreClosed):
            await watching
        with pytest.raises(StoreClosed):
            await put(store, "b")
        with pytest.raises(StoreClosed):
            await store.load("")
        with pytest.raises(StoreClosed):
            await store.grant_lease(1)

    asyncio.run(run())
