from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from tests.fixtures.journal_server import Fault, JournalServer
from tests.integration.journal.client.serving import JOURNAL, until, with_server
from windrow.journal.client.client import JournalClient
from windrow.journal.client.errors import CallFailed, ContentMissing, OffsetJump
from windrow.journal.client.requests import Chunk, ReadRequest
from windrow.journal.client.retry_reader import RetryReader
from windrow.journal.errors import JournalNotFound, OffsetNotYetAvailable, Suspended
from windrow.journal.wire import protocol_pb2 as pb


def test_reading_ends_at_the_write_head_if_it_does_not_block() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        await client.append(JOURNAL, b"12345")
        async with client.retry_reader(ReadRequest(JOURNAL, 1)) as reader:
            assert [chunk async for chunk in reader] == [Chunk(1, b"2345")]
            assert (reader.offset, reader.write_head) == (5, 5)
            with pytest.raises(OffsetNotYetAvailable):
                await reader.next()

    with_server(test)


def test_reading_that_blocks_goes_on_with_what_is_appended() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        async with client.retry_reader(ReadRequest(JOURNAL, block=True)) as reader:
            reading = asyncio.create_task(reader.next())
            await until(lambda: len(server.calls) == 1)
            await client.append(JOURNAL, b"one")
            assert await reading == Chunk(0, b"one")
            await client.append(JOURNAL, b"two")
            assert await reader.next() == Chunk(3, b"two")
        assert [rpc for rpc, _ in server.calls].count("Read") == 1

    with_server(test)


def test_reading_from_the_head_gives_only_what_is_new() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        await client.append(JOURNAL, b"old")
        async with client.retry_reader(ReadRequest(JOURNAL, -1, block=True)) as reader:
            reading = asyncio.create_task(reader.next())
            await until(lambda: len(server.calls) == 2)
            await client.append(JOURNAL, b"new")
            assert await reading == Chunk(3, b"new")

    with_server(test)


def test_the_end_offset_is_the_end_even_before_it_is_written() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        await client.append(JOURNAL, b"12345")
        request = ReadRequest(JOURNAL, block=True, end_offset=8)
        async with client.retry_reader(request) as reader:
            assert await reader.next() == Chunk(0, b"12345")
            reading = asyncio.create_task(reader.next())
            await client.append(JOURNAL, b"67890")
            assert await reading == Chunk(5, b"678")
            assert await reader.next() is None

    with_server(test)


@pytest.mark.parametrize(
    "fault",
    [
        Fault(code=grpc.StatusCode.UNAVAILABLE),
        Fault(code=grpc.StatusCode.UNKNOWN),
        Fault(status=pb.NOT_JOURNAL_BROKER),
        Fault(status=pb.INSUFFICIENT_JOURNAL_BROKERS),
        Fault(status=pb.JOURNAL_NOT_FOUND),
        Fault(),
    ],
    ids=str,
)
def test_a_read_that_breaks_goes_on_at_its_offset(fault: Fault) -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        await client.append(JOURNAL, b"1234")
        async with client.retry_reader(ReadRequest(JOURNAL, 2)) as reader:
            server.faults["Read"].extend([fault, fault, fault])
            assert await reader.next() == Chunk(2, b"34")
        offsets = [request.offset for rpc, request in server.calls if rpc == "Read"]
        assert offsets == [2, 2, 2, 2]

    with_server(test)


def test_a_broker_that_stops_and_comes_back_costs_nothing() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        await client.append(JOURNAL, b"before,")
        async with client.retry_reader(ReadRequest(JOURNAL, block=True)) as reader:
            assert await reader.next() == Chunk(0, b"before,")
            reading = asyncio.create_task(reader.next())
            await server.stop()
            await server.start()
            await client.append(JOURNAL, b"after")
            assert await reading == Chunk(7, b"after")

    with_server(test)


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (Fault(status=pb.SUSPENDED), Suspended),
        (Fault(code=grpc.StatusCode.PERMISSION_DENIED), CallFailed),
    ],
)
def test_what_trying_cannot_mend_is_raised(fault: Fault, error: type[Exception]) -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        server.faults["Read"].append(fault)
        with pytest.raises(error):
            await client.retry_reader(ReadRequest(JOURNAL)).next()
        assert len(server.calls) == 1

    with_server(test)


def test_a_journal_that_stays_unknown_is_given_up_after_a_while() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        with pytest.raises(JournalNotFound):
            await client.retry_reader(ReadRequest("no/such/journal")).next()
        assert len(server.calls) == 5

    with_server(test)


def test_a_journal_that_was_found_again_is_given_as_much_time_once_more() -> None:
    """Content puts the count of attempts back to none."""

    async def test(server: JournalServer, client: JournalClient) -> None:
        await client.append(JOURNAL, b"1234")
        lost = [Fault(status=pb.JOURNAL_NOT_FOUND)] * 3
        async with client.retry_reader(ReadRequest(JOURNAL, block=True)) as reader:
            server.faults["Read"].extend(lost)
            assert await reader.next() == Chunk(0, b"1234")
            await client.append(JOURNAL, b"56")
            reader.seek(4)
            server.faults["Read"].extend(lost)
            assert await reader.next() == Chunk(4, b"56")

    with_server(test)


def test_calls_that_end_early_are_followed_by_others_up_to_the_end_offset() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        text, pieces = b"foobarbaz.", iter([6, 2, 9])

        async def brief(request: Any, context: Any) -> AsyncIterator[pb.ReadResponse]:
            server.calls.append(("Read", request))
            begin = request.offset
            fragment = pb.Fragment(journal=JOURNAL, begin=0, end=110, compression_codec=pb.NONE)
            fragment.sum.part1 = 1
            yield pb.ReadResponse(
                header=server.header(), offset=begin, write_head=110, fragment=fragment
            )
            piece = text[begin - 100 :][: next(pieces)]
            yield pb.ReadResponse(offset=begin, content=piece)
            if begin == 100:
                await context.abort(grpc.StatusCode.UNKNOWN, "broken")

        server.reads = brief
        request = ReadRequest(JOURNAL, 100, block=True, end_offset=110)
        async with client.retry_reader(request) as reader:
            assert b"".join([chunk.content async for chunk in reader]) == text
            assert reader.offset == 110
        assert [request.offset for _, request in server.calls] == [100, 106, 108]

    with_server(test)


def test_content_that_is_gone_is_told_once_and_passed_over() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        await client.append(JOURNAL, b"0123456789")
        server.journals[JOURNAL].begin = 6
        async with client.retry_reader(ReadRequest(JOURNAL, 2)) as reader:
            with pytest.raises(OffsetJump, match=r"\[2, 6\)"):
                await reader.next()
            assert reader.offset == 6
            assert [chunk async for chunk in reader] == [Chunk(6, b"6789")]

    with_server(test)


def test_a_read_without_a_word_is_begun_anew() -> None:
    """A broker behind a link that was cut never says that it is gone."""

    async def test(server: JournalServer, client: JournalClient) -> None:
        await client.append(JOURNAL, b"x")
        stall = asyncio.Event()
        server.faults["Read"].append(Fault(stall=stall))
        reader = RetryReader(client.calls, ReadRequest(JOURNAL), idle_timeout=0.2)
        assert await reader.next() == Chunk(0, b"x")
        reader.close()
        stall.set()

    with_server(test)


def test_a_reader_whose_wait_was_cancelled_can_read_on() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        async with client.retry_reader(ReadRequest(JOURNAL, block=True)) as reader:
            reading = asyncio.create_task(reader.next())
            await until(lambda: len(server.calls) == 1)
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading
            await client.append(JOURNAL, b"x")
            assert await reader.next() == Chunk(0, b"x")

    with_server(test)


def test_a_reader_can_be_sent_elsewhere() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        await client.append(JOURNAL, b"0123456789")
        async with client.retry_reader(ReadRequest(JOURNAL)) as reader:
            assert await reader.next() == Chunk(0, b"0123456789")
            reader.seek(7)
            assert await reader.next() == Chunk(7, b"789")

    with_server(test)


def test_content_that_a_broker_lacks_is_not_taken_for_the_end() -> None:
    """Fragments that were not stored are only where they were written."""

    async def test(server: JournalServer, client: JournalClient) -> None:
        async def lacking(request: Any, context: Any) -> AsyncIterator[pb.ReadResponse]:
            yield pb.ReadResponse(
                status=pb.OFFSET_NOT_YET_AVAILABLE,
                header=server.header(),
                offset=request.offset,
                write_head=100,
            )

        server.reads = lacking
        with pytest.raises(ContentMissing, match="nothing to read at 40"):
            await client.read(JOURNAL, 40)
        assert await client.read(JOURNAL, 100) == b""

    with_server(test)
