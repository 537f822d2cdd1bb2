"""The persister: what is uploaded when, and what becomes of the spool's file."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.journal.fragments.spooling import (
    JOURNAL,
    commit,
    durable_spool,
    recovered,
    roll,
)
from windrow.clock import ManualClock
from windrow.journal.codec import Codec
from windrow.journal.fragments.content import CompletedSpool
from windrow.journal.fragments.errors import StoreError, StoreForbidden
from windrow.journal.fragments.persister import Persister
from windrow.journal.fragments.spool_file import escaped
from windrow.journal.fragments.stores import FileStore, Store, Stores, list_fragments
from windrow.journal.labels import LabelSet
from windrow.journal.spec import FragmentSpec, JournalSpec

SPEC = JournalSpec(
    JOURNAL, replication=1, fragment=FragmentSpec(1024, Codec.NONE, ("file:///one/",), 60.0)
)


class Place:
    """A root with two stores, and spools that are completed into it."""

    def __init__(self, path: Path) -> None:
        self.spec: JournalSpec | None = SPEC
        self.spools = path / "spools"
        self.root = path / "root"
        for name in ("one", "two"):
            (self.root / name).mkdir(parents=True)
        self.stores: Stores = Stores(self.root)
        self.spool, self.observer = durable_spool(self.spools)

    def persister(self, **settings: float) -> Persister:
        return Persister(self.stores, lambda _: self.spec, clock=ManualClock(), **settings)  # type: ignore[arg-type]

    async def completed(self, content: bytes = b"content", primary: bool = True) -> CompletedSpool:
        commit(self.spool, content, LabelSet.of({"region": "north"}))
        roll(self.spool)
        await self.spool.flush()
        spool = self.observer.completed[-1]
        spool.primary = primary
        return spool

    def stored(self, store: str = "one") -> list[str]:
        found = list_fragments(FileStore(f"file:///{store}/", self.root), JOURNAL)
        return [fragment.content_path() for fragment in found]

    def spool_files(self) -> int:
        return len(list((self.spools / escaped(JOURNAL)).iterdir()))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


async def until_idle(persister: Persister) -> None:
    async with asyncio.timeout(30):
        while persister._uploads:
            await asyncio.wait(persister._uploads)


def test_spool_of_a_primary_is_uploaded_at_once_and_its_file_goes(place: Place) -> None:
    async def scenario() -> None:
        persister = place.persister()
        spool = await place.completed()
        assert place.spool_files() == 2
        persister.add(spool)
        await until_idle(persister)
        assert place.stored() == [spool.fragment.content_path()]
        assert place.spool_files() == 1
        assert spool.read_at(0, 7) == b"content"
        assert persister.outcomes == {"persisted": 1}
        await persister.drain()

    asyncio.run(scenario())
    assert recovered(place.spools).completed == ()


def test_spool_of_a_replica_waits_for_the_third_tick(place: Place) -> None:
    async def scenario() -> None:
        persister = place.persister()
        persister.add(await place.completed(primary=False))
        for _ in range(2):
            persister.on_tick()
            await until_idle(persister)
            assert place.stored() == []
            assert persister.waiting == 1
        persister.on_tick()
        await until_idle(persister)
        assert len(place.stored()) == 1
        assert persister.waiting == 0
        await persister.drain()

    asyncio.run(scenario())


def test_queue_is_moved_on_by_the_clock(place: Place) -> None:
    async def scenario() -> None:
        clock = ManualClock()
        persister = Persister(place.stores, lambda _: SPEC, tick=10.0, clock=clock)
        running = asyncio.create_task(persister.run())
        persister.add(await place.completed(primary=False))
        for _ in range(3):
            await asyncio.sleep(0)
            clock.advance(10)
            await asyncio.sleep(0)
        await until_idle(persister)
        assert len(place.stored()) == 1
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await persister.drain()

    asyncio.run(scenario())


def test_upload_that_fails_is_tried_again_and_its_file_kept(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        persister = place.persister()
        (place.root / "one").rmdir()
        persister.add(await place.completed())
        with caplog.at_level(logging.WARNING):
            await until_idle(persister)
        assert "queued again" in caplog.text
        assert (persister.outcomes["failed"], place.spool_files()) == (1, 2)
        (place.root / "one").mkdir()
        for _ in range(3):
            persister.on_tick()
        await until_idle(persister)
        assert (len(place.stored()), place.spool_files()) == (1, 1)
        await persister.drain()

    asyncio.run(scenario())


def test_store_that_changes_while_a_spool_waits_is_the_one_it_goes_to(place: Place) -> None:
    async def scenario() -> None:
        persister = place.persister()
        persister.add(await place.completed(primary=False))
        moved = replace(SPEC.fragment, stores=("file:///two/",))
        place.spec = replace(SPEC, fragment=moved)
        assert await persister.drain() == []

    asyncio.run(scenario())
    assert (place.stored("one"), len(place.stored("two"))) == ([], 1)


def test_spool_of_a_deleted_journal_is_dropped(place: Place) -> None:
    async def scenario() -> None:
        persister = place.persister()
        place.spec = None
        persister.add(await place.completed())
        await persister.drain()
        assert persister.outcomes == {"dropped": 1}

    asyncio.run(scenario())
    assert (place.stored(), place.spool_files()) == ([], 1)


def test_spool_of_a_journal_without_stores_is_kept(place: Place) -> None:
    """It counts as persisted, but its file is the only copy there will ever be."""

    async def scenario() -> None:
        persister = place.persister()
        place.spec = replace(SPEC, fragment=replace(SPEC.fragment, stores=()))
        persister.add(await place.completed())
        assert await persister.drain() == []
        assert persister.outcomes == {"kept": 1}

    asyncio.run(scenario())
    (kept,) = recovered(place.spools).completed
    assert kept.read_at(0, 100) == b"content"


def test_postfix_is_evaluated_for_each_spool(place: Place) -> None:
    async def scenario() -> None:
        template = (
            'r={{ .Spool.Registers.ValueOf "region" }}/{{ .Spool.FirstAppendTime.Format "2006" }}'
        )
        fragment = replace(SPEC.fragment, path_postfix_template=template)
        place.spec = replace(SPEC, fragment=fragment)
        persister = place.persister()
        persister.add(await place.completed())
        await persister.drain()

    asyncio.run(scenario())
    assert place.stored()[0].startswith(f"{JOURNAL}/r=north/1970/")


def test_faulty_postfix_keeps_the_spool_and_says_so(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        fragment = replace(SPEC.fragment, path_postfix_template="../{{ .Spool.Begin }}")
        place.spec = replace(SPEC, fragment=fragment)
        persister = place.persister()
        persister.add(await place.completed())
        assert len(await persister.drain()) == 1

    asyncio.run(scenario())
    assert "path postfix template" in caplog.text
    assert place.spool_files() == 2


# -- stores that misbehave -------------------------------------------------------------------------


class Scripted(Stores):
    """Stores that wait, or refuse, as the test wants."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.go_on = threading.Event()
        self.forbidden: set[str] = set()
        self.uploading, self.most_uploading = 0, 0
        self._lock = threading.Lock()

    def open(self, url: str) -> Store:
        store = super().open(url)
        real = FileStore(url, Path(store._root))  # type: ignore[attr-defined]

        def put(path: str, content: Iterable[bytes], encoding: str = "") -> None:
            if url in self.forbidden:
                raise StoreForbidden(url, "put", "who are you?")
            with self._lock:
                self.uploading += 1
                self.most_uploading = max(self.most_uploading, self.uploading)
            if not self.go_on.wait(30):
                raise StoreError(url, "put", "nobody let it go on")
            with self._lock:
                self.uploading -= 1
            real.put(path, content, encoding)

        store.put = put  # type: ignore[method-assign]
        return store


def test_no_more_than_so_many_uploads_run_at_once(place: Place) -> None:
    async def scenario() -> None:
        place.stores = scripted = Scripted(place.root)
        persister = place.persister(concurrency=3)
        for number in range(10):
            persister.add(await place.completed(b"content %d" % number))
        async with asyncio.timeout(30):
            while scripted.uploading < 3:  # noqa: ASYNC110 - counted by threads
                await asyncio.sleep(0.001)
        scripted.go_on.set()
        await persister.drain()
        assert scripted.most_uploading == 3

    asyncio.run(scenario())
    assert len(place.stored()) == 10


def test_upload_that_hangs_is_given_up_and_queued_again(place: Place) -> None:
    async def scenario() -> None:
        place.stores = scripted = Scripted(place.root)
        persister = place.persister(upload_timeout=0.05)
        persister.add(await place.completed())
        await until_idle(persister)
        assert persister.outcomes["failed"] == 1
        assert persister.waiting == 1
        scripted.go_on.set()
        for _ in range(3):
            persister.on_tick()
        await persister.drain()

    asyncio.run(scenario())
    assert len(place.stored()) == 1


@pytest.mark.parametrize("is_exiting", [False, True])
def test_store_that_refuses_us_is_replaced_by_the_next_only_at_the_end(
    place: Place, is_exiting: bool
) -> None:
    async def scenario() -> None:
        place.stores = scripted = Scripted(place.root)
        scripted.go_on.set()
        scripted.forbidden.add("file:///one/")
        both = ("file:///one/", "file:///two/")
        place.spec = replace(SPEC, fragment=replace(SPEC.fragment, stores=both))
        persister = place.persister()
        persister.add(await place.completed())
        await until_idle(persister)
        assert place.stored("two") == []
        if is_exiting:
            assert await persister.drain() == []
            assert len(place.stored("two")) == 1
        else:
            assert persister.waiting == 1

    asyncio.run(scenario())


def test_exit_uploads_what_waits_in_every_stage(place: Place) -> None:
    async def scenario() -> None:
        persister = place.persister()
        for number in range(3):
            persister.add(await place.completed(b"content %d" % number, primary=False))
            persister.on_tick()
        assert await persister.drain() == []
        assert persister.waiting == 0

    asyncio.run(scenario())
    assert len(place.stored()) == 3
    assert place.spool_files() == 1
