from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from itertools import islice

import pytest

from tests.fixtures.journal_server import JournalServer
from tests.integration.journal.client.serving import JOURNAL
from windrow.journal.client.requests import Chunk, Delete, ReadRequest
from windrow.journal.client.sequence import Batch
from windrow.journal.client.sync import SyncJournalClient, connect
from windrow.journal.errors import JournalNotFound
from windrow.journal.message.record import Record


@pytest.fixture
def server(scripted: JournalServer) -> JournalServer:
    scripted.create(JOURNAL)
    return scripted


@pytest.fixture
def client(server: JournalServer) -> Iterator[SyncJournalClient]:
    with connect(server.address) as client:
        yield client


def test_every_name_of_the_client_works_without_a_loop(client: SyncJournalClient) -> None:
    assert client.append(JOURNAL, b"hello").end == 5
    assert client.read(JOURNAL) == b"hello"
    assert client.write_head(JOURNAL) == 5
    assert client.list().names == (JOURNAL,)
    assert client.fragments(JOURNAL) == []
    assert list(client.chunks(ReadRequest(JOURNAL, 1))) == [Chunk(1, b"ello")]
    client.apply([Delete(JOURNAL)])
    assert client.list().names == ()


def test_an_error_is_raised_where_the_call_was_made(client: SyncJournalClient) -> None:
    with pytest.raises(JournalNotFound):
        client.append("no/such/journal", b"x")


def test_a_blocking_read_can_be_left_at_any_time(client: SyncJournalClient) -> None:
    client.append(JOURNAL, b"one")
    chunks = client.chunks(ReadRequest(JOURNAL, block=True))
    assert list(islice(chunks, 1)) == [Chunk(0, b"one")]
    client.append(JOURNAL, b"two")
    assert next(chunks) == Chunk(3, b"two")


def test_a_watch_is_an_iterator(client: SyncJournalClient) -> None:
    watch = client.watch()
    assert next(watch).names == (JOURNAL,)
    client.apply([Delete(JOURNAL)])
    assert next(watch).names == ()


def test_a_watch_that_is_left_ends_its_call(
    client: SyncJournalClient, server: JournalServer
) -> None:
    watch = client.watch()
    next(watch)
    watch.close()  # type: ignore[attr-defined]
    assert list(watch) == []


def test_writers_and_the_service_have_their_blocking_twins(client: SyncJournalClient) -> None:
    writer = client.sequenced(JOURNAL, "w")
    assert writer.append([Record(value=b"x")], "batch-1").batch == Batch("batch-1", 0, 1)
    assert writer.open().last == writer.last == Batch("batch-1", 0, 1)
    owned = client.owned(JOURNAL, "shard-0")
    assert owned.take_ownership("us", 1) is None
    assert owned.append_batch("batch-1", [Record(value=b"y")]).batch.seq == 1
    service = client.service()
    pending = [service.enqueue(JOURNAL, b"z") for _ in range(3)]
    service.flush()
    assert service.wait(pending[-1]).end == client.write_head(JOURNAL)
    service.close()


def test_threads_share_a_client(client: SyncJournalClient, server: JournalServer) -> None:
    def append() -> None:
        for _ in range(5):
            client.append(JOURNAL, b"x")

    threads = [threading.Thread(target=append) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert client.read(JOURNAL) == b"x" * 20


def test_closed_client_leaves_its_loop_to_the_next(server: JournalServer) -> None:
    """Threads do not pile up, and gRPC never has an event for a loop that is closed."""
    first = connect(server.address)
    first.append(JOURNAL, b"x")
    first.close()
    first.close()
    threads = threading.active_count()
    with connect(server.address) as second:
        assert second.thread.loop is first.thread.loop
        assert second.read(JOURNAL).endswith(b"x")
        with pytest.raises(RuntimeError, match="closed"):
            first.append(JOURNAL, b"y")
        assert threading.active_count() == threads


def test_what_grpc_tells_of_a_closed_client_is_no_error_of_another(
    server: JournalServer, client: SyncJournalClient, caplog: pytest.LogCaptureFixture
) -> None:
    """With loops that were closed, 48 of 300 rounds had "Event loop is closed" in a log."""
    is_over = threading.Event()

    def look() -> None:
        while not is_over.is_set():
            client.list()

    other = threading.Thread(target=look)
    other.start()
    try:
        for _ in range(120):
            with connect(server.address) as brief:
                watches = [brief.watch(), brief.watch()]
                assert [next(watch).names for watch in watches] == 2 * [(JOURNAL,)]
    finally:
        is_over.set()
        other.join()
    assert not caplog.records


def test_an_interrupted_call_is_cancelled(client: SyncJournalClient) -> None:
    reader = client.client.retry_reader(ReadRequest(JOURNAL, block=True))

    async def waiting() -> None:
        waited.set()
        try:
            await reader.next()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    waited, cancelled = threading.Event(), threading.Event()
    future = asyncio.run_coroutine_threadsafe(waiting(), client.thread.loop)
    assert waited.wait(10)
    future.cancel()
    assert cancelled.wait(10)
