from __future__ import annotations

import pytest

from windrow.journal.client.errors import InvalidBatch, NotSequenced, WriterFenced
from windrow.journal.client.sequence import (
    SEQ,
    Batch,
    Owner,
    WriterState,
    check_id,
    last_register,
    owner_register,
)
from windrow.journal.labels import EMPTY, LabelSet

JOURNAL, W = (
    "a/journal",
    "relay/shard 0 of the orders outbox, a very long name indeed: " + "x" * 200,
)
FRESH = WriterState(JOURNAL, W)
FIRST = Batch("batch-1", 0, 3)


def registers(state: WriterState, *batches: Batch) -> LabelSet:
    """The registers after these batches, each checked as a broker would."""
    found = EMPTY
    for batch in batches:
        assert not found or state.check().matches(found)
        found = state.moved(batch).union(found)
        state = state.after(batch)
    return found


def test_registers_have_names_and_values_that_a_broker_takes() -> None:
    found = registers(FRESH, FIRST)
    found.validate()
    assert found.value(SEQ) == "3"
    assert found.value(last_register(W)) == "batch-1/0/3"
    assert len(owner_register(W)) <= 64


def test_what_registers_tell_is_what_the_writer_knew() -> None:
    found = registers(FRESH, FIRST)
    assert WriterState.read(JOURNAL, W, found, 100) == FRESH.after(FIRST)


def test_content_without_a_sequence_is_refused() -> None:
    """An empty set of registers matches every check: it would be numbered from 0 again."""
    with pytest.raises(NotSequenced, match="holds 100 bytes"):
        WriterState.read(JOURNAL, W, EMPTY, 100)
    with pytest.raises(NotSequenced):
        WriterState.read(JOURNAL, W, LabelSet.of({"other": "register"}), 100)
    assert WriterState.read(JOURNAL, W, EMPTY, 0) == FRESH


def test_the_first_batch_of_a_writer_is_checked_by_exclusion() -> None:
    """Two processes under one name: the second's first batch must not pass after the first's."""
    found = registers(FRESH, FIRST)
    assert not FRESH.check().matches(found)
    other = WriterState.read(JOURNAL, "another", found, 100)
    assert other.check().matches(found)
    after_other = other.moved(Batch("b", 3, 1)).union(found)
    assert not other.check().matches(after_other)


def test_a_batch_passes_only_behind_the_one_its_writer_remembers() -> None:
    second, third = Batch("batch-2", 3, 1), Batch("batch-3", 4, 1)
    knows_one = FRESH.after(FIRST)
    assert knows_one.check().matches(registers(FRESH, FIRST))
    assert not knows_one.check().matches(registers(FRESH, FIRST, second))
    assert not knows_one.check().matches(registers(FRESH, FIRST, second, third))


def test_the_sequence_alone_does_not_tell_that_a_batch_came_between() -> None:
    """J6: one without records moves no sequence. Only the chain refuses a batch that is late."""
    knows_one, empty = FRESH.after(FIRST), Batch("batch-2", 3, 0)
    found = registers(FRESH, FIRST, empty)
    assert found.value(SEQ) == str(knows_one.seq)
    assert not knows_one.check().matches(found)


def test_a_writer_whose_sequence_another_one_moved_is_told_where_it_is_now() -> None:
    state = FRESH.after(FIRST)
    moved = LabelSet.of({SEQ: "9"}).union(registers(FRESH, FIRST))
    now = WriterState.read(JOURNAL, W, moved, 100)
    judged = state.judge("batch-2", now)
    assert judged.next_seq == 9
    assert judged.last == FIRST


def test_a_lost_answer_is_found_in_the_registers() -> None:
    now = FRESH.after(FIRST)
    assert FRESH.judge("batch-1", now).last == FIRST


def test_a_batch_of_somebody_else_under_our_name_fences_us() -> None:
    with pytest.raises(WriterFenced, match="batch-1/0/3"):
        FRESH.judge("mine", FRESH.after(FIRST))


def test_an_earlier_batch_of_ours_that_landed_after_all_does_not() -> None:
    now = FRESH.after(FIRST)
    assert FRESH.judge("batch-2", now, in_doubt={"batch-1"}) == now


def test_a_lost_owner_is_not_regained_by_a_batch_that_was_committed_before() -> None:
    """The state that goes on must still claim our owner, or the next batch would pass as its."""
    ours, theirs = Owner("us", 1), Owner("them", 2)
    state = WriterState(JOURNAL, W, 0, None, ours)
    now = WriterState(JOURNAL, W, 3, FIRST, theirs)
    judged = state.judge("batch-1", now)
    assert judged.last == FIRST
    assert judged.owner == ours
    with pytest.raises(WriterFenced, match="2/them"):
        judged.judge("batch-2", now)


def test_a_hand_over_checks_the_owner_and_not_the_sequence() -> None:
    check, union = FRESH.hand_over(Owner("us", 1))
    found = union
    assert found.value(SEQ) == "0"
    assert not check.matches(found)
    state = WriterState.read(JOURNAL, W, found, 10)
    check, union = state.hand_over(Owner("them", 2))
    moved = LabelSet.of({SEQ: "50"}).union(found)
    assert check.matches(moved)
    assert union.union(moved).value(SEQ) == "50"
    assert not check.matches(union.union(moved))


@pytest.mark.parametrize("text", ["", "a/b", "a b", "x" * 129, "a\n"])
def test_an_id_that_no_register_can_hold_is_refused(text: str) -> None:
    with pytest.raises(InvalidBatch):
        check_id("batch", text)


def test_batches_and_owners_come_back_from_their_registers() -> None:
    assert Batch.unpack(FIRST.pack()) == FIRST
    assert Owner.unpack(Owner("host-1.pid", 12).pack()) == Owner("host-1.pid", 12)
