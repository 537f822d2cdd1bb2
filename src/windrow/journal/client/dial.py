"""Connections to brokers: one channel per address, with TLS and tokens.

An address is ``host:port``, or a URL as brokers announce them: ``http://…``, ``https://…`` or
``unix://…``. ``https`` asks for TLS.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from windrow.errors import Failed, Unreachable
from windrow.extras import require
from windrow.journal.client.errors import CallFailed
from windrow.journal.process import grpc_address, valid_endpoint

if TYPE_CHECKING:
    import grpc

    from windrow.journal.frames.pool import Pool

Token = str | Callable[[], str]
"""A bearer token, or what gives the one that is valid now."""

READ_CHUNK = ("windrow-chunk", str(256 * 1024))
"""Asks our brokers for larger pieces than stock clients expect; a stock broker ignores it."""

_OPTIONS = (
    # A connection nobody uses is let go, and made again in a moment.
    ("grpc.client_idle_timeout_ms", 60_000),
    # A broker that comes back is found within a second or two.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 2_000),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # Another client of this process that failed to connect is no reason to wait.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.max_receive_message_length", 64 * 1024 * 1024),
)


@dataclass(frozen=True, slots=True)
class Tls:
    """What TLS needs, as PEM; a certificate and key of our own where brokers ask for one."""

    authority: bytes | None = None
    certificate: bytes | None = None
    key: bytes | None = None
    server_name: str = ""


def as_endpoint(address: str, *, secure: bool = False) -> str:
    """The address as the URL a broker would announce.

    Raises:
        InvalidField: It is no address of a broker.
    """
    if "://" not in address:
        address = f"{'https' if secure else 'http'}://{address}"
    return valid_endpoint(address)


class Channels:
    """The channels of one client, opened when first used."""

    def __init__(self, tls: Tls | None = None, token: Token | None = None) -> None:
        self._tls = tls
        self._token = token
        self._opened: dict[str, tuple[grpc.aio.Channel, Any]] = {}
        self._pools: dict[str, Pool] = {}
        """Of appends and of reads: many reads that wait for content are in no append's way."""

    def append(self, endpoint: str, timeout: float | None) -> Any:
        """Begin an append: a call of ``grpc.aio``, or what looks like one."""
        pool = self._pool("Append")
        from windrow.journal.wire import protocol_pb2 as pb

        metadata = self.metadata()
        return pool.call(
            endpoint,
            "Append",
            metadata,
            pb.AppendResponse.FromString,
            lambda: self.stub(endpoint).Append(metadata=metadata, timeout=timeout),
            gathers=True,
            timeout=timeout,
        )

    def read(self, endpoint: str) -> Any:
        """Begin a read; its one message is written to it, and its answers are read from it."""
        pool = self._pool("Read")
        from windrow.journal.frames.calling import OneMessage
        from windrow.journal.wire import protocol_pb2 as pb

        metadata = (*self.metadata(), READ_CHUNK)
        return pool.call(
            endpoint,
            "Read",
            metadata,
            pb.ReadResponse.FromString,
            lambda: OneMessage(partial(self.stub(endpoint).Read, metadata=metadata)),
            gathers=True,
        )

    def _pool(self, method: str) -> Pool:
        if method not in self._pools:
            require("grpc")
            from windrow.journal.frames.pool import Pool

            self._pools[method] = Pool()
        return self._pools[method]

    def stub(self, endpoint: str) -> Any:
        """What calls the broker at an endpoint."""
        if endpoint not in self._opened:
            require("grpc")
            from windrow.journal.wire.protocol_pb2_grpc import JournalStub

            channel = self._open(endpoint)
            self._opened[endpoint] = channel, JournalStub(channel)
        return self._opened[endpoint][1]

    def metadata(self) -> tuple[tuple[str, str], ...]:
        """What accompanies every call."""
        if self._token is None:
            return ()
        token = self._token if isinstance(self._token, str) else self._token()
        return (("authorization", f"Bearer {token}"),)

    async def close(self) -> None:
        """Close every connection; calls in flight end as cancelled, or as unavailable."""
        for pool in self._pools.values():
            pool.close()
        opened, self._opened = self._opened, {}
        for channel, _ in opened.values():
            await channel.close(None)

    def _open(self, endpoint: str) -> grpc.aio.Channel:
        import grpc

        target = grpc_address(endpoint)
        if not endpoint.startswith("https:"):
            return grpc.aio.insecure_channel(target, options=_OPTIONS)
        tls = self._tls or Tls()
        credentials = grpc.ssl_channel_credentials(tls.authority, tls.key, tls.certificate)
        options: tuple[tuple[str, Any], ...] = _OPTIONS
        if tls.server_name:
            options = (*options, ("grpc.ssl_target_name_override", tls.server_name))
        return grpc.aio.secure_channel(target, credentials, options=options)


def failure_of(rpc: str, endpoint: str, error: grpc.aio.AioRpcError) -> Failed:
    """A call's error as ours."""
    code, details = error.code().name, error.details() or "no details"
    if code == "UNAVAILABLE":
        return Unreachable("broker", endpoint, details)
    return CallFailed(rpc, endpoint, code, details)
