from __future__ import annotations

from tests.fixtures.journal_server import JournalServer
from tests.integration.journal.client.serving import JOURNAL, with_server
from windrow.journal.client.client import JournalClient
from windrow.journal.client.records import RecordReader
from windrow.journal.client.requests import ReadRequest
from windrow.journal.client.sequenced import SequencedWriter
from windrow.journal.message.record import Record


def records(*values: bytes) -> list[Record]:
    return [Record(value=value) for value in values]


async def values(reader: RecordReader) -> list[tuple[int, bytes | None]]:
    return [(r.seq, r.value) async for batch in reader.batches() for _, r in batch]


def test_a_journal_is_read_record_by_record_over_chunks() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        writer = SequencedWriter(client, JOURNAL, "w")
        big = [bytes([65 + n]) * 20_000 for n in range(10)]
        await writer.append(records(*big))
        reader = RecordReader(client.retry_reader(ReadRequest(JOURNAL)))
        assert await values(reader) == list(enumerate(big))
        assert reader.offset == len(server.journals[JOURNAL].content)

    with_server(test)


def test_reading_can_begin_again_where_a_record_begins() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        writer = SequencedWriter(client, JOURNAL, "w")
        await writer.append(records(b"a", b"b"))
        first = RecordReader(client.retry_reader(ReadRequest(JOURNAL)))
        assert await values(first) == [(0, b"a"), (1, b"b")]
        await writer.append(records(b"c"))
        second = RecordReader(client.retry_reader(ReadRequest(JOURNAL, first.offset)))
        assert await values(second) == [(2, b"c")]

    with_server(test)


def test_records_behind_a_gap_are_found() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        writer = SequencedWriter(client, JOURNAL, "w")
        await writer.append(records(b"a"))
        await writer.append(records(b"b"))
        server.journals[JOURNAL].begin = server.journals[JOURNAL].commits[1][0]
        reader = RecordReader(client.retry_reader(ReadRequest(JOURNAL, 3)))
        assert await values(reader) == [(1, b"b")]

    with_server(test)
