from __future__ import annotations

import pytest

from windrow.coordination.endpoints import Failure, diagnose, parse_addresses
from windrow.coordination.errors import InvalidAddress


@pytest.mark.parametrize(
    ("given", "is_secure", "targets"),
    [
        ("http://127.0.0.1:2379", False, ("127.0.0.1:2379",)),
        ("https://etcd.example:1234/", True, ("etcd.example:1234",)),
        ("etcd", False, ("etcd:2379",)),
        ("http://[::1]:2380", False, ("[::1]:2380",)),
        ("http://[::1]", False, ("[::1]:2379",)),
        ("a:1, b:2 ,http://c", False, ("a:1", "b:2", "c:2379")),
        (["https://a", "https://b:7"], True, ("a:2379", "b:7")),
    ],
)
def test_addresses_are_read_as_people_write_them(
    given: str | list[str], is_secure: bool, targets: tuple[str, ...]
) -> None:
    assert parse_addresses(given) == (is_secure, targets)


@pytest.mark.parametrize(
    "given", ["", "ftp://a:1", "a:b", "http://a:1/path", ":2379", "https://a:1,b:2", "a:1,,b:2"]
)
def test_bad_address_is_refused(given: str) -> None:
    with pytest.raises(InvalidAddress, match="is no address of etcd"):
        parse_addresses(given)


@pytest.mark.parametrize(
    ("code", "details", "failure"),
    [
        ("NOT_FOUND", "etcdserver: requested lease not found", Failure.REFUSED),
        ("INVALID_ARGUMENT", "etcdserver: key not found", Failure.REFUSED),
        ("RESOURCE_EXHAUSTED", "etcdserver: mvcc: database space exceeded", Failure.REFUSED),
        ("UNAVAILABLE", "failed to connect to all addresses; last error: …", Failure.NOT_DONE),
        ("UNAVAILABLE", "etcdserver: no leader", Failure.NOT_DONE),
        ("UNAVAILABLE", "Socket closed", Failure.UNKNOWN),
        ("UNAVAILABLE", "etcdserver: request timed out", Failure.UNKNOWN),
        ("UNAVAILABLE", "etcdserver: leader changed", Failure.UNKNOWN),
        ("DEADLINE_EXCEEDED", "Deadline Exceeded", Failure.UNKNOWN),
        ("UNKNOWN", "whatever", Failure.UNKNOWN),
    ],
)
def test_only_a_failure_that_proves_it_counts_as_not_done(
    code: str, details: str, failure: Failure
) -> None:
    assert diagnose(code, details) is failure
