"""etcd, used for real, killed, and gone afterwards."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.fixtures import etcd_gateway
from tests.fixtures.etcd_gateway import encode
from tests.fixtures.processes import eventually, is_gone
from tests.fixtures.services import start_service
from windrow.embedded.etcd import Etcd, is_healthy
from windrow.embedded.groups import living_family
from windrow.embedded.process import groups_below


@pytest.fixture
def own_etcd(request: pytest.FixtureRequest) -> Iterator[Etcd]:
    """An etcd of the test's own, to be killed."""
    with start_service(request.config, "etcd", Etcd.start) as server:
        yield server


def test_key_with_a_lease_is_gone_when_the_lease_is(etcd: str, etcd_prefix: str) -> None:
    lease = etcd_gateway.call(etcd, "lease/grant", {"TTL": "1"})["ID"]
    etcd_gateway.put(etcd, etcd_prefix + "leader", "me", lease)
    etcd_gateway.put(etcd, etcd_prefix + "other", "stays")
    assert etcd_gateway.get_prefix(etcd, etcd_prefix) == {
        etcd_prefix + "leader": "me",
        etcd_prefix + "other": "stays",
    }
    assert eventually(lambda: len(etcd_gateway.get_prefix(etcd, etcd_prefix)) == 1, patience=10)
    assert etcd_gateway.get_prefix(etcd, etcd_prefix) == {etcd_prefix + "other": "stays"}


@pytest.mark.proves("real-services")
def test_watch_tells_each_change_in_order_and_the_end_of_a_lease(
    etcd: str, etcd_prefix: str
) -> None:
    lease = etcd_gateway.call(etcd, "lease/grant", {"TTL": "60"})["ID"]
    watch = {"create_request": etcd_gateway.prefix_range(etcd_prefix)}
    with etcd_gateway.streamed(etcd, "watch", watch, timeout=10) as answers:
        assert json.loads(answers.readline())["result"]["created"]
        etcd_gateway.put(etcd, etcd_prefix + "a", "1")
        etcd_gateway.put(etcd, etcd_prefix + "a", "2")
        etcd_gateway.put(etcd, etcd_prefix + "b", "3", lease)
        etcd_gateway.call(etcd, "lease/revoke", {"ID": lease})
        events: list[dict[str, Any]] = []
        while len(events) < 4:
            events += json.loads(answers.readline())["result"].get("events", [])
    assert [
        (
            event.get("type", "PUT"),
            etcd_gateway.decode(event["kv"]["key"]).removeprefix(etcd_prefix),
            etcd_gateway.decode(event["kv"].get("value", "")),
        )
        for event in events
    ] == [("PUT", "a", "1"), ("PUT", "a", "2"), ("PUT", "b", "3"), ("DELETE", "b", "")]


def test_transaction_compares_before_it_writes(etcd: str, etcd_prefix: str) -> None:
    key = encode(etcd_prefix + "owner")

    def claim(owner: str) -> bool:
        absent = {"key": key, "target": "CREATE", "create_revision": "0"}
        put = {"request_put": {"key": key, "value": encode(owner)}}
        answer = etcd_gateway.call(etcd, "kv/txn", {"compare": [absent], "success": [put]})
        return bool(answer.get("succeeded", False))

    assert claim("first")
    assert not claim("second")
    assert etcd_gateway.get_prefix(etcd, etcd_prefix) == {etcd_prefix + "owner": "first"}


@pytest.mark.parametrize("attempt", [1, 2])
def test_each_test_has_an_empty_prefix_of_its_own(
    etcd: str, etcd_prefix: str, attempt: int
) -> None:
    assert etcd_gateway.get_prefix(etcd, etcd_prefix) == {}
    etcd_gateway.put(etcd, etcd_prefix + "key", str(attempt))


def test_acknowledged_key_survives_kill_9(own_etcd: Etcd) -> None:
    url = own_etcd.url
    etcd_gateway.put(url, "key", "value")
    own_etcd.kill()
    assert not own_etcd.is_alive()
    own_etcd.restart()
    assert own_etcd.url == url
    assert etcd_gateway.get_prefix(url, "key") == {"key": "value"}


def test_paused_etcd_answers_only_after_it_is_resumed(own_etcd: Etcd) -> None:
    own_etcd.pause()
    with pytest.raises(TimeoutError):
        etcd_gateway.call(own_etcd.url, "kv/range", {"key": encode("key")}, timeout=0.3)
    own_etcd.resume()
    assert eventually(lambda: is_healthy(own_etcd.port))
    assert etcd_gateway.get_prefix(own_etcd.url, "key") == {}


@pytest.mark.proves("real-services")
def test_stopped_etcd_is_gone_with_its_group_and_directory(own_etcd: Etcd) -> None:
    family, directory = living_family(own_etcd.pid), own_etcd.directory
    assert own_etcd.pid in groups_below(os.getpid())
    assert directory.stat().st_mode & 0o777 == 0o700
    own_etcd.stop()
    own_etcd.stop()
    assert family
    assert all(is_gone(process) for process in family)
    assert not groups_below(os.getpid()) & {process.group for process in family}
    assert not directory.exists()
