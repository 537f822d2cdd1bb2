"""A real etcd for brokers: each test has a prefix of its own."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.fixtures import etcd_gateway


@dataclass(frozen=True)
class EtcdPrefix:
    """Where the keys of one cluster are."""

    url: str
    prefix: str


@pytest.fixture
def cluster_etcd(etcd: str) -> Iterator[EtcdPrefix]:
    """A prefix nobody else uses; its keys are deleted after the test."""
    prefix = f"/windrow-test/{secrets.token_hex(6)}"
    assert etcd_gateway.get_prefix(etcd, prefix) == {}, f"{prefix} is in use"
    yield EtcdPrefix(etcd, prefix)
    etcd_gateway.delete_prefix(etcd, prefix)
