"""How many rows may be asked for before one was seen, and after."""

from __future__ import annotations

from windrow.relay.appetite import FIRST_ROWS, GROWTH, Appetite


def test_who_has_seen_nothing_asks_for_few() -> None:
    assert Appetite().most == FIRST_ROWS


def test_each_read_may_bring_some_times_what_the_last_one_brought() -> None:
    appetite, asked = Appetite(), []
    for _ in range(4):
        asked.append(appetite.most)
        appetite.on_read(appetite.most, 1_000 * appetite.most)
    assert asked == [FIRST_ROWS * GROWTH**n for n in range(4)]


def test_after_a_small_read_few_are_asked_for_again() -> None:
    """It tells little of what comes next."""
    appetite = Appetite()
    appetite.on_read(5_000, 5_000_000)
    appetite.on_read(1, 1_000)
    assert appetite.most == FIRST_ROWS


def test_the_next_rows_are_taken_to_be_like_the_last_ones() -> None:
    appetite = Appetite()
    appetite.on_read(10, 1_000_000)
    assert appetite.rows_in(1_000_000) == 10
    appetite.on_read(1_000, 1_000_000)
    assert appetite.rows_in(1_000_000) == 1_000


def test_a_read_that_brought_nothing_tells_nothing() -> None:
    appetite = Appetite()
    appetite.on_read(1_000, 1_000_000)
    appetite.on_read(0, 0)
    assert (appetite.most, appetite.row_bytes) == (GROWTH * 1_000, 1_000)
