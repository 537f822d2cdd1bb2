"""The replication pipeline of a primary: one Replicate stream to each other member of the route.

Whoever owns the pipeline sends; answers are read in the order in which proposals were sent, by a
chain of gates, while the next owner sends already. The first failure of a peer stays: nothing more
is sent to it or read from it, and the pipeline is built anew by its next owner.

Our own spool takes every message before any peer is sent it: what we cannot write ourselves needs
no taking back elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import grpc

from windrow.errors import Failed, WindrowError
from windrow.journal.broker.append_events import PipelineState, SpoolState
from windrow.journal.broker.head import MEMORY_TERM, Terms
from windrow.journal.broker.sync import Answer
from windrow.journal.fragment import Fragment
from windrow.journal.labels import LabelSet
from windrow.journal.messages import (
    check_replicate_response,
    fragment_from_pb,
    fragment_to_pb,
    header_from_pb,
    header_to_pb,
    labels_from_pb,
    labels_to_pb,
    status_from_pb,
)
from windrow.journal.spec import Header, ProcessId, Route
from windrow.journal.status import Status
from windrow.journal.wire import protocol_pb2 as pb
from windrow.points import pass_by

if TYPE_CHECKING:
    from windrow.journal.broker.ports import Peers
    from windrow.journal.broker.replica import Replica
    from windrow.journal.fragments.spool import Spool

Gate = asyncio.Event
_EOF: Any = grpc.aio.EOF  # type: ignore[attr-defined]


class PeerFailed(Failed):
    """A peer's stream broke, hung, or answered what it must not."""

    def __init__(self, journal: str, member: str, doing: str, reason: str) -> None:
        super().__init__(journal, member, doing, reason)
        self.journal, self.member, self.doing, self.reason = journal, member, doing, reason

    def __str__(self) -> str:
        return f"journal {self.journal!r}: {self.doing} replica {self.member}: {self.reason}"


@dataclass(slots=True)
class Peer:
    """A stream to one replica, and the first failures of its two directions."""

    member: ProcessId
    call: Any
    send_error: PeerFailed | None = None
    receive_error: PeerFailed | None = None
    takes_joined: bool = False
    """Whether it takes a proposal together with its content."""


class Pipeline:
    """Streams to all other members, and ownership of our own spool."""

    def __init__(
        self,
        replica: Replica,
        spool: Spool,
        route: Route,
        *,
        term: int = 0,
        head_revision: int = 0,
    ) -> None:
        self.replica, self.spool, self.route = replica, spool, route
        self.term, self.head_revision = term, head_revision
        self.peers: list[Peer] = []
        self.announced_end = 0
        """How far the peers know everything to be acknowledged."""
        self.unanswered = 0
        """Appends that came as a whole and were sent, alone or in groups, and not acknowledged."""
        self._gate: Gate = asyncio.Event()
        self._gate.set()
        self._gate_before = self._gate
        self._joining = b""
        """Content that our own spool has, and peers get with its proposal."""
        self.is_synced = False
        """Whether all members agreed, so that what they hold is acknowledged."""
        self._is_failed = False
        self._readers = 0
        self._closing: asyncio.Task[None] | None = None

    def open(self, peers: Peers, local: ProcessId) -> None:
        """Begin a stream to each other member."""
        for member in self.route.members:
            if member == local:
                continue
            peer = Peer(member, None)
            self.peers.append(peer)
            endpoint = self.route.endpoint_of(member)
            if endpoint is None:
                peer.send_error = peer.receive_error = self._failed(
                    peer, "calling", "the broker is not announced"
                )
            else:
                peer.call = peers.replicate(endpoint, self.replica.journal)

    @property
    def is_broken(self) -> bool:
        """Whether a peer has failed, or our own spool."""
        return self._is_failed or any(peer.send_error or peer.receive_error for peer in self.peers)

    def on_spool_failed(self) -> None:
        """Our own spool could not be flushed."""
        self._is_failed = True

    @property
    def has_readers(self) -> bool:
        """Whether answers to earlier proposals are still to be read."""
        return self._readers > 0

    def state(self) -> PipelineState:
        """What the machine has to know of it."""
        return PipelineState(
            self.route, self.term, self.head_revision, self.spool_state(), self.is_broken
        )

    def spool_state(self) -> SpoolState:
        """What our own spool holds."""
        spool = self.spool
        terms = Terms(spool.term, spool.agreed_term)
        return SpoolState(
            spool.fragment,
            spool.registers,
            terms,
            spool.first_append_time,
            spool.acknowledged_end,
        )

    # -- sending ---------------------------------------------------------------------------------

    async def send_sync(
        self,
        proposal: Fragment,
        registers: LabelSet,
        *,
        header: Header | None = None,
        rewind: bool = False,
        acknowledged_end: int | None = None,
    ) -> None:
        """Propose to all, to be acknowledged, while nobody has agreed to anything yet."""
        if acknowledged_end is None:
            acknowledged_end = self.replica.acknowledged_end
        request = pb.ReplicateRequest(
            proposal=fragment_to_pb(proposal),
            registers=labels_to_pb(registers),
            acknowledge=True,
            term=self.term or MEMORY_TERM,
            rewind=rewind,
            acknowledged_end=acknowledged_end,
        )
        status = self.replica.adopt(
            self.spool, proposal, registers, term=self.term, rewind=rewind, primary=True
        )
        assert status is Status.OK, f"refused {proposal}, have {self.spool.fragment}"
        for peer in self.peers:
            if header is not None:
                own = replace(header, process_id=peer.member)
                request.header.CopyFrom(header_to_pb(own))
            await self.send(peer, request)
        await self.spool.flush()

    async def send_content(self, content: bytes, delta: int, *, joins: bool = False) -> None:
        """Apply content, then send it to all; if it joins its proposal, only once that is sent."""
        self.spool.apply_content(content, delta)
        pass_by("journal.content-unsent")
        if joins and delta == 0:
            self._joining = content
        elif self.peers:
            await self._scatter(
                pb.ReplicateRequest(
                    content=content,
                    content_delta=delta,
                    acknowledged_end=self.replica.acknowledged_end,
                )
            )

    async def propose(self, proposal: Fragment, registers: LabelSet, *, acknowledge: bool) -> None:
        """Adopt a proposal, then send it to all."""
        content, self._joining = self._joining, b""
        status = self.spool.propose(proposal, registers, primary=True, now=self.replica.now())
        assert status is Status.OK, (
            f"our own spool refuses {proposal}: it has {self.spool.fragment}"
        )
        if self.peers:
            request = pb.ReplicateRequest(
                proposal=fragment_to_pb(proposal),
                registers=labels_to_pb(registers),
                acknowledge=acknowledge,
                acknowledged_end=self.replica.acknowledged_end,
            )
            await self._scatter(request, content)
        if acknowledge:
            pass_by("journal.proposed")

    async def announce(self) -> None:
        """Tell idle peers how far everything is acknowledged, so that they show it.

        Only while no content is open: the proposal would drop it.
        """
        end = self.replica.acknowledged_end
        if self.peers and self.announced_end < end and not self.is_broken and not self.spool.delta:
            await self.propose(self.spool.fragment, self.spool.registers, acknowledge=False)

    async def _scatter(self, request: pb.ReplicateRequest, joined: bytes = b"") -> None:
        """Send to all; a peer that does not take joined content gets it before the proposal."""
        for peer in self.peers:
            if joined and not peer.takes_joined:
                await self.send(peer, pb.ReplicateRequest(content=joined))
            request.joined_content = joined if peer.takes_joined else b""
            await self.send(peer, request)
        self.announced_end = request.acknowledged_end

    async def send(self, peer: Peer, request: pb.ReplicateRequest) -> None:
        """Send to one peer, unless it has failed already; a failure stays with the peer."""
        if peer.send_error is not None or peer.call.write_now(request):
            return
        try:
            async with asyncio.timeout(self.replica.timeouts.peer_write):
                await peer.call.write(request)
        except TimeoutError:
            peer.send_error = self._failed(peer, "sending to", "it takes no more messages")
        except (grpc.RpcError, asyncio.InvalidStateError, grpc.aio.UsageError) as error:
            peer.send_error = await self._reason(peer, "sending to", error)

    def send_error(self) -> PeerFailed | None:
        """The first failure to send, if there was one."""
        return next((peer.send_error for peer in self.peers if peer.send_error), None)

    # -- receiving -------------------------------------------------------------------------------

    def barrier(self) -> tuple[Gate, Gate]:
        """The gate to wait for before reading, and the one to open after it."""
        before, self._gate = self._gate, asyncio.Event()
        self._gate_before = before
        self._readers += 1
        return before, self._gate

    def pass_barrier(self, gate: Gate) -> None:
        """The answers that were ours to read are read, or never come."""
        self._readers -= 1
        gate.set()

    async def wait_room(self, groups: int) -> None:
        """Return once fewer than so many proposals, one or two, are still to be answered."""
        await (self._gate if groups == 1 else self._gate_before).wait()

    async def quiesce(self) -> None:
        """Return once all answers to what was sent so far are read."""
        await self._gate.wait()

    async def gather(self, peers: Sequence[Peer] | None = None) -> list[pb.ReplicateResponse]:
        """One answer of each peer, or of each of these.

        Raises:
            PeerFailed: A peer gave none; whatever the others answered is read all the same.
        """
        peers = self.peers if peers is None else peers
        answers: list[pb.ReplicateResponse | None] = []
        deadline = asyncio.get_running_loop().time() + self.replica.timeouts.peer_ack
        for peer in peers:
            if peer.receive_error is None and (answer := peer.call.read_now()) is not None:
                answers.append(answer)
                continue
            try:
                async with asyncio.timeout_at(deadline):
                    answers.append(await self._receive(peer))
            except TimeoutError:
                peer.receive_error = self._failed(peer, "waiting for", "no answer in time")
        for peer in peers:
            if peer.receive_error is not None:
                raise peer.receive_error
        return [answer for answer in answers if answer is not None]

    async def gather_sync(self) -> tuple[Answer, ...]:
        """The answers to a synchronising proposal.

        Raises:
            PeerFailed: A peer gave none.
        """
        answers = await self.gather()
        for peer, answer in zip(self.peers, answers, strict=True):
            self._check(peer, answer)
            peer.takes_joined = answer.takes_joined
        return tuple(
            _as_answer(str(peer.member), answer)
            for peer, answer in zip(self.peers, answers, strict=True)
        )

    def _check(self, peer: Peer, answer: pb.ReplicateResponse) -> None:
        """Of other answers only the status is looked at, and there are many."""
        try:
            check_replicate_response(answer)
        except WindrowError as error:
            peer.receive_error = self._failed(peer, "receiving from", str(error))
            raise peer.receive_error from error

    async def gather_ok(self, peers: Sequence[Peer] | None = None) -> None:
        """The answers to a commit or rollback.

        Raises:
            PeerFailed: A peer gave none, or did not adopt the proposal.
        """
        peers = self.peers if peers is None else peers
        answers = await self.gather(peers)
        for peer, answer in zip(peers, answers, strict=True):
            if answer.status != pb.OK:
                status = status_from_pb(answer.status)
                peer.receive_error = self._failed(peer, "committing at", status.name)
                raise peer.receive_error

    async def _receive(self, peer: Peer) -> pb.ReplicateResponse | None:
        if peer.receive_error is not None:
            return None
        try:
            answer = await peer.call.read()
            if answer is not _EOF:
                return answer  # type: ignore[no-any-return]
            peer.receive_error = self._failed(peer, "receiving from", "unexpected EOF")
        except (grpc.RpcError, asyncio.InvalidStateError) as error:
            # Of one that could not be sent to, that is the reason.
            peer.receive_error = peer.send_error or await self._reason(
                peer, "receiving from", error
            )
        return None

    async def _reason(self, peer: Peer, doing: str, error: BaseException) -> PeerFailed:
        if isinstance(error, grpc.aio.AioRpcError):
            return self._failed(peer, doing, f"{error.code().name}: {error.details()}")
        if peer.call.done():
            code, details = await peer.call.code(), await peer.call.details()
            return self._failed(peer, doing, f"{code.name}: {details}")
        return self._failed(peer, doing, str(error))

    def _failed(self, peer: Peer, doing: str, reason: str) -> PeerFailed:
        return PeerFailed(self.replica.journal, str(peer.member), doing, reason)

    # -- closing ---------------------------------------------------------------------------------

    def close_soon(self) -> asyncio.Task[None]:
        """Close in the background: whoever comes next waits for the spool, not for the peers."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._close())
        return self._closing

    async def close(self) -> None:
        """Half-close the streams, let answers be read, give the spool back, expect the ends."""
        await self.close_soon()

    async def _close(self) -> None:
        self.spool.rollback()
        try:
            await _settle([self._half_close(peer) for peer in self.peers])
            await self.quiesce()
        finally:
            self.replica.spool.give(self.spool)
        await _settle([self._expect_end(peer) for peer in self.peers])

    async def _half_close(self, peer: Peer) -> None:
        if peer.call is not None and not peer.call.done():
            async with asyncio.timeout(self.replica.timeouts.peer_write):
                await peer.call.done_writing()

    async def _expect_end(self, peer: Peer) -> None:
        if peer.call is None:
            return
        try:
            async with asyncio.timeout(self.replica.timeouts.peer_ack):
                while not peer.call.done() and await peer.call.read() is not _EOF:
                    pass
        finally:
            peer.call.cancel()


async def _settle(steps: Sequence[Any]) -> None:
    """Do all of it; what fails on the way out has failed already."""
    if steps:
        await asyncio.gather(*steps, return_exceptions=True)


def _as_answer(member: str, answer: pb.ReplicateResponse) -> Answer:
    header = header_from_pb(answer.header) if answer.HasField("header") else None
    return Answer(
        member,
        status_from_pb(answer.status),
        fragment_from_pb(answer.fragment) if answer.HasField("fragment") else None,
        labels_from_pb(answer.registers),
        header.route if header else Route.NONE,
        header.etcd.revision if header else 0,
        Terms(answer.term, answer.agreed_term),
        answer.acknowledged_end,
    )
