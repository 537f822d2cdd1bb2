"""Connections to the other brokers of the cluster, one per endpoint."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any, cast

import grpc

from windrow.journal.broker.ports import Metadata
from windrow.journal.broker.tokens import Authority, Capability
from windrow.journal.frames.pool import Pool
from windrow.journal.labels import EMPTY, Label, LabelSelector, LabelSet
from windrow.journal.process import grpc_address
from windrow.journal.wire import protocol_pb2 as pb
from windrow.journal.wire.protocol_pb2_grpc import JournalStub

CALLS_GRACE = 30.0
MOST_STREAMS = 512
"""Journals that are replicated to one broker in frames, each by a connection of its own."""
PASSED_ON = "windrow-passed-on"
"""Marks a read that came from a member which lacks the content: it goes no further."""
_FORWARDED = ("authorization", "windrow-chunk", PASSED_ON)
# A broker that comes back is to be found within a second, not after two minutes. What gRPC calls
# the least back-off is also how long a connection may take to come up.
_OPTIONS = (
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 2_000),
    ("grpc.max_reconnect_backoff_ms", 500),
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),
)


class BrokerPeers:
    """Calls of other brokers, with whatever authorises them."""

    def __init__(
        self,
        authority: Authority,
        credentials: grpc.ChannelCredentials | None = None,
        max_message_bytes: int = 4 * 1024 * 1024,
    ) -> None:
        self._authority, self._credentials = authority, credentials
        self._options = [
            *_OPTIONS,
            ("grpc.max_receive_message_length", max_message_bytes),
            ("grpc.max_send_message_length", max_message_bytes),
        ]
        self._channels: dict[str, grpc.aio.Channel] = {}
        self._frames = Pool(most_open=MOST_STREAMS)

    def replicate(self, endpoint: str, journal: str) -> Any:
        """Begin a Replicate call: a ``frames.calling.Call``."""
        metadata = self._own_metadata(journal)
        return self._frames.call(
            self._way_to(endpoint),
            "Replicate",
            metadata,
            pb.ReplicateResponse.FromString,
            lambda: self._stub(endpoint).Replicate(metadata=metadata),
            gathers=False,
        )

    def append(self, endpoint: str, journal: str, metadata: Metadata) -> Any:
        """Begin an Append call on behalf of a client with that metadata: a StreamUnaryCall."""
        return self._stub(endpoint).Append(metadata=_forwarded(metadata))

    def read(self, endpoint: str, request: pb.ReadRequest, metadata: Metadata) -> Any:
        """Begin a Read call on behalf of a client: a UnaryStreamCall."""
        return self._stub(endpoint).Read(request, metadata=_forwarded(metadata))

    async def list_fragments(
        self, endpoint: str, request: pb.FragmentsRequest, metadata: Metadata
    ) -> pb.FragmentsResponse:
        """Ask another broker for fragments, on behalf of a client."""
        call = self._stub(endpoint).ListFragments(request, metadata=_forwarded(metadata))
        return cast("pb.FragmentsResponse", await call)

    async def forget(self, endpoints: Collection[str]) -> None:
        """Use connections to brokers that are gone no more; calls on them fail by themselves.

        A connection that failed is not tried again for a while. Whoever comes back to the endpoint
        is to be reached at once.
        """
        self._frames.forget([self._way_to(endpoint) for endpoint in endpoints])
        await self._close(endpoints, CALLS_GRACE)

    async def close(self) -> None:
        """Close all connections, and end the calls on them."""
        self._frames.close()
        await self._close(tuple(self._channels), None)

    async def _close(self, endpoints: Collection[str], grace: float | None) -> None:
        known = [self._channels.pop(e) for e in endpoints if e in self._channels]
        await asyncio.gather(*(channel.close(grace) for channel in known))

    def _stub(self, endpoint: str) -> Any:
        channel = self._channels.get(endpoint)
        if channel is None:
            channel = self._channels[endpoint] = self._dial(endpoint)
        return JournalStub(channel)

    def _way_to(self, endpoint: str) -> str:
        """Where the broker that announced an endpoint is called."""
        return endpoint

    def _dial(self, endpoint: str) -> grpc.aio.Channel:
        address = grpc_address(self._way_to(endpoint))
        if endpoint.startswith("https:"):
            credentials = self._credentials or grpc.ssl_channel_credentials()
            return grpc.aio.secure_channel(address, credentials, options=self._options)
        return grpc.aio.insecure_channel(address, options=self._options)

    def _own_metadata(self, journal: str) -> tuple[tuple[str, str], ...]:
        if self._authority.is_open:
            return ()
        selector = LabelSelector(LabelSet((Label("name", journal),)), EMPTY)
        token = self._authority.sign(Capability.REPLICATE, selector)
        return (("authorization", f"Bearer {token}"),)


def _forwarded(metadata: Metadata) -> Metadata:
    return tuple((name, value) for name, value in metadata if name in _FORWARDED)
