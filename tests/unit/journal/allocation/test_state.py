"""What is read from keys and values, what is left out, and what exiting brokers may shed."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.unit.journal.allocation.cluster import DECODERS, KEYS, Cluster, broker
from windrow.coordination.store import KeyValue, Put
from windrow.journal.allocation.state import Member, StateReader, implied_route, shed_capacity
from windrow.journal.process import Route

ONE = "acme/orders"


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def kv(key: str, value: object = None) -> KeyValue:
    return KeyValue(key, json.dumps(value).encode(), 1, 1, 1)


# -- reading ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (KEYS.item(ONE), b"nonsense"),
        (KEYS.item(ONE), b'["another/name", 3]'),
        (KEYS.members + "a#broker-9", b"nonsense"),
        (KEYS.members + "a#broker-9", b'["b#broker-9", 10, false]'),
        (KEYS.members + "broker-9", b'["a#broker-9", 10, false]'),
        (KEYS.assignments + "acme/orders#a#broker-1", b""),
        (KEYS.items + "acme//orders", b'["acme//orders", 3]'),
    ],
)
def test_what_cannot_be_read_or_contradicts_its_key_is_left_out(
    cluster: Cluster, key: str, value: bytes
) -> None:
    cluster.join("a1")
    before = cluster.state()
    cluster._write([Put(key, value)])
    after = cluster.state()
    assert (after.items, after.members, after.assignments) == (
        before.items,
        before.members,
        before.assignments,
    )


def test_a_value_that_was_mended_is_read(cluster: Cluster) -> None:
    cluster._write([Put(KEYS.item(ONE), b"nonsense")])
    assert not cluster.state().items
    cluster.journal(ONE, 3)
    assert cluster.state().items[ONE].replication == 3


def test_replication_is_capped_by_the_brokers_own_limit() -> None:
    reader = StateReader(KEYS, DECODERS, max_replication=2)
    assert reader.read([kv(KEYS.item(ONE), [ONE, 5])], [], []).items[ONE].replication == 2


def test_the_fingerprint_is_of_members_limits_sheds_and_replications_only(
    cluster: Cluster,
) -> None:
    cluster.join("a1", "b1")
    cluster.journal(ONE, 1)
    before = cluster.state().fingerprint
    cluster.settle()
    cluster.journal(ONE, 1)  # written again, and the same
    assert cluster.state().fingerprint == before
    seen = {before}
    changes: list[Callable[[], None]] = [
        lambda: cluster.journal(ONE, 2),
        lambda: cluster.journal("acme/users", 1),
        lambda: cluster.join("c1"),
        lambda: cluster.join("a1", limit=7),
        lambda: cluster.exit("b1"),
        lambda: cluster.lose("c1"),
    ]
    for change in changes:
        change()
        assert cluster.state().fingerprint not in seen
        seen.add(cluster.state().fingerprint)


def test_the_route_is_what_the_keys_make_it(cluster: Cluster) -> None:
    cluster.join("b1", "a1")
    for name, slot in (("b1", 0), ("a1", 1)):
        cluster.assign(ONE, name, slot)
    route = implied_route(cluster.state().current(ONE))
    assert route == Route((broker("a1"), broker("b1")), primary=1)
    cluster.lose("b1")
    assert implied_route(cluster.state().current(ONE)) == Route((broker("a1"),), primary=-1)
    assert implied_route([]) == Route.NONE


def test_a_journal_without_assignments_is_not_consistent(cluster: Cluster) -> None:
    assert not cluster.state().is_consistent(ONE)


# -- shedding --------------------------------------------------------------------------------------


def members(*sizes: tuple[str, int, bool]) -> list[Member]:
    return [
        Member(broker(name), limit, exiting, KEYS.member(broker(name)), revision, lease=1)
        for revision, (name, limit, exiting) in enumerate(sizes, start=1)
    ]


def test_an_exiting_member_sheds_all_of_its_capacity_if_the_others_can_take_it() -> None:
    some = members(("a1", 10, False), ("b1", 10, True), ("c1", 10, False))
    assert shed_capacity(some, [2] * 10) == {broker("b1"): 10}


def test_no_more_is_shed_than_there_is_to_spare() -> None:
    some = members(("a1", 10, False), ("b1", 10, True), ("c1", 10, False))
    assert shed_capacity(some, [2] * 13) == {broker("b1"): 4}
    assert shed_capacity(some, [2] * 15) == {}
    assert shed_capacity(some, [2] * 20) == {}


def test_the_oldest_sheds_first_and_the_next_what_is_left() -> None:
    some = members(("c1", 10, True), ("a1", 10, True), ("b1", 10, False), ("b2", 10, False))
    assert shed_capacity(some, [1] * 25) == {broker("c1"): 10, broker("a1"): 5}


def test_as_many_members_as_the_most_replicated_journal_needs_keep_their_capacity() -> None:
    some = members(("a1", 10, True), ("b1", 10, True), ("c1", 10, True), ("d1", 10, False))
    assert set(shed_capacity(some, [3, 1])) == {broker("a1")}
    assert set(shed_capacity(some, [1, 1])) == {broker("a1"), broker("b1"), broker("c1")}
    assert shed_capacity(some, [4]) == {}


def test_members_that_stay_shed_nothing() -> None:
    assert shed_capacity(members(("a1", 10, False), ("b1", 10, False)), []) == {}
