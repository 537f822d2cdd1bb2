"""ListFragments: what a journal consists of, page by page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windrow.errors import Unreachable
from windrow.journal.broker.peers import BrokerPeers
from windrow.journal.broker.ports import Metadata
from windrow.journal.broker.read_api import StoredFragments, choose_member
from windrow.journal.broker.resolver import Resolved, Resolver
from windrow.journal.broker.waiting import unless
from windrow.journal.fragments.cover_set import Entry
from windrow.journal.fragments.index import Index, page_of
from windrow.journal.messages import (
    DEFAULT_PAGE,
    check_fragments_request,
    duration_from_pb,
    fragment_to_pb,
    header_from_pb,
    header_to_pb,
    process_id_to_pb,
    status_to_pb,
)
from windrow.journal.status import Status
from windrow.journal.wire import protocol_pb2 as pb

if TYPE_CHECKING:
    from windrow.journal.broker.replica import Replica


class FragmentsApi:
    """Answers from the index of this broker's replica, or asks another broker."""

    def __init__(self, resolver: Resolver, peers: BrokerPeers, stored: StoredFragments) -> None:
        self._resolver, self._peers, self._stored = resolver, peers, stored

    async def list(self, request: pb.FragmentsRequest, metadata: Metadata) -> pb.FragmentsResponse:
        """One page of fragments, by their begin.

        Raises:
            InvalidField: The request is malformed.
            Unreachable: No broker of the journal can be asked.
        """
        check_fragments_request(request)
        resolved = await self._resolver.resolve(
            request.journal,
            require_primary=False,
            may_proxy=not request.do_not_proxy,
            header=header_from_pb(request.header) if request.HasField("header") else None,
        )
        if resolved.status is not Status.OK:
            return _answer(resolved, resolved.status)
        if resolved.replica is None:
            return await self._proxy(resolved, request, metadata)
        return await self._serve(resolved, resolved.replica, request)

    async def _serve(
        self, resolved: Resolved, replica: Replica, request: pb.FragmentsRequest
    ) -> pb.FragmentsResponse:
        index: Index = replica.index
        await unless(index.wait_listed(), replica.ended)
        if not index.is_listed:
            raise Unreachable("the replica of", request.journal, "it was taken from this broker")
        page, token = page_of(
            index.entries,
            begin_mod_time=request.begin_mod_time,
            end_mod_time=request.end_mod_time,
            token=request.next_page_token,
            limit=request.page_limit or DEFAULT_PAGE,
        )
        answer = _answer(resolved, Status.OK)
        answer.next_page_token = token
        for entry in page:
            answer.fragments.append(await self._fragment(entry, request))
        return answer

    async def _fragment(
        self, entry: Entry, request: pb.FragmentsRequest
    ) -> pb.FragmentsResponse._Fragment:
        message = pb.FragmentsResponse._Fragment(spec=fragment_to_pb(entry.fragment))
        if entry.fragment.is_persisted and request.HasField("signatureTTL"):
            ttl = duration_from_pb(request.signatureTTL, "SignatureTTL")
            message.signed_url = await self._stored.signed_url(entry.fragment, ttl)
        return message

    async def _proxy(
        self, resolved: Resolved, request: pb.FragmentsRequest, metadata: Metadata
    ) -> pb.FragmentsResponse:
        server, endpoint = choose_member(resolved.route, resolved.local_id)
        passed = pb.FragmentsRequest()
        passed.CopyFrom(request)
        passed.header.CopyFrom(header_to_pb(resolved.header))
        passed.header.process_id.CopyFrom(process_id_to_pb(server))
        return await self._peers.list_fragments(endpoint, passed, metadata)


def _answer(resolved: Resolved, status: Status) -> pb.FragmentsResponse:
    return pb.FragmentsResponse(status=status_to_pb(status), header=header_to_pb(resolved.header))
