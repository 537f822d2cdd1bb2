from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from windrow.chaos.accounts import Arrival, Written, account_of, over_time, quantile


def test_what_never_arrived_and_waits_nowhere_is_lost() -> None:
    written = [Written("a", 0.0), Written("b", 1.0), Written("c", 2.0)]
    account = account_of(written, [Arrival("a", "id-a", 0.5)], waiting=["c"])
    assert (account.written, account.delivered) == (3, 1)
    assert (account.lost, account.waiting) == (1, 1)


def test_what_waits_though_it_arrived_is_not_counted_as_waiting() -> None:
    account = account_of([Written("a", 0.0)], [Arrival("a", "id", 1.0)], waiting=["a"])
    assert (account.lost, account.waiting) == (0, 0)


def test_a_copy_with_the_same_id_is_stopped_by_an_inbox_and_one_with_another_is_not() -> None:
    arrived = [
        Arrival("a", "id-a", 1.0),
        Arrival("a", "id-a", 2.0),
        Arrival("a", "id-x", 3.0),
    ]
    account = account_of([Written("a", 0.0)], arrived)
    assert (account.doubled, account.doubled_behind_inbox) == (2, 1)


def test_what_was_never_committed_is_unexpected() -> None:
    account = account_of([Written("a", 0.0)], [Arrival("ghost", "id", 1.0)])
    assert (account.unexpected, account.lost, account.delivered) == (1, 1, 0)


def test_delay_runs_from_commit_to_first_arrival() -> None:
    arrived = [Arrival("a", "id", 9.0), Arrival("a", "id", 1.5), Arrival("b", "id-b", 4.0)]
    account = account_of([Written("a", 1.0), Written("b", 1.0)], arrived)
    assert (account.p50, account.p99) == (0.5, 3.0)


def test_recovery_runs_from_the_end_of_the_fault_to_the_last_that_was_written_before_it() -> None:
    written = [Written("a", 0.0), Written("b", 4.0), Written("later", 6.0)]
    arrived = [Arrival("a", "1", 0.1), Arrival("b", "2", 7.5), Arrival("later", "3", 9.0)]
    assert account_of(written, arrived, fault_end=5.0).recovery == 2.5
    assert account_of(written, arrived[:1], fault_end=5.0).recovery is None
    assert account_of(written[:1], arrived[:1], fault_end=5.0).recovery == 0.0


def test_quantiles_are_values_that_occurred() -> None:
    assert quantile([], 0.5) is None
    assert quantile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert quantile([3.0, 1.0, 2.0], 0.99) == 3.0


heroes = st.sampled_from("abcdefgh")


@given(
    st.dictionaries(heroes, st.floats(0, 100)),
    st.lists(st.builds(Arrival, heroes, st.sampled_from(["1", "2"]), st.floats(0, 200))),
    st.sets(heroes),
)
def test_everything_written_is_exactly_one_of_delivered_waiting_and_lost(
    begun: dict[str, float], arrived: list[Arrival], waiting: set[str]
) -> None:
    written = [Written(hero, at) for hero, at in begun.items()]
    account = account_of(written, arrived, waiting)
    assert account.delivered + account.waiting + account.lost == account.written == len(begun)
    assert account.delivered + account.doubled + account.unexpected == len(arrived)
    assert 0 <= account.doubled_behind_inbox <= account.doubled


@given(
    st.dictionaries(heroes, st.floats(0, 100)),
    st.lists(st.builds(Arrival, heroes, st.just("1"), st.floats(0, 200))),
)
def test_the_plot_ends_with_the_numbers_of_the_account(
    begun: dict[str, float], arrived: list[Arrival]
) -> None:
    written = [Written(hero, at) for hero, at in begun.items()]
    points = over_time(written, arrived, begin=0.0, steps=10)
    account = account_of(written, arrived)
    assert points[-1][1:] == (account.written, account.delivered)
    for earlier, later in pairwise(points):
        assert earlier[0] <= later[0]
        assert earlier[1] <= later[1]
        assert earlier[2] <= later[2]
