from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable

import grpc
import pytest

from tests.fixtures.journal_server import Fault, JournalServer
from tests.integration.journal.client.serving import JOURNAL, until, with_server, write_for_ever
from windrow.errors import Unreachable
from windrow.journal.client.append_service import AppendService
from windrow.journal.client.client import JournalClient
from windrow.journal.client.errors import (
    AppendEnded,
    AppendNotWritten,
    CallFailed,
    RegistersNeedContent,
)
from windrow.journal.client.requests import AppendRequest
from windrow.journal.client.sequenced import OwnedWriter, SequencedWriter
from windrow.journal.errors import (
    AppendUnknown,
    InvalidField,
    JournalNotFound,
    JournalStatusError,
    RegisterMismatch,
    WrongAppendOffset,
)
from windrow.journal.labels import LabelSet
from windrow.journal.not_written import FailureKind
from windrow.journal.status import Status
from windrow.journal.wire import protocol_pb2 as pb

UNAVAILABLE = grpc.StatusCode.UNAVAILABLE


def test_an_append_returns_its_span_its_sum_and_the_registers() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        await client.append(JOURNAL, b"first,")
        done = await client.append(JOURNAL, b"second", union={"fence": "7"})
        assert (done.begin, done.end) == (6, 12)
        assert done.fragment.sum == hashlib.sha1(b"second").digest()
        assert done.registers == LabelSet.of({"fence": "7"})
        assert bytes(server.journals[JOURNAL].content) == b"first,second"

    with_server(test)


def test_a_small_append_is_a_request_its_content_and_the_mark() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        await client.append(JOURNAL, b"x" * 256 * 1024)
        await client.append(JOURNAL, b"x" * (256 * 1024 + 1))
        await client.append(JOURNAL)
        assert server.append_messages == [2, 3, 1]

    with_server(test)


def test_an_append_written_in_pieces_is_one_append() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        async with client.appender(JOURNAL) as appender:
            for piece in (b"one ", b"two ", b"three"):
                await appender.write(piece)
        assert appender.committed is not None
        assert server.journals[JOURNAL].commits == [(0, 13)]
        with pytest.raises(AppendEnded):
            await appender.write(b"more")

    with_server(test)


def test_an_append_whose_block_fails_leaves_nothing() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        appender = client.appender(JOURNAL)

        async def half() -> None:
            async with appender:
                await appender.write(b"half of it")
                raise KeyError("the other half")

        with pytest.raises(KeyError):
            await half()
        assert (await client.append(JOURNAL, b"next")).begin == 0
        with pytest.raises(AppendEnded):
            await appender.commit()

    with_server(test)


def test_a_cancelled_append_leaves_nothing() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        appending = asyncio.Event()

        async def half() -> None:
            async with client.appender(JOURNAL) as appender:
                await appender.write(b"half of it")
                appending.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(half())
        await appending.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await client.append(JOURNAL, b"next")).begin == 0

    with_server(test)


@pytest.mark.parametrize("status", [s for s in Status if s is not Status.OK])
def test_every_status_has_its_error(status: Status) -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        for before_content in (False, True):
            fault = Fault(status=status, before_content=before_content)
            server.faults["Append"].append(fault)
            request = AppendRequest(JOURNAL)
            with pytest.raises(JournalStatusError) as raised:
                await client.append_once(request, b"content")
            assert raised.value.status is status
            assert raised.value.journal == JOURNAL
        assert server.journals[JOURNAL].content == b""

    with_server(test)


def test_a_server_that_ends_early_is_heard_while_content_is_still_to_send() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        server.faults["Append"].append(Fault(status=pb.NOT_ALLOWED, before_content=True))
        appender = client.appender(JOURNAL)
        with pytest.raises(JournalStatusError, match="NOT_ALLOWED"):
            await write_for_ever(appender)

    with_server(test)


def test_a_mismatch_tells_what_the_registers_are() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        await client.append(JOURNAL, b"x", union={"owner": "us"})
        with pytest.raises(RegisterMismatch, match="owner=us") as raised:
            await client.append(JOURNAL, b"y", check="owner=them")
        assert raised.value.registers == LabelSet.of({"owner": "us"})
        done = await client.append(JOURNAL, b"y", check="owner=us", subtract={"owner": "us"})
        assert done.registers == LabelSet()

    with_server(test)


def test_an_explicit_offset_must_be_the_write_head() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        await client.append(JOURNAL, b"12345")
        with pytest.raises(WrongAppendOffset):
            await client.append(JOURNAL, b"x", offset=4)
        assert (await client.append(JOURNAL, b"x", offset=5)).begin == 5

    with_server(test)


def test_registers_without_content_are_refused_before_they_are_sent() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        with pytest.raises(RegistersNeedContent):
            await client.append(JOURNAL, b"", union={"owner": "us"})
        assert server.calls == []

    with_server(test)


def test_a_name_that_no_journal_can_have_is_not_sent() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        with pytest.raises(InvalidField, match="cannot begin with '/'"):
            await client.append("/a/journal", b"x")
        assert server.calls == []

    with_server(test)


def test_an_answer_lost_after_the_commit_mark_leaves_the_outcome_unknown() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        for after_commit in (True, False):
            server.faults["Append"].append(Fault(code=UNAVAILABLE, after_commit=after_commit))
            with pytest.raises(AppendUnknown, match="may have committed or not"):
                await client.append(JOURNAL, b"x")
        assert server.journals[JOURNAL].content == b"x"

    with_server(test)


def test_a_broker_lost_before_the_commit_mark_certainly_wrote_nothing() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        server.faults["Append"].append(Fault(code=UNAVAILABLE, before_content=True))
        with pytest.raises(Unreachable):
            await write_for_ever(client.appender(JOURNAL))
        assert server.journals[JOURNAL].content == b""

    with_server(test)


@pytest.mark.parametrize("code", [UNAVAILABLE, grpc.StatusCode.UNKNOWN])
def test_an_append_that_its_broker_knows_to_be_unwritten_is_sent_again(
    code: grpc.StatusCode,
) -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        passing = FailureKind.PASSING.as_metadata()
        server.faults["Append"].append(Fault(code=code, trailing=passing))
        await client.append(JOURNAL, b"x")
        assert len(server.calls) == 2
        assert server.journals[JOURNAL].content == b"x"

    with_server(test)


@pytest.mark.parametrize("ends", ["commit", "abort"])
def test_a_connection_that_breaks_as_writing_ends_is_told_by_the_answer(
    monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    """What gRPC raises there is an error of its own, and says nothing of the append."""
    honest = grpc.aio.StreamUnaryCall.done_writing

    async def breaking(call: grpc.aio.StreamUnaryCall[object, object]) -> None:
        await honest(call)
        raise grpc.aio.InternalError("Failed execute_batch")

    async def test(server: JournalServer, client: JournalClient) -> None:
        monkeypatch.setattr(grpc.aio.StreamUnaryCall, "done_writing", breaking)
        appender = client.appender(JOURNAL)
        await appender.write(b"x")
        await (appender.commit() if ends == "commit" else appender.abort())
        monkeypatch.undo()
        assert bytes(server.journals[JOURNAL].content) == (b"x" if ends == "commit" else b"")

    with_server(test)


def test_an_append_that_would_never_be_written_is_not_sent_again() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        trailing = FailureKind.REFUSED.as_metadata()
        unknown = grpc.StatusCode.UNKNOWN
        server.faults["Append"].append(Fault(code=unknown, details="too slow", trailing=trailing))
        with pytest.raises(AppendNotWritten, match=r"too slow.*nothing was written"):
            await client.append(JOURNAL, b"x")
        assert len(server.calls) == 1

    with_server(test)


def test_an_attempt_that_takes_too_long_has_an_unknown_outcome() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        stall = asyncio.Event()
        server.faults["Append"].append(Fault(stall=stall))
        with pytest.raises(AppendUnknown, match="DEADLINE_EXCEEDED"):
            await client.append(JOURNAL, b"x", attempt_timeout=0.2)
        stall.set()

    with_server(test)


def test_a_call_that_was_refused_certainly_wrote_nothing() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        server.faults["Append"].append(Fault(code=grpc.StatusCode.UNAUTHENTICATED))
        with pytest.raises(CallFailed, match="UNAUTHENTICATED"):
            await client.append(JOURNAL, b"x")

    with_server(test)


@pytest.mark.parametrize(
    "status",
    [
        pb.NO_JOURNAL_PRIMARY_BROKER,
        pb.NOT_JOURNAL_PRIMARY_BROKER,
        pb.INSUFFICIENT_JOURNAL_BROKERS,
    ],
)
def test_a_cluster_between_two_routes_is_asked_again(status: int) -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        server.faults["Append"].extend([Fault(status=status), Fault(status=status)])
        await client.append(JOURNAL, b"x")
        assert len(server.calls) == 3
        assert server.journals[JOURNAL].content == b"x"

    with_server(test)


def test_content_that_can_be_read_once_is_sent_once() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        server.faults["Append"].append(Fault(status=pb.INSUFFICIENT_JOURNAL_BROKERS))
        with pytest.raises(JournalStatusError):
            await client.append(JOURNAL, iter([b"one", b"two"]))
        await client.append(JOURNAL, iter([b"one", b"two"]))
        assert server.journals[JOURNAL].content == b"onetwo"

    with_server(test)


def test_an_append_waits_for_a_broker_that_restarts() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        await client.append(JOURNAL, b"before,")
        await server.stop()
        appending = asyncio.create_task(client.append(JOURNAL, b"after"))
        await until(lambda: bool(client.dispatcher._failed))
        await server.start()
        await appending
        assert server.journals[JOURNAL].content == b"before,after"

    with_server(test)


def test_a_journal_that_does_not_exist_is_an_error() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        with pytest.raises(JournalNotFound, match="another/journal"):
            await client.append("another/journal", b"x")

    with_server(test)


def test_a_token_goes_with_every_call() -> None:
    tokens = iter(["first", "second"])

    async def test(server: JournalServer, client: JournalClient) -> None:
        await client.append(JOURNAL, b"x")
        await client.list()
        assert [m["authorization"] for m in server.metadata] == ["Bearer first", "Bearer second"]

    with_server(test, token=lambda: next(tokens))


@pytest.mark.parametrize("how", ["append", "service", "sequenced", "owned", "list", "read"])
def test_a_client_whose_patience_is_over_says_what_it_waited_for(how: str) -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        await server.stop()
        calls: dict[str, Callable[[], Awaitable[object]]] = {
            "append": lambda: client.append(JOURNAL, b"x"),
            "service": lambda: AppendService(client).append(JOURNAL, b"x"),
            "sequenced": lambda: SequencedWriter(client, JOURNAL, "w").append([]),
            "owned": lambda: OwnedWriter(client, JOURNAL, "w").take_ownership("us"),
            "list": client.list,
            "read": lambda: client.read(JOURNAL),
        }
        with pytest.raises(Unreachable):
            await calls[how]()
        await server.start()

    with_server(test, patience=0.2)
