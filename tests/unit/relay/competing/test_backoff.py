from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windrow.relay.competing.backoff import Backoff

JITTER = st.floats(0, 1, exclude_max=True)


@given(failures=st.integers(0, 10_000), jitter=JITTER)
def test_pause_stays_between_the_least_and_the_most(failures: int, jitter: float) -> None:
    assert 1.0 <= Backoff(1.0, 30.0).delay(failures, jitter) <= 30.0


def test_longest_possible_pause_doubles_with_each_failure() -> None:
    almost = 1 - 2**-53
    longest = [Backoff(1.0, 30.0).delay(n, almost) for n in range(1, 7)]
    assert longest == pytest.approx([2, 4, 8, 16, 30, 30])


@pytest.mark.parametrize("failures", [1, 5, 50])
def test_shortest_possible_pause_is_the_least(failures: int) -> None:
    assert Backoff(1.0, 30.0).delay(failures, 0.0) == 1.0


@given(asked=st.floats(0, 29), jitter=JITTER)
def test_receiver_is_not_asked_again_before_it_wants_to_be(asked: float, jitter: float) -> None:
    assert asked <= Backoff(1.0, 30.0).delay(1, jitter, asked) <= max(asked + 1, 2)


def test_receiver_cannot_ask_for_more_than_the_longest_pause() -> None:
    assert Backoff(1.0, 30.0).delay(1, 0.5, 1e9) == 30.0


def test_receiver_that_asks_for_a_negative_pause_gets_the_usual_one() -> None:
    assert Backoff(1.0, 30.0).delay(1, 0.5, -7.0) == 1.5
