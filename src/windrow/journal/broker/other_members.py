"""Which other member of a route has what this one lacks?

A member that came late has nothing of what was written before it, until it is stored; and without
a store for ever. Those who were there before have it, and a read can be passed on to them, once:
whoever gets it answers by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc

from windrow.journal.broker.peers import PASSED_ON, BrokerPeers
from windrow.journal.messages import header_to_pb, process_id_to_pb
from windrow.journal.spec import ProcessId
from windrow.journal.wire import protocol_pb2 as pb

if TYPE_CHECKING:
    from windrow.journal.broker.ports import Metadata
    from windrow.journal.broker.resolver import Resolved


class OtherMembers:
    """The other members, on behalf of one read."""

    def __init__(
        self,
        peers: BrokerPeers,
        resolved: Resolved,
        request: pb.ReadRequest,
        metadata: Metadata,
    ) -> None:
        self._peers, self._resolved, self._request = peers, resolved, request
        self._metadata = (*metadata, (PASSED_ON, "1"))
        is_passed_on = any(name == PASSED_ON for name, _ in metadata)
        self._may_ask = not is_passed_on and not request.do_not_proxy
        self._found: dict[int, ProcessId | None] = {}

    async def find(self, offset: int) -> ProcessId | None:
        """A member that has content at the offset; each offset is asked for once."""
        if not self._may_ask:
            return None
        if offset not in self._found:
            self._found[offset] = await self._ask(offset)
        return self._found[offset]

    async def _ask(self, offset: int) -> ProcessId | None:
        resolved = self._resolved
        for member in resolved.route.members:
            if member == resolved.local_id or resolved.route.endpoint_of(member) is None:
                continue
            call = self._read(member, offset, metadata_only=True, block=False)
            try:
                response = await anext(aiter(call), None)
            except grpc.aio.AioRpcError:
                continue  # of those that can be reached, another may have it
            finally:
                call.cancel()
            if response is not None and response.status == pb.OK and response.offset == offset:
                return member
        return None

    def read(self, member: ProcessId, offset: int) -> Any:
        """Begin the read at that member, from an offset on."""
        request = self._request
        return self._read(member, offset, metadata_only=request.metadata_only, block=request.block)

    def _read(self, member: ProcessId, offset: int, *, metadata_only: bool, block: bool) -> Any:
        resolved, passed = self._resolved, pb.ReadRequest()
        passed.CopyFrom(self._request)
        passed.offset, passed.metadata_only, passed.block = offset, metadata_only, block
        passed.header.CopyFrom(header_to_pb(resolved.header))
        passed.header.process_id.CopyFrom(process_id_to_pb(member))
        endpoint = resolved.route.endpoint_of(member)
        assert endpoint is not None
        return self._peers.read(endpoint, passed, self._metadata)
