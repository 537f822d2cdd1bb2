"""What the client promises, before the scripted server and before a real broker alike."""

from __future__ import annotations

import hashlib
import threading
import time
from pathlib import Path

import pytest

from tests.integration.journal.client.conftest import Served
from windrow.embedded.broker import Broker
from windrow.journal.client.errors import NotSequenced, WriterFenced
from windrow.journal.client.requests import Chunk, Delete, ReadRequest, Upsert
from windrow.journal.client.sequence import Batch, rebuild_registers
from windrow.journal.client.sync import SyncJournalClient
from windrow.journal.codec import Codec
from windrow.journal.errors import (
    EtcdTransactionFailed,
    JournalNotFound,
    OffsetNotYetAvailable,
    RegisterMismatch,
    WrongAppendOffset,
)
from windrow.journal.fragment import Fragment
from windrow.journal.labels import LabelSet
from windrow.journal.message.record import Record, decode_records


def records(*values: str) -> list[Record]:
    return [Record(value=value.encode()) for value in values]


def test_what_was_appended_is_what_is_read(client: SyncJournalClient, journal: str) -> None:
    first = client.append(journal, b"first,")
    second = client.append(journal, b"second")
    assert (first.begin, first.end, second.begin, second.end) == (0, 6, 6, 12)
    assert second.fragment.sum == hashlib.sha1(b"second").digest()
    assert client.read(journal) == b"first,second"
    assert client.read(journal, 3, 8) == b"st,se"
    assert client.write_head(journal) == 12


def test_a_large_append_is_one_append(client: SyncJournalClient, journal: str) -> None:
    content = bytes(range(256)) * 20_000
    done = client.append(journal, content)
    assert done.end == len(content)
    assert done.fragment.sum == hashlib.sha1(content).digest()
    assert client.read(journal) == content


def test_registers_are_checked_and_moved(client: SyncJournalClient, journal: str) -> None:
    client.append(journal, b"x", check="owner=nobody", union={"owner": "us"})
    with pytest.raises(RegisterMismatch) as raised:
        client.append(journal, b"y", check="owner=them")
    assert raised.value.registers == LabelSet.of({"owner": "us"})
    done = client.append(journal, b"y", check="owner=us", union={"owner": "them"})
    assert done.registers == LabelSet.of({"owner": "them"})
    assert client.append(journal).registers == done.registers
    assert client.read(journal) == b"xy"


def test_offsets_are_checked(client: SyncJournalClient, journal: str) -> None:
    client.append(journal, b"12345")
    with pytest.raises(WrongAppendOffset):
        client.append(journal, b"x", offset=4)
    assert client.append(journal, b"x", offset=5).begin == 5


def test_a_journal_that_does_not_exist_is_told(client: SyncJournalClient) -> None:
    with pytest.raises(JournalNotFound):
        client.append("no/such/journal", b"x")
    with pytest.raises(JournalNotFound):
        client.read("no/such/journal")


def test_a_blocking_read_follows_appends(client: SyncJournalClient, journal: str) -> None:
    client.append(journal, b"one")
    chunks = client.chunks(ReadRequest(journal, block=True))
    assert next(chunks) == Chunk(0, b"one")
    client.append(journal, b"two")
    assert next(chunks) == Chunk(3, b"two")
    chunks.close()  # type: ignore[attr-defined]


def test_a_read_beyond_the_head_tells_the_head(client: SyncJournalClient, journal: str) -> None:
    client.append(journal, b"12345")
    reader = client.client.reader(ReadRequest(journal, 5))
    with pytest.raises(OffsetNotYetAvailable) as raised:
        client.thread.run(reader.next())
    assert raised.value.write_head == 5


def test_journals_are_listed_changed_and_deleted(served: Served, client: SyncJournalClient) -> None:
    name = served.create(client, kind="wanted")
    (listed,) = client.list(f"name={name}").journals
    assert listed.spec.labels.value("kind") == "wanted"
    assert name in client.list("kind=wanted").names
    with pytest.raises(EtcdTransactionFailed):
        client.apply([Upsert(listed.spec, expect_mod_revision=listed.mod_revision + 1)])
    client.apply([Delete(name, listed.mod_revision)])
    assert client.list(f"name={name}").names == ()


def test_a_watch_tells_of_changes(served: Served, client: SyncJournalClient) -> None:
    watch = client.watch("kind=watched")
    assert next(watch).names == ()
    name = served.create(client, kind="watched")
    assert next(watch).names == (name,)
    client.apply([Delete(name)])
    assert next(watch).names == ()


def test_the_service_batches(client: SyncJournalClient, journal: str) -> None:
    service = client.service()
    pending = [service.enqueue(journal, b"%05d\n" % n) for n in range(2_000)]
    assert service.wait(pending[-1]).end == 12_000
    service.close()
    assert client.read(journal) == b"".join(b"%05d\n" % n for n in range(2_000))


def test_sequenced_writers_share_a_journal(
    served: Served, client: SyncJournalClient, journal: str
) -> None:
    failures: list[BaseException] = []

    def write(name: str) -> None:
        try:
            with served.connect() as own:
                writer = own.sequenced(journal, name)
                for n in range(6):
                    writer.append(records(f"{name}/{n}/0", f"{name}/{n}/1"))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(f"w{n}",)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    found = decode_records(client.read(journal))
    assert [record.seq for record in found] == list(range(36))
    values = [(record.value or b"").decode() for record in found]
    assert [value[:-2] for value in values[::2]] == [value[:-2] for value in values[1::2]]
    assert len(set(values)) == 36


def test_an_owner_that_was_fenced_writes_nothing(client: SyncJournalClient, journal: str) -> None:
    old, new = client.owned(journal, "shard-0"), client.owned(journal, "shard-0")
    old.take_ownership("old", 1)
    old.append_batch("batch-1", records("a"))
    assert new.take_ownership("new", 2) == Batch("batch-1", 0, 1)
    with pytest.raises(WriterFenced, match="2/new"):
        old.append_batch("batch-2", records("b"))
    new.append_batch("batch-2", records("c"))
    assert [record.value for record in decode_records(client.read(journal))] == [b"a", b"c"]


def test_the_registers_are_those_that_the_journal_tells(
    client: SyncJournalClient, journal: str
) -> None:
    client.sequenced(journal, "v").append(records("a", "b"))
    client.owned(journal, "shard-0").take_ownership("us", 1)
    client.sequenced(journal, "w").append(records("c"))
    assert rebuild_registers(client.read(journal)) == client.append(journal).registers


def test_a_journal_others_wrote_to_is_no_sequence(client: SyncJournalClient, journal: str) -> None:
    client.append(journal, b"by somebody else")
    with pytest.raises(NotSequenced):
        client.sequenced(journal, "w").append(records("a"))


# -- what only a real broker does ------------------------------------------------------------------


@pytest.fixture
def at_broker(broker: Broker) -> Served:
    return Served(broker.address, Path(broker.flags["file-root"]))


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.ZSTANDARD, Codec.SNAPPY])
def test_stored_fragments_are_listed_and_read_from_their_store(
    at_broker: Served, codec: Codec
) -> None:
    content = bytes(range(256)) * 8_192
    with at_broker.connect() as client:
        journal = at_broker.create(client, codec=codec)
        for begin in range(0, len(content), 1 << 18):
            client.append(journal, content[begin : begin + (1 << 18)])
        stored = _wait_for_stored(client, journal)
        assert stored.begin == 0
        assert client.read(journal, direct=True) == content
        assert client.read(journal, 1000, 2000, direct=True) == content[1000:2000]
        assert client.read(journal) == content


def _wait_for_stored(client: SyncJournalClient, journal: str) -> Fragment:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        for listed in client.fragments(journal, signature_ttl=60):
            if listed.fragment.is_persisted and listed.signed_url:
                return listed.fragment
        time.sleep(0.05)
    raise TimeoutError(f"no fragment of {journal} was stored")


def test_appends_and_reads_go_on_over_a_kill_of_the_broker(
    at_broker: Served, broker: Broker
) -> None:
    with at_broker.connect() as client:
        journal = at_broker.create(client)
        writer = client.sequenced(journal, "w")
        writer.append(records("before"))
        chunks = client.chunks(ReadRequest(journal, block=True))
        read = next(chunks).content
        broker.kill()
        broker.restart()
        writer.append(records("after"))
        while [record.value for record in decode_records(read)] != [b"before", b"after"]:
            read += next(chunks).content
        chunks.close()  # type: ignore[attr-defined]
