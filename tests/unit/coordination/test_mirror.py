"""The mirror on a real store that needs no service, and on one whose watches can be broken."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.unit.coordination.key_values import batch, progress, put
from windrow.coordination.errors import ClusterChanged, NotFollowing, WatchBroken
from windrow.coordination.local import LocalStore
from windrow.coordination.mirror import Mirror, collect, restart_delay
from windrow.coordination.store import Delete, KeyValue, Op, Put, Snapshot, WatchBatch

PATIENCE = 10.0


class BreakableStore(LocalStore):
    """A store whose watches break when asked to, and which counts what it is asked for."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, history=1_000)
        self.loads = 0
        self.watches: list[int] = []
        self.breaking = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()
        self.cluster_of_batches: int | None = None

    async def load(self, prefix: str) -> Snapshot:
        self.loads += 1
        return await super().load(prefix)

    async def watch(self, prefix: str, after_revision: int) -> AsyncGenerator[WatchBatch, None]:
        self.watches.append(after_revision)
        await self.gate.wait()
        told = super().watch(prefix, after_revision)
        while True:
            coming = asyncio.ensure_future(anext(told))
            broken = asyncio.ensure_future(self.breaking.wait())
            try:
                await asyncio.wait({coming, broken}, return_when=asyncio.FIRST_COMPLETED)
                if broken.done():
                    self.breaking.clear()
                    raise WatchBroken("here", "as asked for")
            finally:
                broken.cancel()
                if not coming.done():
                    coming.cancel()
                    with suppress(asyncio.CancelledError):
                        await coming
            found = coming.result()
            cluster = self.cluster_of_batches or found.cluster_id
            yield WatchBatch(found.revision, found.events, cluster)

    def forget_history(self) -> None:
        """As a compaction of etcd does."""
        self._history.clear()
        self._forgotten_through = self._table.revision


async def change(store: LocalStore, *ops: Op) -> int:
    return (await store.txn([], ops)).revision


def with_mirror(
    directory: Path,
    scenario: Callable[[BreakableStore, Mirror], Awaitable[None]],
    watch_delay: float = 0.001,
) -> None:
    async def run() -> None:
        store = BreakableStore(directory)
        mirror = Mirror(store, "p/", watch_delay)
        try:
            await asyncio.wait_for(scenario(store, mirror), PATIENCE)
        finally:
            await mirror.stop()
            await store.close()

    asyncio.run(run())


def keys(mirror: Mirror) -> list[str]:
    return [kv.key for kv in mirror.prefixed("p/")]


def test_mirror_follows_the_store(tmp_path: Path) -> None:
    async def scenario(store: BreakableStore, mirror: Mirror) -> None:
        await change(store, Put("p/a", b"1"), Put("q/a", b""))
        await mirror.start()
        assert keys(mirror) == ["p/a"]
        revision = await change(store, Put("p/b", b"2"), Delete("p/a"))
        await mirror.wait_revision(revision)
        assert mirror.revision == revision
        assert keys(mirror) == ["p/b"]
        found = mirror.get("p/b")
        assert found is not None
        assert found.value == b"2"

    with_mirror(tmp_path, scenario)


def test_wait_returns_at_once_for_what_a_load_has_covered(tmp_path: Path) -> None:
    """Even if nothing of it is left to see: its latest change was a deletion."""

    async def scenario(store: BreakableStore, mirror: Mirror) -> None:
        await change(store, Put("p/a", b""))
        revision = await change(store, Delete("p/a"))
        await mirror.start()
        await mirror.wait_revision(revision)
        assert mirror.revision == 0

    with_mirror(tmp_path, scenario)


def test_waiters_are_woken_in_turn_and_only_when_their_revision_has_come(tmp_path: Path) -> None:
    async def scenario(store: BreakableStore, mirror: Mirror) -> None:
        await mirror.start()
        revision = await change(store, Put("p/a", b""))
        late = asyncio.create_task(mirror.wait_revision(revision + 1))
        await mirror.wait_revision(revision)
        assert not late.done()
        await change(store, Put("p/a", b"2"))
        await late
        assert mirror.revision == revision + 1

    with_mirror(tmp_path, scenario)


def test_observers_see_the_new_copy_before_any_waiter_does(tmp_path: Path) -> None:
    async def scenario(store: BreakableStore, mirror: Mirror) -> None:
        seen: list[tuple[int, list[str]]] = []
        mirror.observers.append(lambda m: seen.append((m.revision, keys(m))))
        await change(store, Put("p/a", b""))
        await mirror.start()
        revision = await change(store, Put("p/b", b""))
        await mirror.wait_revision(revision)
        assert seen == [(revision - 1, ["p/a"]), (revision, ["p/a", "p/b"])]

    with_mirror(tmp_path, scenario)


def test_burst_of_changes_is_one_change_of_the_copy(tmp_path: Path) -> None:
    async def scenario(store: BreakableStore, mirror: Mirror) -> None:
        await mirror.start()
        swaps: list[int] = []
        mirror.observers.append(lambda m: swaps.append(m.revision))
        for n in range(20):
            revision = await change(store, Put(f"p/{n}", b""))
        await mirror.wait_revision(revision)
        assert len(swaps) < 5
        assert len(keys(mirror)) == 20

    with_mirror(tmp_path, scenario, watch_delay=0.5)


def test_change_outside_the_prefix_calls_no_observer(tmp_path: Path) -> None:
    async def scenario(store: BreakableStore, mirror: Mirror) -> None:
        await mirror.start()
        swaps: list[int] = []
        mirror.observers.append(lambda m: swaps.append(m.revision))
        for n in range(3):
            await change(store, Put("q/a", str(n).encode()))
        revision = await change(store, Put("p/a", b""))
        await mirror.wait_revision(revision)
        assert swaps == [revision]

    with_mirror(tmp_path, scenario)


def test_broken_watch_goes_on_where_it_was_and_misses_nothing(tmp_path: Path) -> None:
    async def scenario(store: BreakableStore, mirror: Mirror) -> None:
        await mirror.start()
        for n in range(5):
            revision = await change(store, Put(f"p/{n}", b""))
            await mirror.wait_revision(revision)
            store.breaking.set()
        revision = await change(store, Put("p/last", b""))
        await mirror.wait_revision(revision)
        assert len(keys(mirror)) == 6
        assert store.loads == 1
        assert len(store.watches) > 3

    with_mirror(tmp_path, scenario)


def test_compacted_store_is_loaded_again_and_nothing_is_missed(tmp_path: Path) -> None:
    async def scenario(store: BreakableStore, mirror: Mirror) -> None:
        await change(store, Put("p/doomed", b""))
        await mirror.start()
        revision = await change(store, Put("p/a", b""))
        await mirror.wait_revision(revision)
        store.gate.clear()
        store.breaking.set()
        revision = await change(store, Put("p/b", b""), Delete("p/doomed"))
        store.forget_history()
        store.gate.set()
        await mirror.wait_revision(revision)
        assert keys(mirror) == ["p/a", "p/b"]
        assert store.loads == 2

    with_mirror(tmp_path, scenario)


def test_another_cluster_ends_the_mirror_and_whoever_waits_is_told(tmp_path: Path) -> None:
    async def scenario(store: BreakableStore, mirror: Mirror) -> None:
        await mirror.start()
        waiting = asyncio.create_task(mirror.wait_revision(10_000))
        await asyncio.sleep(0)
        store.cluster_of_batches = 1
        await change(store, Put("p/a", b""))
        with pytest.raises(ClusterChanged):
            await mirror.wait_failed()
        with pytest.raises(NotFollowing, match="cluster 1 answers"):
            await waiting
        with pytest.raises(NotFollowing):
            await mirror.wait_revision(10_000)

    with_mirror(tmp_path, scenario)


def test_observer_that_raises_ends_the_mirror(tmp_path: Path) -> None:
    async def scenario(store: BreakableStore, mirror: Mirror) -> None:
        await mirror.start()

        def observe(mirror: Mirror) -> None:
            raise ZeroDivisionError("a mistake of ours")

        mirror.observers.append(observe)
        await change(store, Put("p/a", b""))
        with pytest.raises(ZeroDivisionError):
            await mirror.wait_failed()

    with_mirror(tmp_path, scenario)


def test_stopped_mirror_tells_whoever_waits(tmp_path: Path) -> None:
    async def scenario(store: BreakableStore, mirror: Mirror) -> None:
        await mirror.start()
        waiting = asyncio.create_task(mirror.wait_revision(10_000))
        await asyncio.sleep(0)
        await mirror.stop()
        with pytest.raises(NotFollowing, match="it was stopped"):
            await waiting
        await mirror.wait_failed()
        await mirror.stop()

    with_mirror(tmp_path, scenario)


def test_waiter_that_gives_up_is_forgotten(tmp_path: Path) -> None:
    async def scenario(store: BreakableStore, mirror: Mirror) -> None:
        await mirror.start()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(mirror.wait_revision(10_000), 0.01)
        revision = await change(store, Put("p/a", b""))
        await mirror.wait_revision(revision)
        assert mirror._waiters == []

    with_mirror(tmp_path, scenario)


def test_decoded_values_follow_and_bad_ones_are_ignored(tmp_path: Path) -> None:
    async def run() -> None:
        def decode(kv: KeyValue) -> int:
            return int(kv.value)

        store = LocalStore(tmp_path)
        mirror = Mirror(store, "p/", 0.001, {"p/": decode})
        await mirror.start()
        await mirror.wait_revision(await change(store, Put("p/a", b"1"), Put("p/b", b"bad")))
        assert keys(mirror) == ["p/a"]
        await mirror.wait_revision(await change(store, Put("p/a", b"bad"), Put("p/b", b"2")))
        assert (mirror.decoded("p/a"), mirror.decoded("p/b")) == (1, 2)
        await mirror.stop()
        await store.close()

    asyncio.run(run())


def test_restarts_are_quick_at_first_and_then_slow() -> None:
    assert [restart_delay(failures) for failures in range(9)] == [0, 0, 0.005, 2, 3, 4, 5, 5, 5]


def test_restarts_slow_down_while_each_watch_comes_to_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is created and broken at once must not be tried in a tight loop."""
    slept: list[float] = []
    sleep = asyncio.sleep

    async def note_sleep(seconds: float) -> None:
        slept.append(seconds)
        await sleep(0)

    class BrokenStore(LocalStore):
        async def watch(self, prefix: str, after_revision: int) -> AsyncGenerator[WatchBatch, None]:
            raise WatchBroken("here", "always")
            yield  # type: ignore[unreachable]

    async def run() -> None:
        store = BrokenStore(tmp_path)
        mirror = Mirror(store, "p/")
        await mirror.start()
        while len(slept) < 8:
            await sleep(0)
        await mirror.stop()
        await store.close()

    monkeypatch.setattr(asyncio, "sleep", note_sleep)
    asyncio.run(run())
    assert slept[:8] == [0, 0, 0.005, 2, 3, 4, 5, 5]


def test_what_was_gathered_is_given_before_the_error_that_ends_a_watch() -> None:
    async def watch() -> AsyncGenerator[WatchBatch, None]:
        yield batch(put("a", at=2))
        yield progress(3)
        raise WatchBroken("here", "at last")

    async def run() -> None:
        gathering = collect(watch(), 5.0)
        assert await anext(gathering) == [batch(put("a", at=2)), progress(3)]
        with pytest.raises(WatchBroken, match="at last"):
            await anext(gathering)

    asyncio.run(run())
