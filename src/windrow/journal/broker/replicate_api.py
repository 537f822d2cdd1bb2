"""Answers Replicate: applies what a primary sends to this broker's spool, for as long as it sends.

Messages are applied as they come; proposals to be acknowledged are answered in order, once the
spool is flushed. One flush serves all that came while the one before it ran.

A stream whose route is outdated may finish what it is doing, since an append under way is better
completed than lost. Once it is silent for a while it is ended: its primary hangs, or is cut off,
and the next one waits for the spool. So is one that is silent while another stream of the same
route waits: its primary has given it up, and the end of its connection was lost on the way.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING

from windrow.errors import Failed
from windrow.journal.broker.head import MEMORY_TERM, Head
from windrow.journal.broker.ownership import GivenUp
from windrow.journal.broker.signals import first_set
from windrow.journal.messages import (
    check_replicate_request,
    fragment_to_pb,
    header_from_pb,
    header_to_pb,
    labels_to_pb,
    status_to_pb,
)
from windrow.journal.status import Status
from windrow.journal.wire import protocol_pb2 as pb
from windrow.points import pass_by

if TYPE_CHECKING:
    from windrow.journal.broker.ports import RequestStream, Resolution, Resolver
    from windrow.journal.broker.replica import Replica
    from windrow.journal.fragment import Fragment
    from windrow.journal.fragments.spool import Spool
    from windrow.journal.labels import LabelSet
    from windrow.journal.spec import Route

    Proposed = tuple[Fragment, LabelSet] | None
    """What a message proposes, if it does."""


class ReplicateFailed(Failed):
    """A stream of a primary ended for a reason that has no status."""

    def __init__(self, journal: str, reason: str) -> None:
        super().__init__(journal, reason)
        self.journal, self.reason = journal, reason

    def __str__(self) -> str:
        return f"journal {self.journal!r}: {self.reason}"


class ReplicateApi:
    """Serves primaries of journals that this broker has a replica of."""

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver

    async def replicate(
        self, requests: RequestStream
    ) -> AsyncGenerator[pb.ReplicateResponse, None]:
        """Serve one primary.

        Raises:
            InvalidField: A message is malformed.
            ReplicateFailed: Its messages do not fit together.
            SpoolError: The spool cannot take what it sent.
        """
        messages = aiter(requests)
        first = await anext(messages, None)
        if first is None:
            return
        proposed = check_replicate_request(first, first=True)
        header = header_from_pb(first.header)
        journal = first.proposal.journal
        while True:
            resolution = await self._resolver.resolve(
                journal, require_primary=False, may_proxy=False, header=header
            )
            replica = resolution.replica
            if (refusal := _refusal(resolution, header.route)) is not None:
                yield refusal
                return
            if replica is None:  # although it is assigned to us: the one before has not ended yet
                raise ReplicateFailed(journal, "this broker is letting go of it")
            try:
                spool = await replica.spool.take((resolution.invalidated, replica.ended))
            except GivenUp:
                if replica.ended.is_set() and not resolution.invalidated.is_set():
                    raise ReplicateFailed(journal, "this broker is letting go of it") from None
                continue
            break
        stream = _Stream(replica, spool, resolution)
        try:
            # Closed before the spool goes: no message may be applied to it after that.
            async with aclosing(stream.serve(first, proposed, messages)) as responses:
                async for response in responses:
                    yield response
        finally:
            stream.let_go()


def _refusal(resolution: Resolution, route: Route) -> pb.ReplicateResponse | None:
    status = resolution.status
    if status is Status.OK and not resolution.route.equivalent(route):
        status = Status.WRONG_ROUTE
    if status is Status.OK:
        return None
    return pb.ReplicateResponse(status=status_to_pb(status), header=header_to_pb(resolution.header))


_PLAIN_OK = pb.ReplicateResponse(status=pb.OK)
"""To a commit or rollback that was adopted: of what we hold the primary knows already."""


class _Stream:
    """One primary's stream, while it owns the spool."""

    def __init__(self, replica: Replica, spool: Spool, resolution: Resolution) -> None:
        self._replica, self._spool, self._resolution = replica, spool, resolution
        self._acks: asyncio.Queue[pb.ReplicateResponse | None] = asyncio.Queue()
        self._is_first = True
        self._shows_at_once = False
        self._owns_spool = True
        self._active_at = asyncio.get_running_loop().time()

    async def serve(
        self, first: pb.ReplicateRequest, proposed: Proposed, messages: RequestStream
    ) -> AsyncGenerator[pb.ReplicateResponse, None]:
        """Apply messages in one task, and yield their acknowledgements here."""
        self._begin(first)
        reading = asyncio.create_task(self._read(first, proposed, messages))
        watching = asyncio.create_task(self._watch(reading))
        try:
            while (batch := await self._next_acks()) is not None:
                pass_by("journal.replica-adopted")
                await self._spool.flush()
                pass_by("journal.replica-flushed")
                if not self._owns_spool:
                    return
                for ack in batch:
                    yield ack
            await asyncio.wait([reading])
            if not reading.cancelled():
                reading.result()
        finally:
            for task in (watching, reading):
                task.cancel()
            await asyncio.wait([watching, reading])
            if not reading.cancelled():
                reading.exception()

    async def _next_acks(self) -> list[pb.ReplicateResponse] | None:
        """All acknowledgements that wait for a flush; None when the stream has ended."""
        ack = await self._acks.get()
        batch: list[pb.ReplicateResponse] = []
        while ack is not None:
            batch.append(ack)
            if self._acks.empty():
                return batch
            ack = self._acks.get_nowait()
        if batch:
            self._acks.put_nowait(None)
            return batch
        return None

    async def _read(
        self, first: pb.ReplicateRequest, proposed: Proposed, messages: RequestStream
    ) -> None:
        try:
            self._apply(first, proposed)
            async for message in messages:
                self._apply(message, check_replicate_request(message))
        finally:
            self._acks.put_nowait(None)

    async def _watch(self, reading: asyncio.Task[None]) -> None:
        """End a stream that is silent, and outdated or in the way of another."""
        loop, replica = asyncio.get_running_loop(), self._replica
        outdated, patience = self._resolution.invalidated, replica.timeouts.stale_stream
        await first_set(outdated, replica.ended, replica.spool.wanted)
        # What its primary sent before it knew of another route may still come. One that has opened
        # a second stream sends no more on the first.
        since = loop.time() if outdated.is_set() or replica.ended.is_set() else 0.0
        # Silence has no event, hence the sleep.
        while (quiet := loop.time() - max(since, self._active_at)) < patience:  # noqa: ASYNC110
            await asyncio.sleep(patience - quiet)
        reading.cancel()
        await asyncio.wait([reading])
        # Whoever hangs takes no answers either. Those wait for it, and the spool must not.
        await asyncio.sleep(patience)
        self.let_go()

    def let_go(self) -> None:
        """Give the spool back, once; no message may be applied to it any more."""
        if self._owns_spool:
            self._owns_spool = False
            self._spool.rollback()
            self._replica.spool.give(self._spool)

    # -- messages --------------------------------------------------------------------------------

    def _begin(self, first: pb.ReplicateRequest) -> None:
        """Find out what the primary keeps, and bring the spool onto the journal's branch."""
        is_durable = first.term not in (0, MEMORY_TERM)
        self._shows_at_once = first.term == 0
        if is_durable != self._replica.is_durable:
            raise ReplicateFailed(
                self._replica.journal,
                "its primary and this broker keep spools of different kinds;"
                " give --spool the same value on all brokers",
            )
        self._replica.admit(self._spool, self._head())

    def _head(self) -> Head | None:
        kv, item = self._resolution.head, self._resolution.item
        if kv is None or item is None:
            return None
        head = Head.decode(self._replica.journal, kv.value, kv.mod_revision)
        return head if head.create_revision == item.create_revision else None

    def _apply(self, message: pb.ReplicateRequest, proposed: Proposed) -> None:
        self._active_at = asyncio.get_running_loop().time()
        if message.acknowledged_end:
            self._replica.acknowledge(message.acknowledged_end)
        if message.fetch_length:
            self._fetch(message.fetch_offset, message.fetch_length)
            return
        if proposed is None:
            self._spool.apply_content(message.content, message.content_delta)
            return
        if message.joined_content:
            self._spool.apply_content(message.joined_content, 0)
        status = self._propose(message, *proposed)
        if message.acknowledge:
            is_plain = status is Status.OK and not message.term and not self._is_first
            self._acks.put_nowait(_PLAIN_OK if is_plain else self._response(status))
        elif status is not Status.OK:
            raise ReplicateFailed(
                self._replica.journal,
                f"{status.name} of a proposal that is not to be acknowledged"
                f" ({proposed[0]}, have {self._spool.fragment})",
            )

    def _fetch(self, offset: int, length: int) -> None:
        """Give out what the spool has, be it acknowledged or not: the primary copies it."""
        fragment = self._spool.fragment
        if not fragment.begin <= offset <= offset + length <= fragment.end:
            raise ReplicateFailed(
                self._replica.journal,
                f"[{offset}, {offset + length}) was asked for, and the spool has {fragment}",
            )
        response = self._response(Status.OK)
        response.content = self._spool.read_at(offset, length)
        self._acks.put_nowait(response)

    def _propose(
        self, message: pb.ReplicateRequest, proposal: Fragment, registers: LabelSet
    ) -> Status:
        replica, spool = self._replica, self._spool
        status = replica.adopt(
            spool,
            proposal,
            registers,
            term=message.term if replica.is_durable else 0,
            rewind=message.rewind,
        )
        if self._shows_at_once and status is Status.OK:
            replica.acknowledge(spool.fragment.end)
        return status

    def _response(self, status: Status) -> pb.ReplicateResponse:
        spool = self._spool
        response = pb.ReplicateResponse(
            status=status_to_pb(status),
            fragment=fragment_to_pb(spool.fragment),
            registers=labels_to_pb(spool.registers),
            term=spool.term,
            agreed_term=spool.agreed_term,
            acknowledged_end=spool.acknowledged_end,
            takes_joined=True,
        )
        if self._is_first:
            response.header.CopyFrom(header_to_pb(self._resolution.header))
            self._is_first = False
        return response
