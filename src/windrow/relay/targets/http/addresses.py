"""Which addresses may be sent to? Pure.

A URL that leads into the relay's own network reaches what no outsider could: services without a
password on the loopback, a router's pages, the metadata service that hands out the machine's own
credentials. So an address that is not of the public internet is refused unless somebody said so.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import TypeAlias

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

METADATA = frozenset(
    ipaddress.ip_address(text)
    for text in ("169.254.169.254", "169.254.170.2", "100.100.100.200", "fd00:ec2::254")
)
"""Where clouds hand out credentials to whoever asks."""

_TRANSLATED = ipaddress.ip_network("64:ff9b::/96")
_PRIVATE = ("private", "loopback")


class AddressRules:
    """What may be sent to.

    Args:
        allow_private: Whether private and loopback addresses may.
        allowed_hosts: Names, addresses and networks that may in any case.
    """

    def __init__(self, allow_private: bool = False, allowed_hosts: Iterable[str] = ()) -> None:
        self._allow_private = allow_private
        self._names: set[str] = set()
        self._networks: list[Network] = []
        for host in allowed_hosts:
            try:
                self._networks.append(ipaddress.ip_network(host.strip("[]")))
            except ValueError:
                self._names.add(plain_name(host))

    def objection(self, host: str, address: str) -> str | None:
        """The sort of address it is, if it must not be sent to.

        Args:
            host: As the URL names it.
            address: Where that is.
        """
        found = ipaddress.ip_address(address.partition("%")[0])
        reached = embedded(found)
        sort = sort_of(reached)
        if sort is None or (self._allow_private and sort in _PRIVATE):
            return None
        if plain_name(host) in self._names or self._is_in_network(found, reached):
            return None
        return sort

    def _is_in_network(self, *addresses: Address) -> bool:
        return any(address in network for network in self._networks for address in addresses)


def sort_of(address: Address) -> str | None:
    """What sort of address it is, if it is not one of the public internet."""
    if address in METADATA:
        return "metadata"
    if address.is_loopback:
        return "loopback"
    if address.is_link_local:
        return "link-local"
    # 0.0.0.0 among them, which is this machine as well.
    if address.is_multicast or address.is_reserved or address.is_unspecified:
        return "reserved"
    return None if address.is_global and not _is_site_local(address) else "private"


def _is_site_local(address: Address) -> bool:
    """Whether it is of the sort that IPv6 once had for private networks."""
    return isinstance(address, ipaddress.IPv6Address) and address.is_site_local


def embedded(address: Address) -> Address:
    """The IPv4 address that an IPv6 one leads to, or the address itself."""
    if not isinstance(address, ipaddress.IPv6Address):
        return address
    if address in _TRANSLATED:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    # An address of ::/96 is read as IPv4 by old stacks; :: and ::1 are not of that sort.
    old = int(address) if 1 < int(address) <= 0xFFFFFFFF else None
    compatible = None if old is None else ipaddress.IPv4Address(old)
    return address.ipv4_mapped or address.sixtofour or compatible or address


def literal(host: str) -> str | None:
    """The address that a host already is, or None if it is a name."""
    try:
        return str(ipaddress.ip_address(host.partition("%")[0]))
    except ValueError:
        return None


def plain_name(host: str) -> str:
    """A name as it is compared."""
    return host.lower().rstrip(".")
