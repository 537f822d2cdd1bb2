"""Read: a journal's content from an offset on, from this broker, a store, or another broker."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from windrow.errors import Failed, Unreachable
from windrow.journal.broker.other_members import OtherMembers
from windrow.journal.broker.peers import BrokerPeers
from windrow.journal.broker.ports import Metadata
from windrow.journal.broker.resolver import Resolved, Resolver
from windrow.journal.broker.waiting import unless
from windrow.journal.fragment import Fragment
from windrow.journal.fragments.cover_set import Entry
from windrow.journal.fragments.index import Answer, Index
from windrow.journal.messages import (
    check_read_request,
    fragment_to_pb,
    header_from_pb,
    header_to_pb,
    process_id_to_pb,
    status_to_pb,
)
from windrow.journal.spec import ProcessId, Route
from windrow.journal.status import Status
from windrow.journal.wire import protocol_pb2 as pb

if TYPE_CHECKING:
    from windrow.journal.broker.replica import Replica

CHUNK = 32_736
"""So that a message, its envelope included, stays below 32 KiB: what stock clients expect."""
MAX_CHUNK = 1 << 20
CHUNK_METADATA = "windrow-chunk"
URL_TTL = 60.0


class ShortFragment(Failed):
    """The content of a fragment ends before the fragment does."""

    def __init__(self, fragment: str, offset: int) -> None:
        super().__init__(fragment, offset)
        self.fragment, self.offset = fragment, offset

    def __str__(self) -> str:
        return f"fragment {self.fragment} ends at offset {self.offset}, before its name says so"


class StoredFragments(Protocol):
    """Fragments that lie in a store."""

    async def signed_url(self, fragment: Fragment, ttl: float) -> str:
        """Where a client may fetch it for so many seconds; empty if it cannot."""

    def read(self, fragment: Fragment, offset: int) -> AsyncIterator[bytes]:
        """Its uncompressed content from a journal offset on."""


@dataclass(frozen=True, slots=True)
class _Asked:
    offset: int
    begin_mod_time: int


class ReadApi:
    """Serves reads of the journals of this broker, and passes the others on."""

    def __init__(self, resolver: Resolver, peers: BrokerPeers, stored: StoredFragments) -> None:
        self._resolver, self._peers, self._stored = resolver, peers, stored
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """End all reads as if their content had ended, so that their clients go elsewhere."""
        self._stopping.set()

    async def read(
        self, request: pb.ReadRequest, metadata: Metadata
    ) -> AsyncGenerator[pb.ReadResponse, None]:
        """Metadata of a fragment, its content in chunks, then the next fragment, and so on.

        Raises:
            InvalidField: The request is malformed.
            WrongCluster: It was passed on from another cluster.
            WrongProcess: It was meant for another broker.
            Unreachable: No member of the route can be passed the request.
        """
        check_read_request(request)
        resolved = await self._resolver.resolve(
            request.journal,
            require_primary=False,
            may_proxy=not request.do_not_proxy,
            header=header_from_pb(request.header) if request.HasField("header") else None,
            min_revision=request.min_etcd_revision,
        )
        status = resolved.status
        if status is Status.OK and not (resolved.journal_spec and resolved.journal_spec.readable):
            status = Status.NOT_ALLOWED
        if status is not Status.OK:
            header = header_to_pb(resolved.header)
            yield pb.ReadResponse(status=status_to_pb(status), header=header)
            return
        if resolved.replica is None:
            served = self._proxy(resolved, request, metadata)
        else:
            served = self._serve(resolved, resolved.replica, request, metadata)
        async with aclosing(served):
            async for response in served:
                yield response

    # -- of this broker ----------------------------------------------------------------------------

    async def _serve(
        self, resolved: Resolved, replica: Replica, request: pb.ReadRequest, metadata: Metadata
    ) -> AsyncGenerator[pb.ReadResponse, None]:
        header: pb.Header | None = header_to_pb(resolved.header)
        offset, chunk = request.offset, chunk_size(metadata)
        others = OtherMembers(self._peers, resolved, request, metadata)
        while True:
            answer = await self._query(replica, offset, request, others)
            if answer is None:
                return
            if answer.is_gap and (other := await others.find(answer.offset)) is not None:
                passed = others.read(other, answer.offset)
                async with aclosing(self._responses(passed)) as responses:
                    async for response in responses:
                        if header is None:
                            response.ClearField("header")
                        yield response
                return
            response = await self._metadata(answer)
            if header is not None:
                response.header.CopyFrom(header)
                header = None
            yield response
            entry, offset = answer.entry, answer.offset
            is_past_end = request.end_offset and offset >= request.end_offset
            if entry is None or request.metadata_only or is_past_end:
                return
            if entry.content is None and request.do_not_proxy:
                return  # the client fetches it from the store by itself
            end = min(entry.fragment.end, request.end_offset or entry.fragment.end)
            async with aclosing(self._content(entry, offset, end, chunk)) as pieces:
                async for piece in pieces:
                    if self._stopping.is_set():
                        return
                    yield pb.ReadResponse(offset=offset, content=piece)
                    offset += len(piece)
            if request.end_offset and offset >= request.end_offset:
                return

    async def _query(
        self, replica: Replica, offset: int, request: pb.ReadRequest, others: OtherMembers
    ) -> Answer | None:
        """What is at an offset, as soon as it is here or can be had of another member."""
        index: Index = replica.index
        if not index.is_listed and not await self._listed(replica, index):
            return None
        while True:
            changed = index.changed
            answer = index.query(_Asked(offset, request.begin_mod_time))
            if answer.entry is not None or not request.block:
                return answer
            if answer.is_gap and await others.find(answer.offset) is not None:
                return answer
            if await unless(changed.wait(), replica.ended, self._stopping) is None:
                return None
            offset = answer.offset

    async def _listed(self, replica: Replica, index: Index) -> bool:
        """Whether the stores have been listed: before, nobody knows where the journal begins."""
        await unless(index.wait_listed(), replica.ended, self._stopping)
        return index.is_listed

    async def _metadata(self, answer: Answer) -> pb.ReadResponse:
        response = pb.ReadResponse(
            status=status_to_pb(answer.status), offset=answer.offset, write_head=answer.write_head
        )
        if answer.entry is not None:
            fragment = answer.entry.fragment
            response.fragment.CopyFrom(fragment_to_pb(fragment))
            if fragment.is_persisted:
                response.fragment_url = await self._stored.signed_url(fragment, URL_TTL)
        return response

    async def _content(
        self, entry: Entry, offset: int, end: int, chunk: int
    ) -> AsyncGenerator[bytes, None]:
        """Bytes ``offset`` up to ``end`` of a fragment, in pieces of at most ``chunk``."""
        if entry.content is not None:
            while offset < end:
                piece = entry.content.read_at(offset, min(chunk, end - offset))
                _check_grew(entry.fragment, offset, piece)
                yield piece
                offset += len(piece)
            return
        async for content in self._stored.read(entry.fragment, offset):
            for at in range(0, min(len(content), end - offset), chunk):
                yield content[at : min(at + chunk, end - offset)]
            offset += len(content)
            if offset >= end:
                return
        _check_grew(entry.fragment, offset, b"")

    # -- of another broker -------------------------------------------------------------------------

    async def _proxy(
        self, resolved: Resolved, request: pb.ReadRequest, metadata: Metadata
    ) -> AsyncGenerator[pb.ReadResponse, None]:
        server, endpoint = choose_member(resolved.route, resolved.local_id)
        passed = pb.ReadRequest()
        passed.CopyFrom(request)
        passed.header.CopyFrom(header_to_pb(resolved.header))
        passed.header.process_id.CopyFrom(process_id_to_pb(server))
        call = self._peers.read(endpoint, passed, metadata)
        async with aclosing(self._responses(call)) as responses:
            async for response in responses:
                yield response

    async def _responses(self, call: Any) -> AsyncGenerator[pb.ReadResponse, None]:
        """What another broker answers, until this one ends."""
        responses = aiter(call)
        try:
            while True:
                response = await unless(_next(responses), self._stopping)
                if response is None:
                    return
                yield response
        finally:
            call.cancel()


async def _next(responses: AsyncIterator[pb.ReadResponse]) -> pb.ReadResponse | None:
    return await anext(responses, None)


def choose_member(route: Route, local_id: ProcessId) -> tuple[ProcessId, str]:
    """A member that can be asked in our stead, of our own zone if there is one.

    Raises:
        Unreachable: No member is announced at present.
    """
    known = [(m, e) for m, e in zip(route.members, route.endpoints, strict=False) if e]
    near = [(member, endpoint) for member, endpoint in known if member.zone == local_id.zone]
    if not known:
        names = ", ".join(map(str, route.members))
        raise Unreachable("a broker of the journal", names, "none of them is announced")
    return random.choice(near or known)


def chunk_size(metadata: Metadata) -> int:
    """How much content to put into a message, as the client asks for or stock clients expect."""
    for name, value in metadata:
        if name == CHUNK_METADATA:
            text = value if isinstance(value, str) else value.decode("ascii", "replace")
            return min(max(int(text), 1), MAX_CHUNK) if text.isdecimal() else CHUNK
    return CHUNK


def _check_grew(fragment: Fragment, offset: int, piece: bytes) -> None:
    if not piece and offset < fragment.end:
        raise ShortFragment(fragment.content_path(), offset)
