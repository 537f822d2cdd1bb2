"""The relay's figures, taken small: what is measured is also seen to have worked."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from windrow.bench.relay.drains import bare_sql, drain
from windrow.bench.relay.hard_times import hand_over_gap, worst_mark
from windrow.bench.relay.live import delays, idle
from windrow.bench.relay.stage import Stage, stage


@pytest.fixture(scope="module")
def on() -> Iterator[Stage]:
    with stage() as servers:
        yield servers


@pytest.mark.parametrize("mode", ["barrier", "transactional"])
def test_a_drain_is_timed_charged_and_checked_at_a_consumer(on: Stage, mode: str) -> None:
    measured = drain(on, 2_000, 100, {"relay.mode": mode})
    assert measured.rate > 0
    assert measured.relay_cpu > 0
    assert measured.postgres_cpu > 0
    assert measured.rows_per_purge > 1
    assert on.is_empty()


def test_the_same_statements_alone_empty_the_outbox_too(on: Stage) -> None:
    bare = bare_sql(on, 5_000, 100)
    assert bare.rate > 0
    assert bare.postgres_cpu > 0
    assert on.is_empty()


def test_delays_are_those_of_records_that_arrived(on: Stage) -> None:
    p50, p99 = delays(on, 100, 2.0, {})
    assert 0 < p50 <= p99


def test_an_idle_relay_still_renews_its_right_to_lead(on: Stage) -> None:
    statements, cpu = idle(on, 2.0, {})
    assert 0 < statements < 20
    assert 0 <= cpu < 100


def test_a_stop_shows_as_a_silence_and_nothing_comes_twice(on: Stage) -> None:
    silence, repeats = hand_over_gap(on, 100, 4.0, {})
    assert silence > 0
    assert repeats == 0


def test_the_longest_mark_is_found_among_the_statements(on: Stage) -> None:
    assert 0 < worst_mark(on, 5_000, 100, {"relay.mode": "barrier"}) < 60
