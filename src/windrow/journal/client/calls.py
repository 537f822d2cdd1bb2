"""Calls of brokers: whom each goes to, and what is learned from how it ends."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from windrow.clock import Clock
from windrow.errors import Failed, Unreachable
from windrow.journal.client.dial import Channels, failure_of
from windrow.journal.client.meter import Meter
from windrow.journal.client.retrying import backoff
from windrow.journal.client.routes import Dispatcher
from windrow.journal.process import Route

if TYPE_CHECKING:
    import grpc

    from windrow.journal.wire import protocol_pb2 as pb


class Calls:
    """What every part of one client calls brokers through."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        channels: Channels,
        clock: Clock,
        meter: Meter | None = None,
    ) -> None:
        self.clock = clock
        self.meter = meter or Meter()
        self.min_revision = 0
        """Brokers that have not seen this revision wait for it: it made the journals we use."""
        self.patience = math.inf
        """Seconds for which a call that failed and may be made again is made again."""
        self._dispatcher = dispatcher
        self._channels = channels

    def append(self, journal: str, timeout: float | None) -> tuple[str, Any]:
        """Begin an append, at its primary if that is known; returns the endpoint and the call."""
        endpoint = self._dispatcher.for_primary(journal, self.clock.monotonic())
        return endpoint, self._channels.append(endpoint, timeout)

    def read(self, journal: str) -> tuple[str, Any]:
        """Begin a read, at a near member if one is known; returns the endpoint and the call."""
        endpoint = self._dispatcher.for_member(journal, self.clock.monotonic())
        return endpoint, self._channels.read(endpoint)

    def fragments(self, request: pb.FragmentsRequest) -> tuple[str, Any]:
        """Ask for a page of fragments."""
        endpoint = self._dispatcher.for_member(request.journal, self.clock.monotonic())
        return endpoint, self._stub(endpoint).ListFragments(request, **self._options(None))

    def list(self, request: pb.ListRequest) -> tuple[str, Any]:
        """Begin a listing, at any broker."""
        endpoint = self._dispatcher.any(self.clock.monotonic())
        return endpoint, self._stub(endpoint).List(request, **self._options(None))

    def apply(self, request: pb.ApplyRequest) -> tuple[str, Any]:
        """Ask for changes, of any broker."""
        endpoint = self._dispatcher.any(self.clock.monotonic())
        return endpoint, self._stub(endpoint).Apply(request, **self._options(None))

    def store_health(self, request: pb.FragmentStoreHealthRequest) -> tuple[str, Any]:
        """Have any broker try a store."""
        endpoint = self._dispatcher.any(self.clock.monotonic())
        return endpoint, self._stub(endpoint).FragmentStoreHealth(request, **self._options(None))

    async def pause(self, operation: str, attempt: int) -> None:
        """Wait before a call is made again, after so many attempts."""
        self.meter.on_retry(operation)
        await self.clock.sleep(backoff(attempt))

    def is_patience_over(self, began: float) -> bool:
        """Whether what began then has been tried for long enough."""
        return self.clock.monotonic() - began >= self.patience

    def on_answer(self, journal: str, endpoint: str, header: pb.Header) -> None:
        """A broker answered; its header says who serves the journal."""
        route = _route(header.route.SerializeToString())
        self._dispatcher.on_answer(journal, endpoint, route, self.clock.monotonic())

    def on_error(
        self, rpc: str, journal: str, endpoint: str, error: grpc.aio.AioRpcError
    ) -> Failed:
        """A call ended without an answer; returns the error to raise."""
        failure = failure_of(rpc, endpoint, error)
        if isinstance(failure, Unreachable):
            self._dispatcher.on_unreachable(journal, endpoint, self.clock.monotonic())
        return failure

    async def close(self) -> None:
        """Close every connection."""
        await self._channels.close()

    def _stub(self, endpoint: str) -> Any:
        return self._channels.stub(endpoint)

    def _options(self, timeout: float | None) -> dict[str, Any]:
        return {"metadata": self._channels.metadata(), "timeout": timeout}


@lru_cache(maxsize=1024)  # the same one comes with every answer of a journal
def _route(encoded: bytes) -> Route:
    from windrow.journal.messages import route_from_pb
    from windrow.journal.wire import protocol_pb2 as pb

    return route_from_pb(pb.Route.FromString(encoded))
