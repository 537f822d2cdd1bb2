"""What one round does to one journal, which conditions it makes, and what it never does."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.unit.journal.allocation.cluster import KEYS, Cluster, broker, encode_route
from windrow.coordination.store import Compare, Delete, KeyValue, Put
from windrow.journal.allocation.converge import converge
from windrow.journal.allocation.state import implied_route
from windrow.journal.allocation.transactions import Group, Transaction
from windrow.journal.process import Route

ONE, TWO = "acme/orders", "acme/users"


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def key(name: str, slot: int, journal: str = ONE) -> str:
    return KEYS.assignment(journal, broker(name), slot)


def only_group(cluster: Cluster, *desired: str) -> Group:
    """What a round does about the one journal, if these are to hold it."""
    solution = {ONE: tuple(sorted(map(broker, desired)))}
    (transaction,) = converge(cluster.state(), solution)
    (group,) = transaction.groups
    return group


def hold(cluster: Cluster, *names: str) -> None:
    """The journal is held by these, in slots from 0, and consistent."""
    for slot, name in enumerate(names):
        cluster.assign(ONE, name, slot)
    cluster.pulse()


# -- who may write ---------------------------------------------------------------------------------


def test_the_member_that_was_there_first_leads(cluster: Cluster) -> None:
    cluster.join("b1", "a1")
    leader = cluster.state().leader
    assert leader is not None
    assert leader.id == broker("b1")
    cluster.lose("b1")
    cluster.join("b1")
    leader = cluster.state().leader
    assert leader is not None
    assert leader.id == broker("a1")


def test_a_leader_that_was_replaced_changes_nothing(cluster: Cluster) -> None:
    cluster.join("a1", "b1", "c1")
    cluster.journal(ONE, 1)
    late = cluster.plan()
    cluster.lose("a1")
    assert not any(cluster.txn(transaction) for transaction in late)
    cluster.join("a1")
    assert not any(cluster.txn(transaction) for transaction in late)


def test_a_leader_that_only_changed_its_spec_still_leads(cluster: Cluster) -> None:
    cluster.join("a1", "b1")
    cluster.journal(ONE, 1)
    (transaction,) = converge(cluster.state(), {ONE: (broker("b1"),)})
    cluster.exit("a1")
    assert cluster.txn(transaction)


# -- adding ----------------------------------------------------------------------------------------


def test_additions_take_the_free_slots_empty_and_under_their_members_lease(
    cluster: Cluster,
) -> None:
    cluster.join("a1", "b1", "c1")
    cluster.journal(ONE, 3)
    cluster.assign(ONE, "b1", 0)
    cluster.assign(ONE, "c1", 2)
    group = only_group(cluster, "a1", "b1", "c1")
    lease = cluster.state().members[broker("a1")].lease
    assert group.ops == (Put(key("a1", 1), b"", lease=lease),)
    assert (group.added, group.removed, group.moved) == (1, 0, 0)


def test_an_addition_waits_while_its_member_is_full(cluster: Cluster) -> None:
    cluster.join("a1", "b1", limit=1)
    cluster.journals([ONE, TWO], 1)
    cluster.assign(TWO, "a1", 0)
    a1, b1 = broker("a1"), broker("b1")
    assert converge(cluster.state(), {ONE: (a1,), TWO: (a1,)}) == []
    assert len(converge(cluster.state(), {ONE: (b1,), TWO: (a1,)})) == 1


def test_two_additions_of_a_round_do_not_share_the_last_place(cluster: Cluster) -> None:
    cluster.join("a1", limit=1)
    cluster.journals([ONE, TWO], 1)
    (transaction,) = converge(cluster.state(), {ONE: (broker("a1"),), TWO: (broker("a1"),)})
    assert len(transaction.groups) == 1


def test_an_addition_fails_if_its_member_left_and_came_back(cluster: Cluster) -> None:
    cluster.join("a1", "b1")
    cluster.journal(ONE, 2)
    (late,) = cluster.plan()
    cluster.lose("b1")
    cluster.join("b1")
    assert not cluster.txn(late)


def test_an_addition_fails_if_its_member_has_less_room_meanwhile(cluster: Cluster) -> None:
    cluster.join("a1", "b1")
    cluster.journal(ONE, 2)
    (late,) = cluster.plan()
    cluster.join("b1", limit=0)
    assert not cluster.txn(late)


# -- removing --------------------------------------------------------------------------------------


def test_of_replicas_to_be_removed_the_most_loaded_goes_first(cluster: Cluster) -> None:
    cluster.join("a1", "b1", "c1", limit=10)
    cluster.journals([ONE, TWO], 2)
    hold(cluster, "a1", "b1", "c1")
    cluster.assign(TWO, "c1", 0)
    solution = {ONE: (broker("a1"),), TWO: (broker("c1"),)}
    (transaction,) = converge(cluster.state(), solution)
    assert transaction.ops == [Delete(key("c1", 2))]


def test_replicas_are_removed_down_to_what_is_wanted_and_no_further(cluster: Cluster) -> None:
    cluster.join("a1", "b1", "c1", "d1")
    cluster.journal(ONE, 2)
    hold(cluster, "a1", "b1", "c1", "d1")
    assert only_group(cluster, "a1").removed == 2


def test_a_removal_fails_if_another_replica_was_lost_meanwhile(cluster: Cluster) -> None:
    """It was spared because of the others; with one of them gone it is needed."""
    cluster.join("a1", "b1", "c1")
    cluster.journal(ONE, 2)
    hold(cluster, "a1", "b1", "c1")
    (late,) = converge(cluster.state(), {ONE: (broker("a1"), broker("b1"))})
    cluster.lose("b1")
    assert not cluster.txn(late)


def test_a_removal_fails_if_more_replicas_are_wanted_meanwhile(cluster: Cluster) -> None:
    cluster.join("a1", "b1", "c1")
    cluster.journal(ONE, 2)
    hold(cluster, "a1", "b1", "c1")
    (late,) = converge(cluster.state(), {ONE: (broker("a1"), broker("b1"))})
    cluster.journal(ONE, 3)
    assert not cluster.txn(late)


@pytest.mark.parametrize("fault", ["empty", "nonsense", "other members", "other primary"])
def test_one_assignment_that_disagrees_makes_a_journal_inconsistent(
    cluster: Cluster, fault: str
) -> None:
    cluster.join("a1", "b1", "c1")
    cluster.journal(ONE, 2)
    hold(cluster, "a1", "b1", "c1")
    assert cluster.state().is_consistent(ONE)
    route = implied_route(cluster.state().current(ONE))
    values = {
        "empty": b"",
        "nonsense": b"nonsense",
        "other members": encode_route(Route(route.members[:2], 0)),
        "other primary": encode_route(Route(route.members, 1)),
    }
    kv = cluster.kvs[key("b1", 1)]
    cluster.kvs[kv.key] = replace(kv, value=values[fault])
    assert not cluster.state().is_consistent(ONE)
    assert converge(cluster.state(), {ONE: (broker("a1"), broker("b1"))}) == []


def test_where_members_listen_does_not_matter_to_consistency(cluster: Cluster) -> None:
    cluster.join("a1", "b1")
    cluster.journal(ONE, 2)
    hold(cluster, "a1", "b1")
    state = cluster.state()
    decode = state.decode_route

    def with_endpoints(value: bytes) -> Route | None:
        route = decode(value)
        return route and Route(route.members, route.primary, ("http://a", "http://b"))

    assert replace(state, decode_route=with_endpoints).is_consistent(ONE)


# -- moving ----------------------------------------------------------------------------------------


def test_an_empty_slot_0_goes_to_the_member_with_the_fewest_primaries(cluster: Cluster) -> None:
    """As a move: same value, same lease, and the old key goes in the same transaction."""
    cluster.join("a1", "b1", "c1")
    cluster.journals([ONE, TWO], 2)
    cluster.assign(TWO, "b1", 0)
    hold(cluster, "a1", "b1", "c1")
    cluster.pulse()
    held = cluster.kvs[key("c1", 2)]
    solution = {ONE: (broker("b1"), broker("c1")), TWO: (broker("b1"), broker("c1"))}
    transactions = converge(cluster.state(), solution)
    group = transactions[0].groups[0]
    assert group.ops == (
        Delete(key("a1", 0)),
        Delete(key("c1", 2)),
        Put(key("c1", 0), held.value, lease=held.lease),
    )
    assert held.value
    assert held.lease
    assert (group.added, group.removed, group.moved) == (0, 1, 1)


def test_a_lost_primary_is_followed_by_a_replica_that_was_synchronised(cluster: Cluster) -> None:
    """Though the one just added is primary of fewer journals."""
    cluster.join("a1", "b1", "c1")
    cluster.journals([ONE, TWO], 2)
    hold(cluster, "a1", "c1")
    cluster.assign(TWO, "c1", 0)
    cluster.assign(ONE, "b1", 2)
    cluster.lose("a1")
    solution = {ONE: (broker("b1"), broker("c1")), TWO: (broker("c1"),)}
    (transaction,) = converge(cluster.state(), solution)
    assert transaction.ops[0] == Delete(key("c1", 1))


def test_a_lost_primary_is_followed_by_the_best_though_nothing_else_is_to_do(
    cluster: Cluster,
) -> None:
    cluster.join("a1", "b1", "c1")
    cluster.journals([ONE, TWO], 2)
    hold(cluster, "a1", "b1", "c1")
    cluster.assign(TWO, "c1", 0)
    cluster.lose("a1")
    solution = {ONE: (broker("b1"), broker("c1")), TWO: (broker("c1"),)}
    (transaction,) = converge(cluster.state(), solution)
    assert transaction.ops[0] == Delete(key("b1", 1))


def test_slots_are_closed_up_one_a_round(cluster: Cluster) -> None:
    cluster.join("a1", "b1", "c1")
    cluster.journal(ONE, 3)
    for name, slot in (("a1", 0), ("b1", 3), ("c1", 5)):
        cluster.assign(ONE, name, slot)
    cluster.pulse()
    assert cluster.round() == 2
    assert cluster.slots(ONE) == [0, 1, 3]
    assert cluster.state().is_consistent(ONE)
    assert cluster.round() == 2
    assert cluster.slots(ONE) == [0, 1, 2]
    assert cluster.round() == 0


def test_slots_are_not_closed_up_while_there_is_something_else_to_do(cluster: Cluster) -> None:
    cluster.join("a1", "b1", "c1")
    cluster.journal(ONE, 3)
    cluster.assign(ONE, "a1", 0)
    cluster.assign(ONE, "b1", 5)
    group = only_group(cluster, "a1", "b1", "c1")
    assert (group.added, group.moved) == (1, 0)


def test_of_two_primaries_one_is_moved_away(cluster: Cluster) -> None:
    cluster.join("a1", "b1")
    cluster.journal(ONE, 2)
    cluster.assign(ONE, "a1", 0)
    cluster.assign(ONE, "b1", 0)
    cluster.round()
    assert cluster.slots(ONE) == [0, 1]


def test_of_two_assignments_to_one_member_the_lower_slot_stays(cluster: Cluster) -> None:
    cluster.join("a1", "b1")
    cluster.journal(ONE, 2)
    hold(cluster, "a1", "b1")
    cluster.assign(ONE, "b1", 2)
    cluster.round()
    assert cluster.route(ONE) == ["a1", "b1"]


# -- conditions ------------------------------------------------------------------------------------


def test_every_change_compares_the_leader_the_spec_and_all_assignments(cluster: Cluster) -> None:
    cluster.join("a1", "b1", "c1")
    cluster.journal(ONE, 1)
    hold(cluster, "a1", "b1")
    cluster.pulse()
    state = cluster.state()
    (transaction,) = converge(state, {ONE: (broker("c1"),)})
    leader, added = state.members[broker("a1")], state.members[broker("c1")]
    assert set(transaction.compares) == {
        Compare.create_revision(leader.key, leader.create_revision),
        Compare.mod_revision(KEYS.item(ONE), state.items[ONE].mod_revision),
        *(Compare.mod_revision(a.kv.key, a.kv.mod_revision) for a in state.current(ONE)),
        Compare.mod_revision(added.key, added.mod_revision),
        *(Compare.version(op.key, 0) for op in transaction.ops if isinstance(op, Put)),
    }


# -- whatever happens ------------------------------------------------------------------------------

BROKERS = st.sampled_from(["a1", "a2", "b1", "b2", "c1"])
JOURNALS = st.sampled_from([f"acme/{n}" for n in "wxyz"])


@settings(max_examples=60, stateful_step_count=40, suppress_health_check=[HealthCheck.too_slow])
class Changes(RuleBasedStateMachine):
    """Brokers and journals come, go and change at any time, also in the middle of a hand-over.

    The cluster itself checks each transaction of the leader.
    """

    def __init__(self) -> None:
        super().__init__()
        self.cluster = Cluster()
        self.late: list[Transaction] = []

    @initialize()
    def begin(self) -> None:
        self.cluster.join("a1", "b1", limit=20)
        self.cluster.journal("acme/w", 2)

    def members(self) -> set[str]:
        return {m.zone + m.suffix.removeprefix("broker-") for m in self.cluster.state().members}

    @rule(name=BROKERS, limit=st.integers(0, 6))
    def join_or_change_limit(self, name: str, limit: int) -> None:
        self.cluster.join(name, limit=limit)

    @rule(name=BROKERS)
    def lose(self, name: str) -> None:
        if name in self.members():
            self.cluster.lose(name)

    @rule(name=BROKERS)
    def exit(self, name: str) -> None:
        if name in self.members():
            self.cluster.exit(name)

    @rule(journal=JOURNALS, replication=st.integers(1, 3))
    def apply(self, journal: str, replication: int) -> None:
        self.cluster.journal(journal, replication)

    @rule(journal=JOURNALS)
    def delete(self, journal: str) -> None:
        if KEYS.item(journal) in self.cluster.kvs:
            self.cluster.delete(journal)
            self.cluster.synced.pop(journal, None)

    @rule(journal=JOURNALS)
    def pulse(self, journal: str) -> None:
        self.cluster.pulse(journal)

    @rule()
    def round(self) -> None:
        self.forget_plans()
        self.cluster.round()

    @rule()
    def plan(self) -> None:
        self.forget_plans()
        self.late += self.cluster.plan()

    def forget_plans(self) -> None:
        """A leader acts on one plan at a time; those of former leaders may come at any time."""
        leader = self.cluster.state().leader
        if leader is not None:
            guard = Compare.create_revision(leader.key, leader.create_revision)
            self.late = [transaction for transaction in self.late if transaction.guard != guard]

    @precondition(lambda self: self.late)
    @rule()
    def perform_a_late_plan(self) -> None:
        self.cluster.txn(self.late.pop(0))

    @rule()
    def settle(self) -> None:
        """When all is quiet the solution is reached, as far as nothing needed has to go for it.

        Who is missing has no room, and who is there beyond the solution is needed.
        """
        self.forget_plans()
        self.cluster.settle()
        state = self.cluster.state()
        assert set(state.assignments) <= set(state.items)
        assert self.cluster.solved is not None
        loads = state.loads()
        for journal, desired in self.cluster.solved[1].items():
            held = {a.member for a in state.current(journal)}
            missing, beyond = set(desired) - held, held - set(desired)
            assert all(loads[member] >= state.members[member].limit for member in missing)
            assert not beyond or len(held) <= state.items[journal].replication

    @invariant()
    def every_plan_can_be_sent(self) -> None:
        for transaction in self.cluster.plan():
            assert len(transaction.compares) <= 128
            assert len(transaction.ops) <= 128


TestChanges = Changes.TestCase


@given(st.randoms())
def test_a_plan_does_not_depend_on_the_order_in_which_keys_are_read(dice: Random) -> None:
    cluster = Cluster()
    cluster.join("a1", "a2", "b1", "b2")
    cluster.journals([f"acme/{n}" for n in range(6)], 2)
    plan = cluster.plan()
    kvs = list(cluster.kvs.items())
    dice.shuffle(kvs)
    cluster.kvs, cluster.solved = dict(kvs), None
    assert cluster.plan() == plan


def test_the_head_of_a_deleted_journal_goes_and_that_of_another_stays(cluster: Cluster) -> None:
    cluster.join("a1")
    cluster.journal(ONE, 1)
    cluster.assign(ONE, "a1", 0)
    heads = [
        KeyValue(KEYS.head(name), b"", create_revision=1, mod_revision=7, version=1, lease=0)
        for name in (ONE, TWO)
    ]
    (transaction,) = converge(cluster.state(), {ONE: (broker("a1"),)}, heads)
    (group,) = transaction.groups
    assert group.ops == (Delete(KEYS.head(TWO)),)
    assert group.compares == (
        Compare.version(KEYS.item(TWO), 0),
        Compare.mod_revision(KEYS.head(TWO), 7),
    )
