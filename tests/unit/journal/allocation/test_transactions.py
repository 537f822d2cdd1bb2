"""Transactions hold whole journals, and no more than a store takes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.journal.allocation.cluster import Cluster
from windrow.coordination.store import Compare, Delete
from windrow.journal.allocation.transactions import Group, batch

GUARD = Compare.create_revision("/leader", 1)


def group(name: str, compares: int, ops: int, shared: int = 0) -> Group:
    own = [Compare.mod_revision(f"/{name}/{n}", 1) for n in range(compares)]
    common = [Compare.mod_revision(f"/shared/{n}", 1) for n in range(shared)]
    return Group(tuple(own + common), tuple(Delete(f"/{name}/{n}") for n in range(ops)))


GROUPS = st.lists(
    st.tuples(st.integers(0, 127), st.integers(1, 128)).map(
        lambda sizes: group("x", compares=sizes[0], ops=sizes[1])
    ),
    max_size=30,
)


@given(GROUPS)
def test_all_groups_are_sent_in_order_and_none_is_parted(groups: list[Group]) -> None:
    transactions = batch(GUARD, groups)
    assert [g for transaction in transactions for g in transaction.groups] == groups
    for transaction in transactions:
        assert transaction.groups
        assert transaction.compares[0] == GUARD
        assert len(transaction.compares) <= 128
        assert len(transaction.ops) <= 128


def test_a_transaction_is_filled_to_its_last_change() -> None:
    groups = [group(f"g{n}", compares=0, ops=2) for n in range(65)]
    assert [len(t.groups) for t in batch(GUARD, groups)] == [64, 1]


def test_a_transaction_is_filled_to_its_last_condition() -> None:
    groups = [group(f"g{n}", compares=1, ops=1) for n in range(128)]
    assert [len(t.groups) for t in batch(GUARD, groups)] == [127, 1]


def test_a_condition_shared_by_groups_counts_once() -> None:
    groups = [group(f"g{n}", compares=1, ops=1, shared=27) for n in range(100)]
    (transaction,) = batch(GUARD, groups)
    assert len(transaction.compares) == 128


def test_a_failed_transaction_is_tried_in_halves_down_to_single_groups() -> None:
    groups = [group(f"g{n}", compares=1, ops=1) for n in range(3)]
    (transaction,) = batch(GUARD, groups)
    first, second = transaction.halves()
    assert (first.groups, second.groups) == (tuple(groups[:1]), tuple(groups[1:]))
    assert first.halves() == ()
    assert first.guard == second.guard == GUARD


def test_many_journals_become_few_transactions() -> None:
    cluster = Cluster()
    cluster.join("a1", "b1", "c1", limit=1000)
    cluster.journals([f"acme/{n:04}" for n in range(300)], 3)
    transactions = cluster.plan()
    assert len(transactions) <= 10
    assert all(cluster.txn(transaction) for transaction in transactions)
    assert cluster.plan() == []
