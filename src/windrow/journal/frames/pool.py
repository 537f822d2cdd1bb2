"""Which connections there are to brokers, and which brokers speak frames."""

from __future__ import annotations

import asyncio
import weakref
from collections import Counter
from collections.abc import Callable, Collection
from typing import Any
from urllib.parse import urlsplit

from windrow.journal.frames.calling import Call, Connection, Way
from windrow.journal.frames.format import Metadata, Opening

CONNECT_TIMEOUT = 2.0
GRPC_ONLY_FOR = 60.0
"""How long a broker that did not greet back is not asked again."""
MOST_OPEN = 64
"""Connections to one broker; calls beyond go by gRPC, where any number share one."""


class Pool:
    """Connections to brokers by their endpoints, each used by one call at a time."""

    def __init__(self, most_open: int = MOST_OPEN) -> None:
        self._most_open = most_open
        self._idle: dict[str, list[Connection]] = {}
        self._open: dict[str, weakref.WeakSet[Connection]] = {}
        self._connecting: Counter[str] = Counter()
        self._grpc_only: dict[str, float] = {}

    def call(
        self,
        endpoint: str,
        method: str,
        metadata: Metadata,
        parse: Callable[[bytes], Any],
        by_grpc: Callable[[], Any],
        *,
        gathers: bool,
        timeout: float | None = None,
    ) -> Call:
        """Begin a call of the broker at an endpoint."""

        async def connect() -> Connection | None:
            return await self._connection(endpoint)

        def give_back(connection: Connection) -> None:
            self._give_back(endpoint, connection)

        way = Way(connect, give_back, by_grpc)
        return Call(way, Opening(method, metadata), parse, gathers=gathers, timeout=timeout)

    def forget(self, endpoints: Collection[str]) -> None:
        """Use idle connections to these no more; whoever is there next is asked anew."""
        for endpoint in endpoints:
            self._grpc_only.pop(endpoint, None)
            for connection in self._idle.pop(endpoint, ()):
                connection.abort()

    def close(self) -> None:
        """Drop all connections, and end the calls on them."""
        self._idle.clear()
        opened, self._open = self._open, {}
        for connection in [one for those in opened.values() for one in those]:
            connection.lose("this end was closed")

    def _is_grpc_only(self, endpoint: str) -> bool:
        if not endpoint.startswith("http://"):
            return True
        until = self._grpc_only.get(endpoint)
        return until is not None and asyncio.get_running_loop().time() < until

    async def _connection(self, endpoint: str) -> Connection | None:
        if self._is_grpc_only(endpoint):
            return None
        idle = self._idle.get(endpoint, [])
        while idle:
            connection = idle.pop()
            if connection.is_open:
                return connection
        if self._is_full(endpoint):
            return None
        self._connecting[endpoint] += 1
        try:
            new = await _connect(endpoint)
        finally:
            self._connecting[endpoint] -= 1
        if new is None:
            self._grpc_only[endpoint] = asyncio.get_running_loop().time() + GRPC_ONLY_FOR
        else:
            self._open.setdefault(endpoint, weakref.WeakSet()).add(new)
        return new

    def _is_full(self, endpoint: str) -> bool:
        opened = sum(connection.is_open for connection in self._open.get(endpoint, ()))
        return opened + self._connecting[endpoint] >= self._most_open

    def _give_back(self, endpoint: str, connection: Connection) -> None:
        idle = self._idle.setdefault(endpoint, [])
        if connection.is_open:
            idle.append(connection)


async def _connect(endpoint: str) -> Connection | None:
    """A new connection; None if whoever is there does not greet back.

    Raises:
        OSError: Nobody is there.
    """
    address = urlsplit(endpoint)
    host, port = address.hostname or "", address.port or 0
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(CONNECT_TIMEOUT):
        _, connection = await loop.create_connection(Connection, host, port)
    is_greeted = False
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT):
            is_greeted = await connection.greeted
    except TimeoutError:
        pass
    finally:
        if not is_greeted:
            connection.abort()
    return connection if is_greeted else None
