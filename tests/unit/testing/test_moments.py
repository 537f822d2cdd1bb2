from __future__ import annotations

from collections import Counter
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from windrow.testing.moments import Moment, moments


@given(
    count=st.integers(0, 60),
    points=st.lists(st.text(min_size=1), min_size=1, max_size=7, unique=True),
    seed=st.integers(),
)
def test_half_are_named_points_evenly_and_half_are_random(
    count: int, points: list[str], seed: int
) -> None:
    drawn = moments(count, points, Random(seed), (0.1, 0.4))
    named = Counter(moment.point for moment in drawn if moment.point is not None)
    delays = [moment.delay for moment in drawn if moment.point is None]
    assert len(drawn) == count
    assert named.total() - len(delays) == count % 2
    assert all(0.1 <= delay <= 0.4 for delay in delays)
    assert set(named) <= set(points)
    used = [named[point] for point in points]
    assert max(used) - min(used) <= 1


def test_the_same_seed_gives_the_same_moments_and_another_seed_gives_others() -> None:
    def draw(seed: int) -> list[Moment]:
        return moments(20, ["a", "b"], Random(seed), (0.0, 1.0))

    assert draw(7) == draw(7)
    assert draw(7) != draw(8)


def test_a_moment_says_when_it_is() -> None:
    assert [str(Moment("after-commit")), str(Moment(delay=0.25))] == [
        "after-commit",
        "after 0.250s",
    ]
