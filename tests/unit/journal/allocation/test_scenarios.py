"""What becomes of assignments when brokers come, go and change, round by round."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.unit.journal.allocation.cluster import KEYS, Cluster, broker
from windrow.coordination.store import Put

NAMES = [f"acme/orders/{n:02}" for n in range(12)]
ONE = NAMES[0]


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def zones(cluster: Cluster, journal: str) -> set[str]:
    return {name[0] for name in cluster.route(journal)}


def assert_placed(cluster: Cluster, replication: int, in_zones: int) -> None:
    for name in NAMES:
        assert len(cluster.route(name)) == replication
        assert cluster.slots(name) == list(range(replication))
        assert len(zones(cluster, name)) >= in_zones


# -- at first --------------------------------------------------------------------------------------


def test_new_journals_are_assigned_in_one_round(cluster: Cluster) -> None:
    cluster.join("a1", "a2", "b1")
    cluster.journals(NAMES, 2)
    cluster.round()
    assert_placed(cluster, replication=2, in_zones=2)
    assert [cluster.load(name) for name in ("a1", "a2", "b1")] == [6, 6, 12]
    assert all(
        kv.value == b"" for key, kv in cluster.kvs.items() if key.startswith(KEYS.assignments)
    )


def test_new_journals_spread_load_and_primaries_evenly(cluster: Cluster) -> None:
    cluster.join("a1", "a2", "b1", "b2")
    cluster.journals(NAMES, 2)
    cluster.round()
    assert {cluster.load(name) for name in ("a1", "a2", "b1", "b2")} == {6}
    primaries = Counter(cluster.route(name)[0] for name in NAMES)
    assert set(primaries.values()) == {3}


def test_nothing_is_assigned_while_there_is_no_broker(cluster: Cluster) -> None:
    cluster.journals(NAMES, 2)
    assert cluster.plan() == []


def test_too_few_brokers_take_what_they_can(cluster: Cluster) -> None:
    cluster.join("a1")
    cluster.journals(NAMES, 3)
    cluster.settle()
    assert_placed(cluster, replication=1, in_zones=1)
    cluster.join("b1", "b2")
    cluster.settle()
    assert_placed(cluster, replication=3, in_zones=2)


# -- replacing -------------------------------------------------------------------------------------


def test_a_replica_is_replaced_once_the_new_one_is_synchronised(cluster: Cluster) -> None:
    cluster.join("a1", "b1")
    cluster.journal(ONE, 2)
    cluster.settle()
    cluster.join("b2")
    cluster.join("b1", limit=0)
    cluster.round()
    assert set(cluster.route(ONE)) == {"a1", "b1", "b2"}
    cluster.pulse()
    cluster.round()
    assert set(cluster.route(ONE)) == {"a1", "b2"}


def test_no_replica_is_removed_while_its_journal_is_inconsistent(cluster: Cluster) -> None:
    cluster.join("a1", "b1")
    cluster.journal(ONE, 2)
    cluster.settle()
    cluster.join("b2")
    cluster.join("b1", limit=0)
    cluster.settle(pulses=False)
    assert set(cluster.route(ONE)) == {"a1", "b1", "b2"}


def test_a_removed_primary_hands_over_in_the_same_transaction(cluster: Cluster) -> None:
    cluster.join("a1", "b1")
    cluster.journal(ONE, 2)
    cluster.settle()
    primary = cluster.route(ONE)[0]
    cluster.join("c1")
    cluster.join(primary, limit=0)
    cluster.round()
    cluster.pulse()
    (transaction,) = cluster.plan()
    assert cluster.txn(transaction)
    assert cluster.route(ONE)[0] != primary
    assert 0 in cluster.slots(ONE)


# -- limits and replication ------------------------------------------------------------------------


def test_no_broker_is_assigned_more_than_its_limit(cluster: Cluster) -> None:
    cluster.join("a1", "a2", limit=5)
    cluster.join("b1", limit=14)
    cluster.journals(NAMES, 2)
    cluster.settle()
    assert [cluster.load(name) for name in ("a1", "a2", "b1")] == [5, 5, 12]


def test_a_lowered_limit_moves_journals_to_brokers_with_room(cluster: Cluster) -> None:
    cluster.join("a1", "b1", "a2", "b2", limit=10)
    cluster.journals(NAMES, 2)
    cluster.settle()
    cluster.join("a1", limit=3)
    cluster.settle()
    assert cluster.load("a1") == 3
    assert_placed(cluster, replication=2, in_zones=2)


def test_more_replicas_are_added_at_once(cluster: Cluster) -> None:
    cluster.join("a1", "b1", "c1")
    cluster.journal(ONE, 1)
    cluster.settle()
    before = cluster.route(ONE)
    cluster.journal(ONE, 3)
    cluster.settle(pulses=False)
    assert cluster.route(ONE)[:1] == before
    assert len(cluster.route(ONE)) == 3


def test_fewer_replicas_are_removed_when_consistent(cluster: Cluster) -> None:
    cluster.join("a1", "b1", "c1")
    cluster.journal(ONE, 3)
    cluster.settle(pulses=False)
    cluster.journal(ONE, 1)
    cluster.settle(pulses=False)
    assert len(cluster.route(ONE)) == 3
    cluster.settle()
    assert len(cluster.route(ONE)) == 1
    assert cluster.slots(ONE) == [0]


def test_a_journal_that_wants_no_replicas_loses_all(cluster: Cluster) -> None:
    cluster.join("a1", "b1")
    cluster.journal(ONE, 2)
    cluster.round()
    cluster.journal(ONE, 0)
    cluster.synced.clear()  # to be without replicas is what was asked for
    cluster.settle(pulses=False)
    assert cluster.route(ONE) == []


# -- zones -----------------------------------------------------------------------------------------


def test_one_zone_becomes_two_and_every_journal_spreads(cluster: Cluster) -> None:
    cluster.join("a1", "a2", "a3")
    cluster.journals(NAMES, 3)
    cluster.settle()
    assert_placed(cluster, replication=3, in_zones=1)
    cluster.join("b1", "b2")
    cluster.settle()
    assert_placed(cluster, replication=3, in_zones=2)


def test_two_zones_become_three_and_the_load_evens_out(cluster: Cluster) -> None:
    cluster.join("a1", "b1")
    cluster.journals(NAMES, 2)
    cluster.settle()
    cluster.join("c1")
    cluster.settle()
    assert_placed(cluster, replication=2, in_zones=2)
    assert {cluster.load(name) for name in ("a1", "b1", "c1")} == {8}


def test_three_zones_become_two_and_journals_stay_in_both(cluster: Cluster) -> None:
    cluster.join("a1", "b1", "c1")
    cluster.journals(NAMES, 2)
    cluster.settle()
    cluster.lose("c1")
    cluster.settle()
    assert_placed(cluster, replication=2, in_zones=2)


def test_two_zones_become_one_and_replication_goes_before_zones(cluster: Cluster) -> None:
    cluster.join("a1", "a2", "b1")
    cluster.journals(NAMES, 2)
    cluster.settle()
    cluster.lose("b1")
    cluster.settle()
    assert_placed(cluster, replication=2, in_zones=1)


# -- losing brokers --------------------------------------------------------------------------------


def test_assignments_of_a_lost_broker_are_replaced_and_no_others(cluster: Cluster) -> None:
    cluster.join("a1", "b1", "c1", "d1", "e1")
    cluster.journals(NAMES, 2)
    cluster.settle()
    before = {name: set(cluster.route(name)) for name in NAMES}
    cluster.lose("b1")
    cluster.settle()
    assert_placed(cluster, replication=2, in_zones=2)
    for name in NAMES:
        assert before[name] - {"b1"} <= set(cluster.route(name))


def test_a_synchronised_replica_follows_a_lost_primary(cluster: Cluster) -> None:
    """Not the one that was just added, though it is primary of fewer journals."""
    cluster.join("a1", "b1", "c1")
    cluster.journals(NAMES, 2)
    cluster.settle()
    survivors = {name: cluster.route(name)[1] for name in NAMES}
    lost = cluster.route(ONE)[0]
    cluster.lose(lost)
    cluster.join("d1")
    cluster.round()
    assert cluster.route(ONE)[0] == survivors[ONE]


def test_all_brokers_lost_and_come_back(cluster: Cluster) -> None:
    cluster.join("a1", "b1")
    cluster.journals(NAMES, 2)
    cluster.settle()
    for name in ("a1", "b1"):
        cluster.lose(name)
    assert cluster.plan() == []
    cluster.join("a1", "b1")
    cluster.settle()
    assert_placed(cluster, replication=2, in_zones=2)


def test_an_assignment_whose_broker_is_gone_is_removed_consistent_or_not(cluster: Cluster) -> None:
    """It hung on no lease, or on one that was not its broker's."""
    cluster.join("a1", "b1")
    cluster.journal(ONE, 2)
    cluster.round()
    stray = KEYS.assignment(ONE, broker("z1"), 2)
    cluster._write([Put(stray, b"")])
    cluster.round()
    assert set(cluster.route(ONE)) == {"a1", "b1"}


# -- rebalancing -----------------------------------------------------------------------------------


def test_a_new_broker_takes_its_share_and_nothing_else_moves(cluster: Cluster) -> None:
    cluster.join("a1", "b1", "a2", "b2")
    cluster.journals(NAMES, 2)
    cluster.settle()
    before = {name: set(cluster.route(name)) for name in NAMES}
    cluster.join("c1")
    cluster.settle()
    assert_placed(cluster, replication=2, in_zones=2)
    moved = [name for name in NAMES if set(cluster.route(name)) != before[name]]
    assert cluster.load("c1") == len(moved) == 4
    assert all(set(cluster.route(name)) - before[name] == {"c1"} for name in moved)


def test_a_settled_cluster_is_left_alone(cluster: Cluster) -> None:
    cluster.join("a1", "b1", "c1")
    cluster.journals(NAMES, 2)
    cluster.settle()
    solutions, revision = cluster.solutions, cluster.revision
    assert cluster.plan() == []
    assert (cluster.solutions, cluster.revision) == (solutions, revision)


def test_a_solution_stands_while_replicas_are_on_their_way(cluster: Cluster) -> None:
    cluster.join("a1", "b1")
    cluster.journals(NAMES, 2)
    cluster.settle()
    cluster.join("c1")
    cluster.round()
    solutions = cluster.solutions
    cluster.settle()
    assert cluster.solutions == solutions


# -- leaving ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("leaving", ["a1", "c1"], ids=["the leader", "another"])
def test_an_exiting_broker_is_drained(cluster: Cluster, leaving: str) -> None:
    cluster.join("a1", "b1", "c1")
    cluster.journals(NAMES, 2)
    cluster.settle()
    cluster.exit(leaving)
    cluster.settle()
    assert cluster.load(leaving) == 0
    assert_placed(cluster, replication=2, in_zones=2)
    cluster.lose(leaving)
    assert cluster.plan() == []


def test_an_exiting_broker_stays_while_it_is_needed(cluster: Cluster) -> None:
    cluster.join("a1", "b1", "c1")
    cluster.journals(NAMES, 3)
    cluster.settle()
    cluster.exit("b1")
    cluster.settle()
    assert cluster.load("b1") == 12
    cluster.join("b2")
    cluster.settle()
    assert cluster.load("b1") == 0
    assert_placed(cluster, replication=3, in_zones=3)


def test_brokers_exit_one_after_the_other_if_not_all_can_be_spared(cluster: Cluster) -> None:
    cluster.join("a1", "b1", "c1")
    cluster.journals(NAMES, 2)
    cluster.settle()
    cluster.exit("c1")
    cluster.exit("b1")  # announced earlier than c1, so it goes first
    cluster.settle()
    assert (cluster.load("b1"), cluster.load("c1")) == (0, 12)


def test_an_exiting_broker_sheds_only_what_the_others_have_room_for(cluster: Cluster) -> None:
    cluster.join("a1", "b1", "c1", limit=10)
    cluster.journals(NAMES, 2)
    cluster.settle()
    cluster.exit("c1")
    cluster.settle()
    assert cluster.load("c1") == 4
    assert_placed(cluster, replication=2, in_zones=2)


# -- deleting --------------------------------------------------------------------------------------


def test_assignments_of_a_deleted_journal_are_removed(cluster: Cluster) -> None:
    cluster.join("a1", "b1")
    cluster.journals(NAMES, 2)
    cluster.round()
    cluster.delete(ONE)
    cluster.round()
    assert cluster.route(ONE) == []
    assert cluster.plan() == []


def test_a_journal_created_again_meanwhile_keeps_its_assignments(cluster: Cluster) -> None:
    cluster.join("a1", "b1")
    cluster.journal(ONE, 2)
    cluster.settle()
    cluster.delete(ONE)
    (late,) = cluster.plan()
    cluster.journal(ONE, 2)
    assert not cluster.txn(late)
    assert len(cluster.route(ONE)) == 2


def test_a_journal_whose_spec_cannot_be_read_keeps_its_assignments(cluster: Cluster) -> None:
    cluster.join("a1", "b1")
    cluster.journal(ONE, 2)
    cluster.settle()
    cluster._write([Put(KEYS.item(ONE), b"nonsense")])
    assert not any(cluster.txn(transaction) for transaction in cluster.plan())
    assert len(cluster.route(ONE)) == 2
