"""How does a call reach a member of etcd, and what does its failure say?

There is a channel to each member, and all calls take the same one until it fails; then whichever
can be connected first is next. A channel reconnects by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from windrow.coordination.errors import InvalidAddress, Refused, StoreClosed, TxnUnknown
from windrow.errors import Unreachable
from windrow.extras import require

if TYPE_CHECKING:
    import grpc.aio

DEFAULT_PORT: Final = 2379
REQUIRE_LEADER: Final = (("hasleader", "true"),)
"""A member that has lost its leader refuses, instead of answering from what it last knew."""
RETRY_PAUSE: Final = 0.05
OPTIONS: Final = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # Away for a while, etcd shall be found again soon; the default grows to two minutes.
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 1_000),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # A watch that hears nothing must notice a dead peer; etcd takes offence below 5 s.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 3_000),
    ("grpc.http2.ping_timeout_ms", 3_000),  # newer ones wait a minute whatever the line above says
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
)


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files; without ``ca`` the system's authorities are trusted."""

    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None


class Failure(Enum):
    """What an error of a call says about the call."""

    REFUSED = auto()
    """It was understood and not done."""
    NOT_DONE = auto()
    """It was not looked at; another member may do it."""
    UNKNOWN = auto()
    """It may have been done."""


_REFUSALS: Final = {
    "INVALID_ARGUMENT", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "FAILED_PRECONDITION",
    "OUT_OF_RANGE", "UNIMPLEMENTED", "UNAUTHENTICATED", "RESOURCE_EXHAUSTED",
}  # fmt: skip
_NOT_DONE: Final = ("failed to connect", "no leader", "name resolution", "dns resolution")


def diagnose(code: str, details: str) -> Failure:
    """Tell the kinds of failure apart, by the name of the code and the text with it. Pure."""
    if code in _REFUSALS:
        return Failure.REFUSED
    if code == "UNAVAILABLE" and any(text in details.lower() for text in _NOT_DONE):
        return Failure.NOT_DONE
    return Failure.UNKNOWN


def parse_addresses(addresses: str | Iterable[str]) -> tuple[bool, tuple[str, ...]]:
    """Whether they ask for TLS, and each as ``host:port``. Pure.

    Args:
        addresses: URLs or ``host:port``, as a list or with commas between them.

    Raises:
        InvalidAddress: One of them is no address, or some ask for TLS and others do not.
    """
    given = addresses.split(",") if isinstance(addresses, str) else list(addresses)
    schemes, targets = set(), []
    for address in (text.strip() for text in given):
        scheme, separator, rest = address.rpartition("://")
        if separator and scheme not in ("http", "https"):
            raise InvalidAddress(address, "write it as http://host:port or https://host:port")
        host, has_port, port = rest.rstrip("/").rpartition(":")
        if not has_port or port.endswith("]"):  # of an IPv6 address in brackets
            host, port = rest.rstrip("/"), str(DEFAULT_PORT)
        if not host or "/" in host or not port.isdigit():
            raise InvalidAddress(address, "write it as http://host:port or host:port")
        schemes.add(scheme == "https")
        targets.append(f"{host}:{port}")
    if len(schemes) != 1:
        raise InvalidAddress(",".join(given), "all members are reached with TLS, or none")
    return schemes.pop(), tuple(targets)


class Member:
    """The channel to one member and its services."""

    def __init__(self, address: str, channel: grpc.aio.Channel) -> None:
        from windrow.coordination.wire import etcd_pb2_grpc as services

        self.address, self.channel = address, channel
        self.kv: Any = services.KVStub(channel)
        self.watch: Any = services.WatchStub(channel)
        self.lease: Any = services.LeaseStub(channel)


class Endpoints:
    """The members of a cluster, and the one that is asked now."""

    def __init__(
        self, addresses: str | Sequence[str], call_timeout: float, tls: TlsFiles | None
    ) -> None:
        is_secure, self._targets = parse_addresses(addresses)
        self._credentials = _credentials(tls or TlsFiles()) if is_secure or tls else None
        self._call_timeout = call_timeout
        self._members: list[Member] = []
        self._current: Member | None = None
        self._closed = False

    @property
    def address(self) -> str:
        """All of them, for people."""
        return ",".join(self._targets)

    async def call(
        self,
        name: str,
        pick: Callable[[Member], Callable[..., Awaitable[Any]]],
        request: Any,
        may_repeat: bool = True,
    ) -> Any:
        """Make one call, with another member's help if it takes one.

        Args:
            name: What to call it in an error.
            pick: The method to call, of a member.
            request: Its message.
            may_repeat: Whether doing it twice does no harm.

        Raises:
            Unreachable: It was not done (or, if it may be repeated, nobody said so in time).
            Refused: A member would not do it.
            TxnUnknown: It may have been done.
        """
        aio_error = require("grpc").aio.AioRpcError
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._call_timeout
        while True:
            member = await self.ready(deadline - loop.time())
            patience = deadline - loop.time()
            if may_repeat:  # a member that hangs leaves the others time to answer
                patience = min(patience, self._call_timeout / len(self._targets))
            try:
                return await pick(member)(request, timeout=patience, metadata=REQUIRE_LEADER)
            except aio_error as error:
                reason = _reason(error)
                failure = diagnose(error.code().name, error.details() or "")
                if failure is Failure.REFUSED:
                    raise Refused(name, member.address, reason) from error
                self.turn_away_from(member)
                if failure is Failure.UNKNOWN and not may_repeat:
                    raise TxnUnknown(member.address, reason) from error
                if loop.time() + RETRY_PAUSE >= deadline:
                    raise Unreachable("etcd", self.address, reason) from error
            await asyncio.sleep(RETRY_PAUSE)

    async def ready(self, patience: float | None = None) -> Member:
        """A member that is connected.

        Raises:
            Unreachable: None is, within so many seconds.
        """
        self._open()
        ready = require("grpc").ChannelConnectivity.READY
        if self._current and self._current.channel.get_state(try_to_connect=True) is ready:
            return self._current
        patience = self._call_timeout if patience is None else max(0.0, patience)
        self._current = await _first_ready(self._members, patience)
        if self._current is None:
            raise Unreachable("etcd", self.address, f"not connected within {patience:.1f} s")
        return self._current

    def turn_away_from(self, member: Member) -> None:
        """Prefer any other member at the next call, as this one has just failed."""
        if self._current is member:
            self._current = None
        self._members.sort(key=lambda other: other is member)

    async def close(self) -> None:
        """Close every channel, which ends what goes on over them."""
        self._closed = True
        for member in self._members:
            await member.channel.close(None)

    def _open(self) -> None:
        if self._closed:
            raise StoreClosed(self.address)
        if not self._members:
            self._members = [Member(target, self._channel(target)) for target in self._targets]

    def _channel(self, target: str) -> grpc.aio.Channel:
        aio = require("grpc.aio")
        channel: grpc.aio.Channel
        if self._credentials is not None:
            channel = aio.secure_channel(target, self._credentials, options=OPTIONS)
        else:
            channel = aio.insecure_channel(target, options=OPTIONS)
        return channel


async def _first_ready(members: Sequence[Member], patience: float) -> Member | None:
    """Connect to all and take the first in order among those that come up first."""
    tries = {asyncio.ensure_future(m.channel.channel_ready()): m for m in members}
    try:
        done, _ = await asyncio.wait(tries, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
        return next((m for one, m in tries.items() if one in done and not one.exception()), None)
    finally:
        for one in tries:
            one.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await one


def _credentials(tls: TlsFiles) -> Any:
    def read(path: Path | None) -> bytes | None:
        return path.read_bytes() if path else None

    return require("grpc").ssl_channel_credentials(
        root_certificates=read(tls.ca),
        private_key=read(tls.key),
        certificate_chain=read(tls.certificate),
    )


def _reason(error: grpc.aio.AioRpcError) -> str:
    return f"{error.code().name}: {error.details()}"
