"""The journals' figures, taken small: what is measured is also seen to have worked."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from windrow.bench.journal.appends import bulk_rate, read_rate, record_rate, small_appends
from windrow.bench.journal.bare_loop import bare_rate
from windrow.bench.journal.outages import fail_over
from windrow.bench.journal.stage import Stage, stage


@pytest.fixture(scope="module")
def on() -> Iterator[Stage]:
    with stage() as servers:
        yield servers


def test_appends_large_and_small_are_timed_and_their_ends_checked(on: Stage) -> None:
    assert bulk_rate(on, 1) > 0
    assert record_rate(on, 2_000) > 0
    rate, p50 = small_appends(on, 2, 0.5)
    assert rate > 0
    assert p50 > 0


def test_a_read_gives_back_what_was_appended(on: Stage) -> None:
    assert read_rate(on, 16) > 0


def test_a_killed_primary_is_followed_by_another(on: Stage) -> None:
    assert 0 < fail_over(on) < 60


def test_the_floor_is_a_loop_that_reaches_the_disk() -> None:
    assert bare_rate(1024, 20, pieces_per_sync=1) > 0
