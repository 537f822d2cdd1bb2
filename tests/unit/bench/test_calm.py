"""Rounds are judged by what the host took, never by what was measured."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from windrow.bench.calm import CalmRounds, calmest, stolen_percent


def test_stolen_time_is_a_share_of_all_of_it() -> None:
    assert stolen_percent([0] * 10, [30, 0, 20, 20, 10, 0, 10, 10, 500, 500]) == 10.0
    assert stolen_percent([7] * 10, [7] * 10) == 0.0


def test_calm_rounds_come_as_they_were_and_then_those_with_the_least_stolen() -> None:
    tried = [(30.0, "a"), (4.0, "b"), (9.0, "c"), (0.0, "d")]
    assert [name for _, name in calmest(tried, 3)] == ["b", "d", "c"]


@pytest.mark.parametrize(
    ("stolen", "kept", "set_aside"),
    [
        ([0, 0, 0], [0, 1, 2], 0),
        ([0, 30, 0, 0], [0, 2, 3], 1),
        ([30, 20, 10, 40, 50, 60], [2, 1, 0], 3),  # there was no calm to be had
    ],
)
def test_a_round_of_which_the_host_took_much_is_measured_again_some_times_over(
    stolen: list[int], kept: list[int], set_aside: int
) -> None:
    rounds = CalmRounds(_ticks_of(stolen))
    measured = iter(range(10))
    assert rounds(3, lambda _: next(measured)) == kept
    taken, again = rounds.figures()
    assert taken.repeats == tuple(stolen[n] for n in kept)
    assert again.repeats == (set_aside,)


def test_this_machine_says_what_its_host_takes() -> None:
    rounds = CalmRounds()
    assert rounds(1, lambda _: sum(range(100_000))) == [4_999_950_000]
    (stolen,) = rounds.figures()[0].repeats
    assert 0.0 <= stolen <= 100.0


def _ticks_of(stolen: list[int]) -> Callable[[], list[int]]:
    """A look at processors of which the host takes so many percent, round by round."""
    looks = [
        ticks
        for percent in stolen
        for ticks in ([0] * 10, [100 - percent, 0, 0, 0, 0, 0, 0, percent, 0, 0])
    ]
    return iter(looks).__next__
