"""What a primary copies to its peers and when that counts, and what it announces to them.

The pipeline and the spools are real; a peer is a list of what it was sent.
"""

from __future__ import annotations

import asyncio
from typing import Any

from tests.unit.journal.broker.model import JOURNAL, flush
from tests.unit.journal.broker.test_replica import MEMBER, Held
from windrow.journal.broker.back_fill import back_fill
from windrow.journal.broker.pipeline import Peer, Pipeline
from windrow.journal.broker.sync import Copy
from windrow.journal.fragment import Fragment
from windrow.journal.labels import EMPTY
from windrow.journal.spec import ProcessId, Route
from windrow.journal.wire import protocol_pb2 as pb

OTHER = ProcessId("zone", "broker-b")
TERM = 90


class Call:
    """A peer's stream: takes everything, and answers when a test says so."""

    def __init__(self) -> None:
        self.sent: list[pb.ReplicateRequest] = []
        self.answers: asyncio.Queue[pb.ReplicateResponse] = asyncio.Queue()

    def write_now(self, request: pb.ReplicateRequest) -> bool:
        self.sent.append(pb.ReplicateRequest.FromString(request.SerializeToString()))
        return True

    def read_now(self) -> pb.ReplicateResponse | None:
        return None if self.answers.empty() else self.answers.get_nowait()

    async def read(self) -> pb.ReplicateResponse:
        return await self.answers.get()


def pipeline_to_a_peer(held: Held) -> tuple[Pipeline, Call]:
    call: Any = Call()
    pipeline = Pipeline(held.replica, held.spool, Route((MEMBER, OTHER), 0), term=TERM)
    pipeline.peers = [Peer(OTHER, call)]
    return pipeline, call


def empty_at(offset: int) -> Fragment:
    return Fragment(JOURNAL, offset, offset)


async def everything_possible() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def test_a_copy_counts_only_when_all_who_lacked_it_have_it_on_disk() -> None:
    """J3: the head is decided next, and by then it must not depend on the donor's disk alone."""

    async def story() -> None:
        held = Held()
        held.commit(b"tail")
        flush(held.spool)
        pipeline, call = pipeline_to_a_peer(held)
        copy = Copy(str(MEMBER), (str(OTHER),), 0, 4, EMPTY)
        copying = asyncio.create_task(back_fill(pipeline, copy, empty_at(0)))
        await everything_possible()
        assert [message.content for message in call.sent] == [b"", b"tail", b""]
        assert [message.acknowledge for message in call.sent] == [False, False, True]
        assert not copying.done()
        call.answers.put_nowait(pb.ReplicateResponse(status=pb.OK))
        await copying

    asyncio.run(story())


def test_a_copy_that_we_lacked_ourselves_is_on_our_own_disk_before_it_counts() -> None:
    """J3, the other way round: the peer has it, and we are the primary."""

    async def story() -> None:
        held = Held()
        pipeline, call = pipeline_to_a_peer(held)
        copy = Copy(str(OTHER), (str(MEMBER),), 0, 4, EMPTY)
        call.answers.put_nowait(pb.ReplicateResponse(status=pb.OK, content=b"tail"))
        await back_fill(pipeline, copy, empty_at(0))
        assert held.spool.is_flushed
        (file,) = held.files.files
        assert file.durable is not None
        record, content = file.durable
        assert (record.fragment.end, content) == (4, b"tail")

    asyncio.run(story())


def test_idle_peers_are_told_once_how_far_all_is_acknowledged() -> None:
    """J5: the last append before a silence must not stay hidden until the next pulse."""

    async def story() -> None:
        held = Held()
        pipeline, call = pipeline_to_a_peer(held)
        held.commit(b"last")
        await pipeline.announce()
        assert call.sent == []
        held.replica.acknowledge(4)
        await pipeline.announce()
        await pipeline.announce()
        (told,) = call.sent
        assert (told.acknowledged_end, told.proposal.end, told.acknowledge) == (4, 4, False)

    asyncio.run(story())


def test_nothing_is_announced_while_content_is_open() -> None:
    """J5: it would be a proposal of the current fragment, which drops the content everywhere."""

    async def story() -> None:
        held = Held()
        pipeline, call = pipeline_to_a_peer(held)
        held.commit(b"last")
        held.replica.acknowledge(4)
        held.spool.apply_content(b"open", 0)
        await pipeline.announce()
        assert (call.sent, held.spool.delta) == ([], 4)

    asyncio.run(story())
