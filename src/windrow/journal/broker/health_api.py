"""FragmentStoreHealth: try a store now, whether or not a journal uses it."""

from __future__ import annotations

import asyncio

from windrow.errors import WindrowError
from windrow.journal.broker.resolver import Resolver
from windrow.journal.fragments.stores import Stores, check_delete, check_store
from windrow.journal.messages import check_store_health_request, header_to_pb, status_to_pb
from windrow.journal.status import Status
from windrow.journal.wire import protocol_pb2 as pb


class HealthApi:
    """Probes stores on demand."""

    def __init__(self, resolver: Resolver, stores: Stores) -> None:
        self._resolver, self._stores = resolver, stores

    async def check(self, request: pb.FragmentStoreHealthRequest) -> pb.FragmentStoreHealthResponse:
        """Put, get, list and sign a small object; delete one too if that is asked for.

        Raises:
            InvalidField: The request is malformed.
        """
        check_store_health_request(request)
        problem = await asyncio.to_thread(self._probe, request)
        status = Status.OK if problem is None else Status.FRAGMENT_STORE_UNHEALTHY
        return pb.FragmentStoreHealthResponse(
            status=status_to_pb(status),
            header=header_to_pb(self._resolver.unrouted_header()),
            store_health_error=problem or "",
        )

    def _probe(self, request: pb.FragmentStoreHealthRequest) -> str | None:
        try:
            store = self._stores.open(request.fragment_store)
            check_store(store)
            if request.check_delete:
                check_delete(store, request.check_delete_prefix)
        except WindrowError as error:
            return str(error)
        return None
