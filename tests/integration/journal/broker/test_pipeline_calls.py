"""A pipeline by itself, on calls that do what a test says."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, cast

import grpc
import pytest

from tests.unit.journal.broker.test_replica import MEMBER, Held
from windrow.journal.broker.pipeline import PeerFailed, Pipeline
from windrow.journal.labels import EMPTY
from windrow.journal.spec import EtcdHeader, Header, ProcessId, Route
from windrow.journal.wire import protocol_pb2 as pb

EOF: Any = grpc.aio.EOF  # type: ignore[attr-defined]
B, C = ProcessId("zone", "broker-b"), ProcessId("zone", "broker-c")
ROUTE = Route((MEMBER, B, C), 0, ("http://a", "http://b", "http://c"))
OK = pb.ReplicateResponse(status=pb.OK)


class ScriptedCall:
    """A Replicate call: what it gets is kept, and what it answers is given before."""

    def __init__(self) -> None:
        self.sent: list[pb.ReplicateRequest] = []
        self.answers: deque[Any] = deque()
        self.refuses: Exception | None = None
        self.is_half_closed = self.is_cancelled = False
        self.has_ended = asyncio.Event()

    def write_now(self, _: object) -> bool:
        return False

    async def write(self, request: pb.ReplicateRequest) -> None:
        if self.refuses is not None:
            raise self.refuses
        copy = pb.ReplicateRequest()
        copy.CopyFrom(request)
        self.sent.append(copy)

    def read_now(self) -> None:
        return None

    async def read(self) -> Any:
        if not self.answers:
            await self.has_ended.wait()
            return EOF
        answer = self.answers.popleft()
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def done_writing(self) -> None:
        self.is_half_closed = True

    def done(self) -> bool:
        return self.is_cancelled

    def cancel(self) -> None:
        self.is_cancelled = True


class Calls:
    """The calls that a pipeline opens, by endpoint."""

    def __init__(self) -> None:
        self.opened: dict[str, ScriptedCall] = {}

    def replicate(self, endpoint: str, journal: str) -> ScriptedCall:
        return self.opened.setdefault(endpoint, ScriptedCall())


def opened(route: Route = ROUTE) -> tuple[Pipeline, ScriptedCall, ScriptedCall]:
    held, calls = Held(), Calls()
    pipeline = Pipeline(held.replica, held.spool, route)
    pipeline.open(cast(Any, calls), MEMBER)
    b, c = (calls.opened.get(f"http://{name}", ScriptedCall()) for name in "bc")
    return pipeline, b, c


def broken(reason: str) -> grpc.aio.AioRpcError:
    none: Any = grpc.aio.Metadata()
    return grpc.aio.AioRpcError(grpc.StatusCode.UNKNOWN, none, none, reason, None)


def test_every_other_member_gets_a_stream_and_every_message() -> None:
    async def story() -> None:
        pipeline, b, c = opened()
        assert [peer.member for peer in pipeline.peers] == [B, C]
        header = Header(MEMBER, ROUTE, EtcdHeader(1, 2, 3, 4))
        await pipeline.send_sync(pipeline.spool.fragment, EMPTY, header=header)
        await pipeline.send_content(b"abc", 0)
        await pipeline.propose(pipeline.spool.next(), EMPTY, acknowledge=True)
        for member, call in ((B, b), (C, c)):
            sync, content, proposal = call.sent
            assert sync.header.process_id.suffix == member.suffix
            assert sync.acknowledge
            assert content.content == b"abc"
            assert not proposal.HasField("header")
            assert (proposal.proposal.end, proposal.acknowledge) == (3, True)
        assert pipeline.spool.fragment.end == 3
        for call in (b, c):
            call.answers.append(OK)
        await pipeline.gather_ok()

    asyncio.run(story())


def test_answers_are_read_in_the_order_in_which_the_gates_were_taken() -> None:
    async def story() -> None:
        pipeline, *_ = opened()
        order: list[int] = []

        async def read(number: int, before: asyncio.Event, gate: asyncio.Event) -> None:
            await before.wait()
            order.append(number)
            await asyncio.sleep(0)
            pipeline.pass_barrier(gate)

        gates = [pipeline.barrier() for _ in range(4)]
        assert pipeline.has_readers
        readers = [read(number, *gates[number]) for number in (3, 1, 2, 0)]
        async with asyncio.timeout(5):
            await asyncio.gather(*readers)
            await pipeline.quiesce()
        assert order == [0, 1, 2, 3]
        assert not pipeline.has_readers

    asyncio.run(story())


def test_the_first_failure_to_send_stays_and_names_journal_and_member() -> None:
    async def story() -> None:
        pipeline, b, c = opened()
        b.refuses = broken("disk on fire")
        await pipeline.send_content(b"one", 0)
        b.refuses = broken("something else")
        await pipeline.send_content(b"two", 3)
        b.refuses = None
        await pipeline.propose(pipeline.spool.fragment, EMPTY, acknowledge=True)
        error = pipeline.send_error()
        assert str(error) == (
            "journal 'a/journal': sending to replica zone#broker-b: UNKNOWN: disk on fire"
        )
        assert b.sent == []
        assert [request.content for request in c.sent] == [b"one", b"two", b""]
        assert pipeline.is_broken

    asyncio.run(story())


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (broken("disk on fire"), "receiving from replica zone#broker-b: UNKNOWN: disk on fire"),
        (EOF, "receiving from replica zone#broker-b: unexpected EOF"),
    ],
)
def test_the_first_failure_to_receive_stays_and_the_others_are_read_all_the_same(
    answer: Any, reason: str
) -> None:
    async def story() -> None:
        pipeline, b, c = opened()
        b.answers.extend([answer, OK])
        c.answers.extend([OK, OK])
        for left in (1, 0):
            with pytest.raises(PeerFailed, match=reason):
                await pipeline.gather()
            assert (len(b.answers), len(c.answers)) == (1, left)

    asyncio.run(story())


def test_an_answer_to_a_commit_that_is_not_ok_fails_the_peer() -> None:
    async def story() -> None:
        pipeline, b, c = opened()
        b.answers.append(OK)
        c.answers.append(pb.ReplicateResponse(status=pb.PROPOSAL_MISMATCH))
        with pytest.raises(PeerFailed, match=r"committing at replica zone#broker-c: PROPOSAL_MIS"):
            await pipeline.gather_ok()
        assert pipeline.is_broken
        assert pipeline.state().is_broken

    asyncio.run(story())


def test_a_member_that_is_not_announced_fails_without_a_call() -> None:
    async def story() -> None:
        pipeline, b, c = opened(Route(ROUTE.members, 0, ("http://a", "", "http://c")))
        await pipeline.send_content(b"abc", 0)
        assert b.sent == []
        assert len(c.sent) == 1
        c.answers.append(OK)
        with pytest.raises(PeerFailed, match=r"broker-b: the broker is not announced"):
            await pipeline.gather()

    asyncio.run(story())


def test_a_pipeline_that_closes_rolls_back_and_gives_the_spool_before_its_peers_have_ended() -> (
    None
):
    async def story() -> None:
        pipeline, b, c = opened()
        await pipeline.send_content(b"abc", 0)
        before, gate = pipeline.barrier()
        assert before.is_set()
        closing = pipeline.close_soon()
        for _ in range(5):
            await asyncio.sleep(0)
        assert b.is_half_closed
        assert c.is_half_closed
        assert not pipeline.replica.spool.is_here  # answers are still to be read
        pipeline.pass_barrier(gate)
        spool = await asyncio.wait_for(pipeline.replica.spool.take(), 5)
        assert spool.delta == 0
        assert not closing.done()
        b.has_ended.set()
        c.has_ended.set()
        await asyncio.wait_for(closing, 5)

    asyncio.run(story())


def test_our_own_spool_must_take_what_it_proposes() -> None:
    async def story() -> None:
        pipeline, b, _ = opened()
        held = Held()
        held.commit(b"other")
        with pytest.raises(AssertionError, match="our own spool refuses"):
            await pipeline.propose(held.spool.fragment, EMPTY, acknowledge=True)
        assert b.sent == []

    asyncio.run(story())
