"""Stores: a directory, and S3 as a local server speaks it."""

from __future__ import annotations

import asyncio
import errno
import gzip
import hashlib
import logging
import os
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import cramjam
import pytest
from moto.server import ThreadedMotoServer

from tests.unit.journal.fragments.spooling import JOURNAL, Remembering, commit, roll
from windrow.clock import ManualClock
from windrow.journal.codec import Codec
from windrow.journal.errors import InvalidField
from windrow.journal.fragment import Fragment
from windrow.journal.fragments.codecs import BATCH, compress, decompress
from windrow.journal.fragments.content import CompletedSpool
from windrow.journal.fragments.errors import (
    CorruptFragment,
    InvalidStore,
    StoreError,
    StoreForbidden,
)
from windrow.journal.fragments.spool import Spool
from windrow.journal.fragments.spool_file import MemoryFiles
from windrow.journal.fragments.stores import (
    FileStore,
    S3Store,
    Store,
    StoreHealth,
    Stores,
    check_delete,
    check_store,
    list_all,
    list_fragments,
    persist,
    read_stored,
    read_stored_async,
)

BUCKET = "windrow-fragments"
CONTENT = b"some content " * 200_000


@pytest.fixture(scope="module")
def s3_endpoint() -> Iterator[str]:
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    environment = pytest.MonkeyPatch()
    environment.setenv("AWS_ACCESS_KEY_ID", "nobody")
    environment.setenv("AWS_SECRET_ACCESS_KEY", "nothing")
    try:
        url = f"http://{host}:{port}"
        request = urllib.request.Request(f"{url}/{BUCKET}", method="PUT")
        urllib.request.urlopen(request, timeout=10).close()
        yield url
    finally:
        environment.undo()
        server.stop()


@pytest.fixture(params=["file", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "file":
        (tmp_path / "base").mkdir()
        return FileStore("file:///base/", tmp_path)
    endpoint = request.getfixturevalue("s3_endpoint")
    return S3Store(f"s3://{BUCKET}/{os.path.basename(tmp_path)}/?endpoint={endpoint}")


def completed(content: bytes, codec: Codec) -> CompletedSpool:
    observer = Remembering()
    spool = Spool(JOURNAL, MemoryFiles(), observer, codec=codec)
    for at in range(0, len(content), 300_000):
        commit(spool, content[at : at + 300_000])
    roll(spool)
    return observer.completed[0]


# -- every store -----------------------------------------------------------------------------------


def test_object_is_kept_found_listed_and_forgotten(store: Store) -> None:
    path = "a/journal/sub/object"
    assert not store.exists(path)
    store.put(path, [b"con", b"tent"])
    assert store.exists(path)
    assert b"".join(store.get(path)) == b"content"
    (found,) = store.list("a/journal/")
    assert found.path == "sub/object"
    assert abs(found.mod_time - time.time()) < 60
    store.put(path, [b"replaced"])
    assert b"".join(store.get(path)) == b"replaced"
    store.remove(path)
    store.remove(path)
    assert not store.exists(path)
    assert list(store.list("a/journal/")) == []


def test_listing_of_a_journal_leaves_out_those_whose_names_it_begins(store: Store) -> None:
    store.put("a/journal/one", [b"1"])
    store.put("a/journal-two/two", [b"2"])
    assert [found.path for found in store.list("a/journal/")] == ["one"]
    assert list(store.list("b/none/")) == []


def test_object_that_is_missing_is_a_store_error(store: Store) -> None:
    with pytest.raises(StoreError, match=r"get failed"):
        list(store.get("not/there"))


def test_upload_that_fails_in_the_middle_leaves_nothing(store: Store) -> None:
    def broken() -> Iterator[bytes]:
        yield b"x" * 1_000
        raise CorruptFragment("it", "ends early")

    with pytest.raises((CorruptFragment, StoreError)):
        store.put("a/journal/broken", broken())
    assert list(store.list("a/journal/")) == []


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
@pytest.mark.parametrize("postfix", ["", "date=2024-01-01/hour=7"])
def test_fragment_is_persisted_listed_and_read_from_any_offset(
    store: Store, codec: Codec, postfix: str
) -> None:
    spool = completed(CONTENT, codec)
    fragment = persist(store, spool, postfix)
    (listed,) = list_fragments(store, JOURNAL)
    assert listed.mod_time > 0
    assert (listed.begin, listed.end, listed.sum) == (0, len(CONTENT), spool.fragment.sum)
    assert (listed.path_postfix, listed.backing_store) == (postfix, store.url)
    for offset in (0, 1, BATCH, BATCH + 1, len(CONTENT) - 1):
        assert b"".join(read_stored(store, listed, offset)) == CONTENT[offset:]
    assert fragment.content_path() == listed.content_path()


def test_fragment_that_is_there_already_is_not_uploaded_again(store: Store) -> None:
    fragment = persist(store, completed(b"content", Codec.NONE))
    store.put(fragment.content_path(), [b"marked!"])
    persist(store, completed(b"content", Codec.NONE))
    assert b"".join(store.get(fragment.content_path())) == b"marked!"


def test_fragment_cut_short_in_its_store_is_found_out(store: Store) -> None:
    fragment = persist(store, completed(b"content", Codec.NONE))
    store.put(fragment.content_path(), [b"cont"])
    with pytest.raises(CorruptFragment, match="holds 4 bytes of 7"):
        list(read_stored(store, fragment, 0))


def test_fragment_is_read_on_an_event_loop(store: Store) -> None:
    fragment = persist(store, completed(CONTENT, Codec.GZIP))

    async def scenario() -> bytes:
        return b"".join([p async for p in read_stored_async(store, fragment, 5)])

    assert asyncio.run(scenario()) == CONTENT[5:]


def test_what_is_no_fragment_is_skipped_with_a_warning(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    persist(store, completed(b"content", Codec.NONE))
    store.put(f"{JOURNAL}/README.txt", [b"hello"])
    with caplog.at_level(logging.WARNING):
        assert len(list_fragments(store, JOURNAL)) == 1
    assert "README.txt" in caplog.text


def test_healthy_store_passes_its_checks(store: Store) -> None:
    check_store(store)
    check_delete(store, "some/prefix/")
    check_delete(store)


# -- codecs with an extra --------------------------------------------------------------------------


@pytest.mark.parametrize("codec", [Codec.ZSTANDARD, Codec.SNAPPY])
@pytest.mark.parametrize("size", [1, 7, 1_000, 1_000_000])
def test_compressed_stream_is_read_however_it_is_cut(codec: Codec, size: int) -> None:
    content = os.urandom(150_000) + bytes(1_500_000) if size > 7 else b"short content"
    stored = b"".join(compress(codec, [content]))
    cut = [stored[at : at + size] for at in range(0, len(stored), size)]
    assert b"".join(decompress(codec, cut)) == content
    assert b"".join(decompress(codec, cut, skip=10)) == content[10:]
    with pytest.raises(CorruptFragment):
        list(decompress(codec, [stored[:-1]]))
    with pytest.raises(CorruptFragment):
        list(decompress(codec, [b"X" * 64]))


def test_zstd_of_other_writers_is_read() -> None:
    """One frame with a checksum and many blocks, and frames that are to be skipped."""
    content = os.urandom(700_000)
    writer = cramjam.zstd.Compressor()
    for at in range(0, len(content), 100_000):
        writer.compress(content[at : at + 100_000])
        writer.flush()
    skippable = b"\x53\x2a\x4d\x18\x03\x00\x00\x00abc"
    whole = bytes(cramjam.zstd.compress(content))
    stored = skippable + whole
    assert b"".join(decompress(Codec.ZSTANDARD, [stored[:5], stored[5:]])) == content


# -- the directory ---------------------------------------------------------------------------------


def test_file_store_never_makes_its_base(tmp_path: Path) -> None:
    """A base that is missing is most often not mounted: fragments would go to the wrong disk."""
    store = FileStore("file:///base/", tmp_path)
    with pytest.raises(StoreError, match="does not exist; create it"):
        store.put("a/journal/x", [b"x"])
    with pytest.raises(StoreError, match="does not exist"):
        list(store.list("a/journal/"))


def test_partial_file_is_neither_listed_nor_left(tmp_path: Path) -> None:
    (tmp_path / "base/a/journal").mkdir(parents=True)
    (tmp_path / "base/a/journal/.partial-left-by-a-crash").touch()
    store = FileStore("file:///base/", tmp_path)
    seen = []

    def watching() -> Iterator[bytes]:
        yield b"x"
        seen.extend(sorted(os.listdir(tmp_path / "base/a/journal")))

    store.put("a/journal/name", watching())
    assert [name[:14] for name in seen] == [".partial-left-", ".partial-name-"]
    assert [found.path for found in store.list("a/journal/")] == ["name"]
    assert len(os.listdir(tmp_path / "base/a/journal")) == 2


@pytest.mark.parametrize(
    "path",
    [
        "../out",
        "a/../../out",
        "/etc/passwd",
        "a//b",
        "a/./b",
        "",
        "a\0b",
        "..",
        ".",
        "/",
        "link/out",
    ],
)
def test_path_that_leads_out_of_a_file_store_is_refused(tmp_path: Path, path: str) -> None:
    (tmp_path / "root/base").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (tmp_path / "root/base/link").symlink_to(tmp_path / "outside")
    store = FileStore("file:///base/", tmp_path / "root")
    for call in (store.exists, store.remove, lambda p: store.put(p, [b"x"])):
        with pytest.raises(InvalidStore, match="leads out"):
            call(path)
    for pieces in (store.get, store.list):
        with pytest.raises(InvalidStore, match="leads out"):
            list(pieces(path))
    assert os.listdir(tmp_path / "outside") == []


def test_file_that_is_a_link_out_of_the_root_is_refused(tmp_path: Path) -> None:
    """Whoever may write to the store would be served any file that the broker may read."""
    (tmp_path / "root/base/a").mkdir(parents=True)
    (tmp_path / "secret").write_bytes(b"secret")
    (tmp_path / "root/base/a/inside").write_bytes(b"inside")
    (tmp_path / "root/base/a/link").symlink_to(tmp_path / "secret")
    (tmp_path / "root/base/a/near").symlink_to(tmp_path / "root/base/a/inside")
    store = FileStore("file:///base/", tmp_path / "root")
    for call in (store.exists, store.remove, lambda p: store.put(p, [b"x"])):
        with pytest.raises(InvalidStore, match="leads out"):
            call("a/link")
    with pytest.raises(InvalidStore, match="leads out"):
        list(store.get("a/link"))
    assert (tmp_path / "secret").read_bytes() == b"secret"
    assert b"".join(store.get("a/near")) == b"inside"


def test_replacement_cannot_lead_out_of_the_store(tmp_path: Path) -> None:
    (tmp_path / "base").mkdir()
    store = FileStore("file:///base/?find=a/&replace=../../", tmp_path)
    with pytest.raises(InvalidStore, match="leads out"):
        store.put("a/journal/x", [b"x"])


def test_first_occurrence_is_replaced_and_the_fragment_still_found(tmp_path: Path) -> None:
    (tmp_path / "base").mkdir()
    store = FileStore("file:///base/?find=a/j&replace=moved/j", tmp_path)
    fragment = persist(store, completed(b"content", Codec.NONE))
    assert (tmp_path / "base/moved/journal" / fragment.content_name()).is_file()
    assert [f.end for f in list_fragments(store, JOURNAL)] == [7]
    assert store.signed_url(fragment.content_path(), 60).startswith("file:///base/moved/journal/")


def test_directory_we_may_not_write_is_told_apart(tmp_path: Path) -> None:
    (tmp_path / "base").mkdir()
    store = FileStore("file:///base/", tmp_path)
    refused = PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    with (
        patch("os.makedirs", side_effect=refused),
        pytest.raises(StoreForbidden, match=r"put failed: .*Permission denied"),
    ):
        store.put("a/journal/x", [b"x"])


# -- the bucket ------------------------------------------------------------------------------------


def test_signed_url_of_s3_lets_anybody_fetch(s3_endpoint: str) -> None:
    store = S3Store(f"s3://{BUCKET}/signed/?endpoint={s3_endpoint}")
    fragment = persist(store, completed(b"content", Codec.GZIP))
    url = store.signed_url(fragment.content_path(), 60)
    with urllib.request.urlopen(url, timeout=10) as answer:
        assert gzip.decompress(answer.read()) == b"content"


def test_offloaded_fragment_says_how_it_is_encoded(s3_endpoint: str) -> None:
    store = S3Store(f"s3://{BUCKET}/offloaded/?endpoint={s3_endpoint}")
    fragment = persist(store, completed(b"content", Codec.GZIP_OFFLOAD_DECOMPRESSION))
    url = store.signed_url(fragment.content_path(), 60)
    with urllib.request.urlopen(url, timeout=10) as answer:
        assert answer.headers["Content-Encoding"] == "gzip"
        assert gzip.decompress(answer.read()) == b"content"


def test_large_fragment_is_uploaded_in_parts(s3_endpoint: str) -> None:
    store = S3Store(f"s3://{BUCKET}/large/?endpoint={s3_endpoint}")
    content = os.urandom(1 << 20) * 12
    fragment = persist(store, completed(content, Codec.NONE))
    digest = hashlib.sha1()
    for piece in read_stored(store, fragment, 0):
        digest.update(piece)
    assert digest.digest() == fragment.sum


def test_bucket_that_is_not_there_is_a_store_error(s3_endpoint: str) -> None:
    store = S3Store(f"s3://no-such-bucket/x/?endpoint={s3_endpoint}")
    with pytest.raises(StoreError, match=r"s3://no-such-bucket/.*put failed"):
        store.put("a/journal/x", [b"x"])


def test_server_that_is_gone_is_a_store_error() -> None:
    retry = {"max_retries": 0}
    store = S3Store(
        "s3://bucket/x/?endpoint=http://127.0.0.1:1",
        retry_config=retry,
        access_key_id="nobody",
        secret_access_key="nothing",
    )
    with pytest.raises(StoreError, match="head failed"):
        store.exists("a/journal/x")


@pytest.mark.parametrize("argument", ["ACL=private", "profile=me", "unheard=of"])
def test_argument_that_cannot_be_honoured_is_refused(argument: str) -> None:
    with pytest.raises(InvalidStore, match=argument.partition("=")[0]):
        S3Store(f"s3://bucket/x/?{argument}")


# -- all of a broker's -----------------------------------------------------------------------------


def test_stores_are_opened_once_and_by_their_kind(tmp_path: Path) -> None:
    stores = Stores(tmp_path)
    one = stores.open("file:///base/")
    assert stores.open("file:///base/") is one
    stores.drop("file:///base/")
    assert stores.open("file:///base/") is not one
    with pytest.raises(InvalidStore, match="gs stores are not supported"):
        stores.open("gs://bucket/x/")
    with pytest.raises(InvalidField):
        stores.open("file:///../x/")
    with pytest.raises(InvalidStore, match="--file-root"):
        Stores().open("file:///base/")


def test_every_kind_is_a_directory_where_files_are_all_there_is(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    store = Stores(tmp_path, file_only=True).open("s3://bucket/x/?endpoint=http://127.0.0.1:1")
    store.put("a/journal/y", [b"content"])
    assert (tmp_path / "x/a/journal/y").read_bytes() == b"content"


def test_listing_joins_the_stores_of_a_journal(tmp_path: Path) -> None:
    urls = ["file:///one/", "file:///two/"]
    stores = Stores(tmp_path)
    for number, url in enumerate(urls):
        os.mkdir(tmp_path / url.strip("/").rpartition("/")[2])
        persist(stores.open(url), completed(b"content" * (number + 1), Codec.NONE))
    found: list[Fragment] = asyncio.run(list_all(stores, urls, JOURNAL))
    assert [(f.end, f.backing_store) for f in found] == [(7, urls[0]), (14, urls[1])]


def test_unhealthy_store_is_checked_again_until_it_is_well(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = ManualClock()
        health = StoreHealth(FileStore("file:///base/", tmp_path), clock=clock)
        for failures in range(1, 7):
            waiting = asyncio.create_task(health.wait_healthy())
            await asyncio.sleep(0)
            await health.check()
            assert health.failures == failures
            await asyncio.sleep(0)
            assert waiting.done() == (failures > 5)
            waiting.cancel()
        error = await health.wait_healthy()
        assert isinstance(error, StoreError)
        (tmp_path / "base").mkdir()
        await health.check()
        assert await health.wait_healthy() is None

    asyncio.run(scenario())


def test_checks_come_quickly_then_slowly_while_they_fail_and_rarely_while_they_do_not(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        slept: list[float] = []
        asked = asyncio.Event()
        go_on = asyncio.Semaphore(0)

        class Noting(ManualClock):
            async def sleep(self, seconds: float) -> None:
                slept.append(seconds)
                asked.set()
                await go_on.acquire()

        store = FileStore("file:///base/", tmp_path)
        health = StoreHealth(store, clock=Noting(), jitter=lambda: 1.2)
        running = asyncio.create_task(health.run())
        for number in range(1, 12):
            async with asyncio.timeout(10):
                await asked.wait()
            asked.clear()
            if number == 9:
                (tmp_path / "base").mkdir()
            if number == 10:
                (tmp_path / "base/.test/health-check").unlink()
                (tmp_path / "base/.test").rmdir()
                (tmp_path / "base").rmdir()
            go_on.release()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        failing = [0.0, 0.1, 1.0, 1.0, 10.0, 10.0, 100.0, 100.0, 100.0]
        assert slept[:11] == [*failing, 30 * 60 * 1.2, 0.0]

    asyncio.run(scenario())
