"""An etcd to be killed, and links to it that can be cut."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest

from tests.fixtures.services import start_service
from windrow.embedded.etcd import Etcd
from windrow.embedded.link import Link
from windrow.embedded.ports import LOOPBACK


@pytest.fixture(scope="module")
def killed_etcd(pytestconfig: pytest.Config) -> Iterator[Etcd]:
    with start_service(pytestconfig, "etcd", Etcd.start) as server:
        yield server


@pytest.fixture
def own_etcd(killed_etcd: Etcd) -> Etcd:
    """An etcd of this file's own, which is up."""
    if not killed_etcd.is_alive():
        killed_etcd.restart()
    return killed_etcd


@pytest.fixture
def prefix() -> str:
    return f"windrow-test/{secrets.token_hex(6)}/"


@pytest.fixture
def link(own_etcd: Etcd) -> Iterator[Link]:
    """A way to that etcd that can be cut."""
    with Link.start((LOOPBACK, own_etcd.port)) as link:
        yield link


@pytest.fixture
def other_link(own_etcd: Etcd) -> Iterator[Link]:
    """Another way to it, for a client that has two."""
    with Link.start((LOOPBACK, own_etcd.port)) as link:
        yield link
