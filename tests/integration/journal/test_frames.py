"""Calls in frames: what a caller and a service of theirs may rely on, over real connections."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import wraps
from itertools import pairwise
from typing import Any

import grpc
import pytest

from windrow.journal.frames.calling import NEVER_LEFT, Call, Connection, Way
from windrow.journal.frames.format import HELLO, HIGH_WATER, Kind, Opening, frame
from windrow.journal.frames.pool import Pool
from windrow.journal.frames.serving import FrameServer
from windrow.journal.not_written import FailureKind
from windrow.journal.wire import protocol_pb2 as pb
from windrow.journal.wire.protocol_pb2_grpc import JournalStub

LIMIT = 4 * 1024 * 1024
PATIENCE = 30.0
Answer = Callable[[Any, Any], Any]
_EOF: Any = grpc.aio.EOF  # type: ignore[attr-defined]


def in_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test in an event loop of its own, for so long at most."""

    @wraps(test)
    def running(*given: Any, **named: Any) -> None:
        asyncio.run(asyncio.wait_for(test(*given, **named), PATIENCE))

    return running


class Service:
    """Answers an append with the number of its messages, or as it is told."""

    def __init__(self) -> None:
        self.answer: Answer | None = None
        self.cancelled = asyncio.Event()
        self.metadata: Any = None
        self.given_out = 0

    async def Append(self, requests: Any, context: Any) -> pb.AppendResponse:
        """Take an append."""
        self.metadata = context.invocation_metadata()
        try:
            if self.answer is not None:
                return await self.answer(requests, context)  # type: ignore[no-any-return]
            count = len([message async for message in requests])
            return pb.AppendResponse(total_chunks=count)
        except asyncio.CancelledError:
            assert context.cancelled()
            self.cancelled.set()
            raise

    async def Replicate(self, requests: Any, context: Any) -> AsyncIterator[Any]:
        """Answer each message with its offset."""
        async for message in requests:
            yield pb.ReplicateResponse(acknowledged_end=message.content_delta)

    async def Read(self, request: Any, context: Any) -> AsyncIterator[Any]:
        """Answer with as many messages as the end offset, each of as many bytes as the offset."""
        self.metadata = context.invocation_metadata()
        for n in range(request.end_offset):
            yield pb.ReadResponse(offset=n, content=bytes(request.offset))
            self.given_out += 1


class Serving:
    """A service on a port, and how many connections it was given."""

    def __init__(self) -> None:
        self.service = Service()
        self.server = FrameServer(self.service, LIMIT)
        self.connections = 0
        self.endpoint = ""
        self.pool = Pool()

    def append(self, timeout: float | None = None, **metadata: str) -> Call:
        """Begin an append."""
        return self.pool.call(
            self.endpoint,
            "Append",
            tuple(metadata.items()),
            pb.AppendResponse.FromString,
            _never,
            gathers=True,
            timeout=timeout,
        )

    async def appended(self, *contents: bytes) -> int:
        """Append pieces, and return how many messages came."""
        call = self.append()
        for content in contents:
            await call.write(pb.AppendRequest(content=content))
        await call.done_writing()
        return int((await call).total_chunks)

    async def read(self, messages: int, size: int) -> Call:
        """Begin a read of so many messages."""
        call = self.pool.call(
            self.endpoint, "Read", (), pb.ReadResponse.FromString, _never, gathers=True
        )
        await call.write(pb.ReadRequest(offset=size, end_offset=messages))
        await call.done_writing()
        return call


async def _offsets(call: Call) -> list[int]:
    """Of all messages that a read is answered with."""
    offsets = []
    while (message := await call.read()) is not _EOF:
        offsets.append(message.offset)
    return offsets


async def _write_for_ever(call: Call) -> None:
    while True:
        await call.write(pb.AppendRequest(content=bytes(100_000)))
        await asyncio.sleep(0.001)  # others have to have a turn


def _never() -> Any:
    raise AssertionError("called by gRPC")


class _Greeting(asyncio.Protocol):
    def __init__(self, serving: Serving) -> None:
        self._serving = serving
        self._first = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._serving.connections += 1
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._first += data
        if self._first.startswith(HELLO):
            self._serving.server.take(self._transport, self._first[len(HELLO) :])


@asynccontextmanager
async def served() -> AsyncIterator[Serving]:
    """A service that speaks frames."""
    serving = Serving()
    loop = asyncio.get_running_loop()
    listening = await loop.create_server(lambda: _Greeting(serving), "127.0.0.1", 0)
    serving.endpoint = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    try:
        yield serving
    finally:
        serving.pool.close()
        serving.server.abort()
        listening.close()


@in_a_loop
async def test_calls_follow_one_another_on_one_connection() -> None:
    async with served() as serving:
        assert [await serving.appended(b"a"), await serving.appended(b"b", b"c")] == [1, 2]
        assert serving.connections == 1


@in_a_loop
async def test_calls_at_the_same_time_do_not_wait_for_each_other() -> None:
    async with served() as serving:
        slow = serving.append()
        await slow.write(pb.AppendRequest(content=b"a"))
        assert await serving.appended(b"b") == 1
        await slow.done_writing()
        assert (await slow).total_chunks == 1
        assert serving.connections == 2


@in_a_loop
async def test_metadata_come_with_the_call() -> None:
    async with served() as serving:
        call = serving.append(authorization="Bearer x")
        await call.write(pb.AppendRequest())
        await call.done_writing()
        await call
        assert serving.service.metadata == (("authorization", "Bearer x"),)


@in_a_loop
async def test_messages_of_a_stream_are_answered_as_they_come() -> None:
    async with served() as serving:
        call = serving.pool.call(
            serving.endpoint,
            "Replicate",
            (),
            pb.ReplicateResponse.FromString,
            _never,
            gathers=False,
        )
        for n in (1, 2):
            await call.write(pb.ReplicateRequest(content_delta=n))
            assert (await call.read()).acknowledged_end == n
        await call.done_writing()
        assert await call.read() is _EOF


@in_a_loop
async def test_an_error_of_the_service_reaches_the_caller_as_it_is() -> None:
    async def refuse(_: Any, context: Any) -> None:
        await context.abort(grpc.StatusCode.PERMISSION_DENIED, "not yours", (("why", "x"),))

    async with served() as serving:
        serving.service.answer = refuse
        with pytest.raises(grpc.aio.AioRpcError) as failure:
            await serving.appended(b"a")
        assert failure.value.code() is grpc.StatusCode.PERMISSION_DENIED
        assert failure.value.details() == "not yours"
        assert tuple(failure.value.trailing_metadata()) == (("why", "x"),)  # type: ignore[comparison-overlap]


@in_a_loop
async def test_an_answer_before_the_last_message_ends_the_call_and_no_other() -> None:
    async def at_once(requests: Any, _: Any) -> pb.AppendResponse:
        await anext(requests)
        return pb.AppendResponse(total_chunks=99)

    async with served() as serving:
        serving.service.answer = at_once
        call = serving.append()
        with pytest.raises(asyncio.InvalidStateError):
            await _write_for_ever(call)
        assert (await call).total_chunks == 99
        serving.service.answer = None
        assert await serving.appended(b"a") == 1


@in_a_loop
async def test_a_cancelled_call_is_cancelled_at_the_broker() -> None:
    async with served() as serving:
        call = serving.append()
        await call.write(pb.AppendRequest(content=b"a"))
        await asyncio.sleep(0.01)
        call.cancel()
        await asyncio.wait_for(serving.service.cancelled.wait(), 5)


@in_a_loop
async def test_a_call_whose_time_is_over_is_cancelled_at_the_broker() -> None:
    async with served() as serving:
        call = serving.append(timeout=0.05)
        await call.write(pb.AppendRequest(content=b"a"))
        with pytest.raises(grpc.aio.AioRpcError) as failure:
            await call
        assert failure.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        await asyncio.wait_for(serving.service.cancelled.wait(), 5)


@in_a_loop
async def test_a_caller_is_read_no_faster_than_it_is_served() -> None:
    """Otherwise a broker would take all of a large append into its memory."""
    begin, taken = asyncio.Event(), asyncio.Event()
    held: list[int] = []

    async def slowly(requests: Any, _: Any) -> pb.AppendResponse:
        await begin.wait()
        held.append(requests.held_bytes)
        count = len([message async for message in requests])
        return pb.AppendResponse(total_chunks=count)

    async with served() as serving:
        serving.service.answer = slowly
        call = serving.append()

        async def write() -> None:
            for _ in range(64):
                await call.write(pb.AppendRequest(content=bytes(1 << 20)))
            await call.done_writing()
            taken.set()

        writing = asyncio.create_task(write())
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(taken.wait(), 0.5)
        begin.set()
        assert (await call).total_chunks == 64
        assert held[0] <= HIGH_WATER + LIMIT
        await writing


@in_a_loop
async def test_a_read_is_answered_by_all_its_messages_and_its_end() -> None:
    async with served() as serving:
        for messages, size in ((0, 0), (3, 10), (100, 100_000)):
            assert await _offsets(await serving.read(messages, size)) == list(range(messages))
        assert serving.connections == 1


@in_a_loop
async def test_the_end_of_a_small_read_comes_with_its_last_message() -> None:
    """Who reads up to an offset gives up then: its connection is to be there for the next."""
    async with served() as serving:
        for _ in range(3):
            call = await serving.read(2, 100)
            assert [(await call.read()).offset, (await call.read()).offset] == [0, 1]
            call.cancel()
        assert serving.connections == 1


@in_a_loop
async def test_a_read_that_asks_for_nothing_is_refused() -> None:
    async with served() as serving:
        call = serving.pool.call(
            serving.endpoint, "Read", (), pb.ReadResponse.FromString, _never, gathers=True
        )
        await call._begin()
        await call.done_writing()
        with pytest.raises(grpc.aio.AioRpcError, match="the call says nothing"):
            await call.read()


@in_a_loop
async def test_a_reader_is_answered_no_faster_than_it_reads() -> None:
    """Otherwise a client would take all of a large journal into its memory."""
    size, messages = 100_000, 1_000
    async with served() as serving:
        call = await serving.read(messages, size)
        assert (await call.read()).offset == 0
        before = -1
        while before < serving.service.given_out:  # until it stands still
            before = serving.service.given_out
            await asyncio.sleep(0.3)
        # What both ends hold, and the kernel between them.
        assert before < messages // 2
        assert call._unread_bytes <= HIGH_WATER + 2 * size
        assert await _offsets(call) == list(range(1, messages))
        assert await _offsets(await serving.read(2, 10)) == [0, 1]
        assert serving.connections == 1


@in_a_loop
async def test_others_get_a_turn_while_a_long_answer_is_sent() -> None:
    """A broker that only sends would lose its lease meanwhile."""
    async with served() as serving:
        call = await serving.read(50, 100_000)
        looks: list[int] = []

        async def look() -> None:
            while serving.service.given_out < 50:
                looks.append(serving.service.given_out)
                await asyncio.sleep(0)

        looking = asyncio.create_task(look())
        assert await _offsets(call) == list(range(50))
        await looking
        assert max(after - before for before, after in pairwise(looks)) <= 2


class _Transport(asyncio.Transport):
    """Takes all that is written, and knows whether anybody reads."""

    def __init__(self) -> None:
        super().__init__()
        self._reads = True

    def is_closing(self) -> bool:
        return False

    def is_reading(self) -> bool:
        return self._reads

    def write(self, data: bytes | bytearray | memoryview) -> None:
        pass

    def pause_reading(self) -> None:
        self._reads = False

    def resume_reading(self) -> None:
        self._reads = True


@in_a_loop
async def test_a_connection_that_was_held_back_when_its_call_ended_hears_the_next_one() -> None:
    transport, connection, given_back = _Transport(), Connection(), list[Connection]()
    connection.connection_made(transport)
    connection.data_received(HELLO)

    async def connect() -> Connection:
        return connection

    way = Way(connect, given_back.append, _never)
    call = Call(way, Opening("Read"), pb.ReadResponse.FromString, gathers=True)
    await call.write(pb.ReadRequest())
    await call.done_writing()
    large = frame(Kind.MESSAGE, pb.ReadResponse(content=bytes(2 * HIGH_WATER)).SerializeToString())
    connection.data_received(large)
    assert not transport.is_reading()
    connection.data_received(frame(Kind.END))  # it was on its way already
    assert transport.is_reading()
    assert given_back == [connection]
    assert len((await call.read()).content) == 2 * HIGH_WATER
    assert await call.read() is _EOF


@in_a_loop
async def test_a_call_that_nobody_is_there_for_was_not_sent() -> None:
    async with served() as serving:
        serving.endpoint = "http://127.0.0.1:1"
        with pytest.raises(grpc.aio.AioRpcError, match=NEVER_LEFT) as failure:
            await serving.appended(b"a")
        assert failure.value.code() is grpc.StatusCode.UNAVAILABLE


@in_a_loop
async def test_a_connection_that_is_lost_leaves_the_outcome_unknown() -> None:
    async def lose(requests: Any, _: Any) -> Any:
        await anext(requests)
        serving.server.abort()
        await asyncio.sleep(60)

    async with served() as serving:
        serving.service.answer = lose
        with pytest.raises(grpc.aio.AioRpcError) as failure:
            await serving.appended(b"a")
        assert failure.value.code() is grpc.StatusCode.UNAVAILABLE
        assert FailureKind.of(failure.value.trailing_metadata()) is FailureKind.UNKNOWN


@in_a_loop
async def test_a_broker_that_stops_ends_what_it_began_and_says_what_it_did_not_begin() -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def wait(_: Any, __: Any) -> pb.AppendResponse:
        begun.set()
        await go_on.wait()
        return pb.AppendResponse(total_chunks=7)

    async with served() as serving:
        await serving.appended(b"a")
        late = serving.append()
        connecting = serving.pool._idle[serving.endpoint][-1]
        serving.service.answer = wait
        serving.pool._idle[serving.endpoint].clear()
        under_way = asyncio.create_task(serving.appended(b"b"))
        await asyncio.wait_for(begun.wait(), 5)
        stopping = asyncio.create_task(serving.server.stop(5))
        # Sent before the broker's farewell has come, and read by nobody.
        serving.pool._give_back(serving.endpoint, connecting)
        await late.write(pb.AppendRequest(content=b"c"))
        await late.done_writing()
        with pytest.raises(grpc.aio.AioRpcError) as failure:
            await late
        assert FailureKind.of(failure.value.trailing_metadata()) is FailureKind.PASSING
        go_on.set()
        assert await under_way == 7
        await stopping


@pytest.mark.parametrize(
    "answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"", HELLO.replace(b"2", b"1")]
)
@in_a_loop
async def test_who_does_not_greet_back_is_called_by_grpc(answer: bytes) -> None:
    """A stock broker, one whose port belongs to gRPC, or one of another release."""
    dialled = 0

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal dialled
        dialled += 1
        await reader.read(10)
        writer.write(answer)
        writer.close()

    listening = await asyncio.start_server(refuse, "127.0.0.1", 0)
    endpoint = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    written: list[bytes] = []

    class ByGrpc:
        async def write(self, message: Any) -> None:
            written.append(message.content)

    pool = Pool()
    for content in (b"a", b"b"):
        call = pool.call(endpoint, "Append", (), pb.AppendResponse.FromString, ByGrpc, gathers=True)
        await call.write(pb.AppendRequest(content=content))
    assert written == [b"a", b"b"]
    assert dialled == 1
    listening.close()


@in_a_loop
async def test_a_call_that_is_given_up_before_it_was_greeted_leaves_no_connection() -> None:
    left = asyncio.Event()

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(100):
            pass
        left.set()
        writer.close()

    listening = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
    serving = Serving()
    serving.endpoint = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    writing = asyncio.create_task(serving.append().write(pb.AppendRequest()))
    await asyncio.sleep(0.05)
    writing.cancel()
    await asyncio.wait_for(left.wait(), 5)
    listening.close()


@in_a_loop
async def test_calls_beyond_the_most_connections_share_one_of_grpc() -> None:
    """Otherwise a thousand appends at once would be a thousand connections."""
    written: list[Any] = []

    class ByGrpc:
        async def write(self, message: Any) -> None:
            written.append(message.content)

    async with served() as serving:
        pool = Pool(most_open=2)
        calls = [
            pool.call(
                serving.endpoint, "Append", (), pb.AppendResponse.FromString, ByGrpc, gathers=True
            )
            for _ in range(3)
        ]
        beginning = [call.write(pb.AppendRequest(content=b"a")) for call in calls]
        await asyncio.gather(*beginning)
        assert serving.connections == 2
        assert written == [b"a"]
        pool.close()


@pytest.mark.parametrize("endpoint", ["https://127.0.0.1:1", "unix:///tmp/x"])
@in_a_loop
async def test_only_plain_tcp_carries_frames(endpoint: str) -> None:
    written: list[Any] = []

    class ByGrpc:
        async def write(self, message: Any) -> None:
            written.append(message)

    pool = Pool()
    call = pool.call(endpoint, "Append", (), pb.AppendResponse.FromString, ByGrpc, gathers=True)
    await call.write(pb.AppendRequest(content=b"a"))
    assert written == [pb.AppendRequest(content=b"a")]


@in_a_loop
async def test_a_call_by_grpc_that_was_cancelled_fails_as_one_in_frames_does() -> None:
    """By itself gRPC would end the task that uses the call, although nobody cancelled that."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{silent.getsockname()[1]}") as channel:
            call = Pool().call(
                "grpc:only",
                "Replicate",
                (),
                pb.ReplicateResponse.FromString,
                lambda: JournalStub(channel).Replicate(),
                gathers=False,
            )
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await call.write(pb.ReplicateRequest())
            reading = asyncio.create_task(call.read())
            await asyncio.wait([reading])
            assert not reading.cancelled()
            with pytest.raises(grpc.aio.AioRpcError) as failure:
                reading.result()
            assert failure.value.code() is grpc.StatusCode.CANCELLED


@in_a_loop
async def test_of_many_who_write_to_a_slow_connection_each_is_heard() -> None:
    async with served() as serving:
        call = serving.pool.call(
            serving.endpoint,
            "Replicate",
            (),
            pb.ReplicateResponse.FromString,
            _never,
            gathers=False,
        )
        await call.write(pb.ReplicateRequest(content_delta=0))
        large = bytes(LIMIT // 2)
        requests = [pb.ReplicateRequest(content=large, content_delta=n) for n in range(1, 9)]
        await asyncio.gather(*map(call.write, requests))
        await call.done_writing()
        answered = [(await call.read()).acknowledged_end for _ in range(9)]
        assert answered == list(range(9))


@in_a_loop
async def test_a_frame_that_is_too_large_ends_the_call() -> None:
    async with served() as serving:
        call = serving.append()
        await call.write(pb.AppendRequest(content=bytes(LIMIT + 1)))
        with pytest.raises(grpc.aio.AioRpcError) as failure:
            await call
        assert failure.value.code() is grpc.StatusCode.INVALID_ARGUMENT


@in_a_loop
async def test_a_method_that_is_not_served_is_refused() -> None:
    async with served() as serving:
        call = serving.pool.call(
            serving.endpoint, "List", (), pb.ListResponse.FromString, _never, gathers=True
        )
        await call.write(pb.ListRequest())
        with pytest.raises(grpc.aio.AioRpcError, match="no method 'List'"):
            await call
