"""The checks of an append, in their order."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.journal.broker.appends import JOURNAL, SPEC, spool
from windrow.journal.broker.append_events import IndexReady
from windrow.journal.broker.group import Conditions
from windrow.journal.broker.preconditions import (
    Accepted,
    Finding,
    MoveHead,
    Refused,
    SetSuspend,
    check_preconditions,
)
from windrow.journal.labels import LabelSelector, LabelSet
from windrow.journal.spec import (
    SEQUENCED_LABEL,
    Flag,
    JournalSpec,
    Suspend,
    SuspendControl,
    SuspendLevel,
)
from windrow.journal.status import Status

REGISTERS = LabelSet.of({"owner": "one"})
MISMATCHED = LabelSelector.parse("owner=two")
PARTIAL = replace(SPEC, suspend=Suspend(SuspendLevel.PARTIAL, 10))


def check(
    spec: JournalSpec = SPEC, end: int = 50, index: IndexReady | None = None, **conditions: object
) -> Finding:
    asked = Conditions(journal=JOURNAL, **conditions)  # type: ignore[arg-type]
    ready = index or IndexReady(0, end)
    return check_preconditions(asked, spec, spool(20, end, REGISTERS), ready)


def test_an_append_without_conditions_is_accepted() -> None:
    assert check() == Accepted()


def test_registers_are_checked_before_anything_else() -> None:
    """1, though 2, 3 and 4 would fail as well."""
    suspended = replace(SPEC, suspend=Suspend(offset=90))
    finding = check(suspended, index=IndexReady(0, 80), check_registers=MISMATCHED, offset=7)
    assert finding == Refused(Status.REGISTER_MISMATCH)


def test_an_earlier_suspension_is_passed_before_the_index_is_compared() -> None:
    """2, though 3 would fail as well."""
    suspended = replace(SPEC, suspend=Suspend(offset=90))
    assert check(suspended, index=IndexReady(0, 80)) == MoveHead(90)


def test_a_larger_offset_in_the_index_needs_an_operator() -> None:
    """3: we risk double-writing an offset already committed by brokers that are cut off."""
    assert check(index=IndexReady(0, 80)) == Refused(Status.INDEX_HAS_GREATER_OFFSET)


def test_a_journal_that_cannot_be_written_is_exempt_from_the_index() -> None:
    """So a journal can be a read-only view of a store that another cluster writes."""
    read_only = replace(SPEC, flags=Flag.O_RDONLY)
    assert check(read_only, index=IndexReady(0, 80)) == Accepted()


@pytest.mark.parametrize("offset", [1, 49, 51])
def test_an_offset_other_than_the_write_head_is_wrong(offset: int) -> None:
    """4: it may also be used outside of recovery, for at-most-once writes."""
    assert check(offset=offset) == Refused(Status.WRONG_APPEND_OFFSET)


def test_the_offset_of_the_spool_is_wrong_if_the_index_is_larger() -> None:
    finding = check(offset=50, index=IndexReady(0, 80))
    assert finding == Refused(Status.WRONG_APPEND_OFFSET)


def test_an_offset_equal_to_the_write_head_is_accepted() -> None:
    assert check(offset=50) == Accepted()


def test_an_offset_equal_to_the_larger_index_resets_the_head() -> None:
    """5: the operator confirms that all previous brokers have exited or failed."""
    assert check(offset=80, index=IndexReady(0, 80)) == MoveHead(80)


@pytest.mark.parametrize(
    ("control", "expected"),
    [
        (SuspendControl.RESUME, SetSuspend(SuspendLevel.NONE, 10)),
        (SuspendControl.NO_RESUME, Refused(Status.SUSPENDED)),
        (SuspendControl.IF_FLUSHED, Refused(Status.SUSPENDED)),
        (SuspendControl.NOW, Refused(Status.SUSPENDED)),
        (SuspendControl.KEEP, Accepted()),
    ],
)
def test_a_partly_suspended_journal(control: SuspendControl, expected: Finding) -> None:
    assert check(PARTIAL, suspend=control) == expected


@pytest.mark.parametrize(
    ("control", "index", "expected"),
    [
        (SuspendControl.NOW, IndexReady(0, 50), SetSuspend(SuspendLevel.PARTIAL, 50)),
        (SuspendControl.IF_FLUSHED, IndexReady(0, 50), SetSuspend(SuspendLevel.PARTIAL, 50)),
        (SuspendControl.IF_FLUSHED, IndexReady(0, 50, is_flushed=False), Accepted()),
        (SuspendControl.IF_FLUSHED, IndexReady(0, 0), SetSuspend(SuspendLevel.FULL, 50)),
    ],
)
def test_a_journal_is_suspended_if_it_is_flushed_or_at_once(
    control: SuspendControl, index: IndexReady, expected: Finding
) -> None:
    assert check(suspend=control, index=index) == expected


def test_the_first_fragment_of_all_is_ended_by_the_next_write() -> None:
    """7: so that it is persisted early, and 3 has something to go by."""
    assert check(index=IndexReady(20, 50)) == Accepted(roll_to=50)


def test_a_sequenced_journal_that_lost_its_registers_refuses_who_checks_them() -> None:
    sequenced = replace(SPEC, labels=LabelSet.of({SEQUENCED_LABEL: "x"}))
    asked = Conditions(journal=JOURNAL, check_registers=MISMATCHED)
    finding = check_preconditions(asked, sequenced, spool(20, 50), IndexReady(0, 50))
    assert finding == Refused(Status.REGISTER_MISMATCH)
