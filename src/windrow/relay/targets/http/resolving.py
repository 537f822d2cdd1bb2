"""Where is a host? Only addresses that may be sent to are given, and only those are connected to.

The client connects to what it is given here and does not ask again, so a name cannot be at one
address when it is checked and at another when it is used.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

from windrow.relay.targets.http.addresses import AddressRules
from windrow.relay.targets.http.errors import AddressForbidden

LookUp: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a host, given its name and a port; OSError if there are none."""


async def look_up(host: str, port: int) -> list[str]:
    """The addresses that the system knows."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    # Link-local ones of IPv6 come with a scope, which is refused with the address or not needed.
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class CheckedResolver:
    """A resolver of aiohttp's that gives no address which must not be sent to."""

    def __init__(self, rules: AddressRules, find: LookUp = look_up) -> None:
        self._rules, self._find = rules, find

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[dict[str, Any]]:
        """The addresses of a host, in the form that the client wants.

        Raises:
            AddressForbidden: There are some, and none may be sent to.
            OSError: There are none.
        """
        found = await self._find(host, port)
        sorts = {address: self._rules.objection(host, address) for address in found}
        allowed = [address for address, sort in sorts.items() if sort is None]
        for address, sort in sorts.items():
            if sort is not None and not allowed:
                raise AddressForbidden(host, address, sort)
        if not allowed:
            raise OSError(f"{host} has no address")
        return [_entry(host, address, port) for address in allowed]

    async def close(self) -> None:
        """Nothing is held."""


def _entry(host: str, address: str, port: int) -> dict[str, Any]:
    return {
        "hostname": host,
        "host": address,
        "port": port,
        "family": socket.AF_INET6 if ":" in address else socket.AF_INET,
        "proto": 0,
        "flags": socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
    }
