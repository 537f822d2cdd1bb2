"""Where room is scarce, uneven or changing: what moves then, and what has to stay."""

from __future__ import annotations

import pytest

from tests.unit.journal.allocation.cluster import Cluster
from tests.unit.journal.allocation.test_scenarios import zones

ONE, TWO, THREE, FOUR = (f"acme/orders/{n}" for n in range(1, 5))


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def place(cluster: Cluster, held: dict[str, list[str]]) -> None:
    """Journals of these brokers, by slot, all of them synchronised."""
    for journal, names in held.items():
        cluster.journal(journal, len(names))
        for slot, name in enumerate(names):
            cluster.assign(journal, name, slot)
    cluster.pulse()


def held(cluster: Cluster) -> dict[str, list[str]]:
    return {name: sorted(cluster.route(name)) for name in sorted(cluster.state().items)}


def test_seven_journals_of_three_replicas_take_all_three_brokers_in_one_round(
    cluster: Cluster,
) -> None:
    """The second zone has one broker only, which then has to hold every journal."""
    cluster.join("a1", "a2", "b1", limit=1024)
    names = [f"acme/orders/{n:02}" for n in range(7)]
    cluster.journals(names, 3)
    cluster.round()
    assert held(cluster) == {name: ["a1", "a2", "b1"] for name in names}
    assert cluster.round() == 0


def test_replicas_that_found_no_room_are_placed_as_brokers_join(cluster: Cluster) -> None:
    for journal, replication in ((ONE, 1), (TWO, 2), (THREE, 3)):
        cluster.journal(journal, replication)
    placed = []
    for name, limit in (("a1", 1), ("a2", 2), ("a3", 3)):
        cluster.join(name, limit=limit)
        cluster.settle()
        placed.append(sum(len(route) for route in held(cluster).values()))
    assert placed == [1, 3, 6]
    assert [len(route) for route in held(cluster).values()] == [1, 2, 3]
    assert [cluster.load(name) for name in ("a1", "a2", "a3")] == [1, 2, 3]


def test_a_limit_lowered_below_what_is_needed_removes_nothing(cluster: Cluster) -> None:
    """Each replica is one that its journal needs, and there is nowhere else for it to go."""
    cluster.join("a1", limit=1)
    cluster.join("a2", limit=2)
    cluster.join("a3", limit=3)
    before = {ONE: ["a3"], TWO: ["a2", "a3"], THREE: ["a1", "a2", "a3"]}
    place(cluster, {ONE: ["a3"], TWO: ["a2", "a3"], THREE: ["a3", "a1", "a2"]})
    cluster.settle()
    assert held(cluster) == before
    cluster.join("a3", limit=2)
    cluster.settle()
    assert held(cluster) == before


def test_a_raised_limit_brings_a_larger_share_and_lowered_again_gives_it_back(
    cluster: Cluster,
) -> None:
    cluster.join("a1", "a2", limit=2)
    cluster.join("b1", limit=4)
    place(cluster, {ONE: ["b1"], TWO: ["a1", "b1"], THREE: ["a1", "a2", "b1"]})
    cluster.join("a2", limit=10)
    cluster.settle()
    assert cluster.load("a2") == 3
    cluster.join("a2", limit=1)
    cluster.settle()
    assert cluster.load("a2") == 1
    assert [len(route) for route in held(cluster).values()] == [1, 2, 3]
    assert all(len(zones(cluster, name)) == 2 for name in (TWO, THREE))


def test_two_journals_trade_their_replication(cluster: Cluster) -> None:
    cluster.join("a1", "a2", limit=2)
    cluster.join("b1", limit=4)
    place(cluster, {ONE: ["b1"], TWO: ["a1", "b1"], THREE: ["a1", "a2", "b1"]})
    cluster.journal(ONE, 3)
    cluster.journal(THREE, 1)
    cluster.settle()
    assert [len(route) for route in held(cluster).values()] == [3, 2, 1]
    assert held(cluster)[ONE] == ["a1", "a2", "b1"]
    assert len(zones(cluster, TWO)) == 2


def test_a_small_zone_is_used_to_its_limit_and_its_next_place_as_soon_as_it_is_there(
    cluster: Cluster,
) -> None:
    cluster.join("a1", "a2", "a3", limit=100)
    cluster.join("b1", limit=2)
    cluster.journals((ONE, TWO, THREE), 3)
    cluster.settle()
    assert cluster.load("b1") == 2
    assert sorted(len(zones(cluster, name)) for name in (ONE, TWO, THREE)) == [1, 2, 2]
    cluster.join("b1", limit=3)
    cluster.settle()
    assert cluster.load("b1") == 3
    assert all(len(zones(cluster, name)) == 2 for name in (ONE, TWO, THREE))
    before = held(cluster)
    cluster.journal(FOUR, 1)
    cluster.settle()
    assert held(cluster) == before | {FOUR: cluster.route(FOUR)}
    assert zones(cluster, FOUR) == {"a"}


def test_a_zone_that_shrinks_keeps_what_it_can_and_then_nothing(cluster: Cluster) -> None:
    cluster.join("a1", "a2", "b1", limit=10)
    place(cluster, {ONE: ["a1", "a2", "b1"], TWO: ["a1", "a2", "b1"], THREE: ["a1", "b1"]})
    cluster.join("b1", limit=2)
    cluster.settle()
    assert cluster.load("b1") == 2
    assert [len(route) for route in held(cluster).values()] == [3, 3, 2]
    cluster.join("b1", limit=0)
    cluster.join("a3", limit=10)
    cluster.settle()
    assert cluster.load("b1") == 0
    assert [len(route) for route in held(cluster).values()] == [3, 3, 2]


def test_a_third_zone_changes_nothing_until_more_replicas_are_wanted(cluster: Cluster) -> None:
    cluster.join("a1", "a2", "b1", limit=100)
    before = {ONE: ["a1", "b1"], TWO: ["a1", "a2", "b1"]}
    place(cluster, before)
    cluster.join("c1", limit=100)
    cluster.settle()
    assert held(cluster) == before
    cluster.journal(ONE, 3)
    cluster.journal(TWO, 4)
    cluster.settle()
    assert held(cluster) == {ONE: ["a1", "b1", "c1"], TWO: ["a1", "a2", "b1", "c1"]}


def test_a_zone_that_is_given_up_leaves_its_journals_spread_over_the_other_two(
    cluster: Cluster,
) -> None:
    cluster.join("a1", "a2", "a3", "b1", "c1", limit=10)
    place(cluster, {ONE: ["a1", "a2", "c1"], TWO: ["a3", "b1", "c1"]})
    cluster.join("c1", limit=0)
    cluster.settle()
    assert cluster.load("c1") == 0
    assert all(zones(cluster, name) == {"a", "b"} for name in (ONE, TWO))
    assert [len(route) for route in held(cluster).values()] == [3, 3]


def test_rooms_that_are_swapped_within_a_zone_and_then_between_zones_are_followed(
    cluster: Cluster,
) -> None:
    """Each time every journal stays in both zones, and nobody holds more than its limit."""
    cluster.join("a1", limit=1)
    cluster.join("a2", limit=3)
    cluster.join("b1", "b2", limit=10)
    place(cluster, {ONE: ["a1", "b1", "b2"], TWO: ["a2", "b1", "b2"], THREE: ["a2", "b1", "b2"]})
    before = held(cluster)
    cluster.settle()
    assert held(cluster) == before
    cluster.join("a1", limit=3)
    cluster.join("a2", limit=1)
    cluster.settle()
    assert [cluster.load(name) for name in ("a1", "a2", "b1", "b2")] == [2, 1, 3, 3]
    cluster.join("a1", "a2", limit=10)
    cluster.join("b1", limit=1)
    cluster.join("b2", limit=3)
    cluster.settle()
    assert cluster.load("b1") <= 1
    assert cluster.load("b2") <= 3
    for name in (ONE, TWO, THREE):
        assert (len(cluster.route(name)), zones(cluster, name)) == (3, {"a", "b"})


def test_of_a_lost_zone_every_replica_is_made_again_in_the_other(cluster: Cluster) -> None:
    cluster.join("a1", "b1", limit=4)
    cluster.join("a2", limit=2)
    cluster.join("a3", limit=1)
    place(cluster, {ONE: ["a1"], TWO: ["b1", "a2"], THREE: ["a3", "b1", "a1"]})
    cluster.lose("b1")
    cluster.settle()
    assert held(cluster)[ONE] == ["a1"]
    assert held(cluster)[TWO] == ["a1", "a2"]
    assert held(cluster)[THREE] == ["a1", "a2", "a3"]
    assert cluster.route(TWO)[0] == "a2"  # it was there, and a1 is new


def test_in_one_zone_a_broker_with_little_room_moves_nothing_and_with_more_takes_its_share(
    cluster: Cluster,
) -> None:
    for name, limit in (("a1", 3), ("a2", 2), ("a3", 1)):
        cluster.join(name, limit=limit)
    for journal, replication in ((ONE, 1), (TWO, 2), (THREE, 3)):
        cluster.journal(journal, replication)
    cluster.settle()
    assert [cluster.load(name) for name in ("a1", "a2", "a3")] == [3, 2, 1]
    cluster.join("a4", limit=3)
    cluster.settle()
    assert cluster.load("a4") >= 1
    assert [len(route) for route in held(cluster).values()] == [1, 2, 3]
