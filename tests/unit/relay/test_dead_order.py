"""Which dead letters may go back without overtaking anybody."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from windrow.relay.dead_order import DeadLetter, to_replay
from windrow.relay.errors import NoSuchLetter, OutOfOrder

BURIED = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)


def letter(number: int, record: int, minutes: int) -> DeadLetter:
    """A dead letter that was moved so many minutes after the key was buried."""
    return DeadLetter(number, record, BURIED + timedelta(minutes=minutes))


OLD = [letter(1, 10, -60), letter(2, 12, -30)]
NEW = [letter(4, 20, 0), letter(3, 21, 1), letter(5, 22, 2)]


def test_all_that_a_key_was_buried_with_goes_back_in_the_order_of_its_records() -> None:
    assert to_replay("k", NEW, BURIED, None, False) == NEW


def test_what_later_records_have_passed_before_the_burial_stays_dead() -> None:
    assert to_replay("k", OLD + NEW, BURIED, None, False) == NEW


def test_with_leave_to_go_out_of_order_everything_goes_back() -> None:
    assert to_replay("k", OLD + NEW, BURIED, None, True) == OLD + NEW
    assert to_replay("k", OLD, None, None, True) == OLD


def test_a_key_that_is_not_buried_has_let_others_pass() -> None:
    with pytest.raises(OutOfOrder, match=r"dead letter 4 of key 'k' .* add --out-of-order"):
        to_replay("k", NEW, None, None, False)


def test_a_replay_may_begin_later_and_leaves_those_before_it() -> None:
    assert to_replay("k", OLD + NEW, BURIED, 3, False) == NEW[1:]


def test_a_replay_that_begins_before_the_burial_needs_leave() -> None:
    with pytest.raises(OutOfOrder, match="dead letter 2"):
        to_replay("k", OLD + NEW, BURIED, 2, False)
    assert to_replay("k", OLD + NEW, BURIED, 2, True) == OLD[1:] + NEW


def test_a_replay_that_begins_at_somebody_elses_letter_is_refused() -> None:
    """It would release the key and put nothing back."""
    with pytest.raises(NoSuchLetter, match="windrow deadletter list --key 'a b'"):
        to_replay("a b", NEW, BURIED, 99, False)


def test_no_letters_are_nothing_to_replay() -> None:
    assert to_replay("k", [], BURIED, None, False) == []
    assert to_replay("k", [], None, None, False) == []
