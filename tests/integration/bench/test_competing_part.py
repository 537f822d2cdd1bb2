"""The figures of competing relays, taken small: what is measured is also seen to have worked."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from windrow.bench.competing.measures import drain
from windrow.bench.competing.seed_loop import seed_rate
from windrow.bench.competing.stage import Stage, stage
from windrow.bench.errors import NotDelivered


@pytest.fixture(scope="module")
def on() -> Iterator[Stage]:
    with stage() as servers:
        yield servers


def test_a_drain_by_two_relays_is_timed_and_charged(on: Stage) -> None:
    measured = drain(on, 500, 2)
    assert measured.rate > 0
    assert measured.cpu > 0


def test_a_loop_of_one_row_at_a_time_is_timed_on_the_same_outbox(on: Stage) -> None:
    assert 0 < seed_rate(on, 5) < 100


def test_a_message_that_comes_twice_is_no_figure(on: Stage) -> None:
    seed_rate(on, 5)
    with pytest.raises(NotDelivered, match="5"):
        on.wait_until_delivered(4)


def test_a_relay_that_ends_is_told_of_at_once_and_by_its_own_words(on: Stage) -> None:
    on.fill(5)
    with on.relays(1) as running:
        running[0].kill()
        with pytest.raises(NotDelivered, match="5 messages arrive; bench-relay-0 has ended: "):
            on.wait_until_delivered(5)
