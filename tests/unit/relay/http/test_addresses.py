"""Which addresses may be sent to."""

from __future__ import annotations

import pytest

from windrow.relay.targets.http.addresses import AddressRules

PUBLIC = ("93.184.216.34", "2606:2800:220:1::1", "8.8.8.8", "::ffff:8.8.8.8", "64:ff9b::808:808")
LOOPBACK = ("127.0.0.1", "127.8.9.1", "::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "::127.0.0.1")
PRIVATE = (
    "10.0.0.1",
    "172.16.5.4",
    "192.168.1.1",
    "100.64.0.1",
    "fd12::1",
    "fec0::1",
    "::ffff:10.1.1.1",
    "2002:a00:1::1",
    "198.18.0.1",
)
LINK_LOCAL = ("169.254.1.1", "fe80::1", "fe80::1%eth0")
METADATA = ("169.254.169.254", "100.100.100.200", "fd00:ec2::254", "::ffff:169.254.169.254")
RESERVED = ("0.0.0.0", "::", "224.0.0.1", "255.255.255.255", "240.0.0.1", "ff02::1")


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_may_be_sent_to(address: str) -> None:
    assert AddressRules().objection("shop.example", address) is None


@pytest.mark.parametrize(
    ("address", "sort"),
    [
        *((address, "loopback") for address in LOOPBACK),
        *((address, "private") for address in PRIVATE),
        *((address, "link-local") for address in LINK_LOCAL),
        *((address, "metadata") for address in METADATA),
        *((address, "reserved") for address in RESERVED),
    ],
)
def test_any_other_is_refused_by_its_sort(address: str, sort: str) -> None:
    assert AddressRules().objection("shop.example", address) == sort


@pytest.mark.parametrize("address", [*LOOPBACK, *PRIVATE])
def test_private_and_loopback_may_be_allowed_together(address: str) -> None:
    assert AddressRules(allow_private=True).objection("shop.example", address) is None


@pytest.mark.parametrize("address", [*LINK_LOCAL, *METADATA, *RESERVED])
def test_allowing_private_addresses_allows_no_metadata_service(address: str) -> None:
    assert AddressRules(allow_private=True).objection("shop.example", address) is not None


@pytest.mark.parametrize(
    ("allowed", "host", "address", "is_allowed"),
    [
        ("shop.internal", "shop.internal", "10.0.0.1", True),
        ("shop.internal", "SHOP.internal.", "10.0.0.1", True),
        ("shop.internal", "evil.shop.internal", "10.0.0.1", False),
        ("10.1.0.0/16", "shop.internal", "10.1.2.3", True),
        ("10.1.0.0/16", "shop.internal", "10.2.2.3", False),
        ("10.1.0.0/16", "shop.internal", "::ffff:10.1.2.3", True),
        ("169.254.169.254", "169.254.169.254", "169.254.169.254", True),
        ("::1", "localhost", "::1", True),
        ("127.0.0.1", "localhost", "::1", False),
    ],
)
def test_a_host_an_address_or_a_network_may_be_allowed_by_itself(
    allowed: str, host: str, address: str, is_allowed: bool
) -> None:
    objection = AddressRules(allowed_hosts=[allowed]).objection(host, address)
    assert (objection is None) == is_allowed
