"""The errors of journals: one per status, and they survive a worker's boundary."""

from __future__ import annotations

import pickle

import pytest

from windrow.errors import OutcomeUnknown, UsageError
from windrow.journal.errors import (
    AppendUnknown,
    InvalidField,
    JournalStatusError,
    OffsetNotYetAvailable,
    RegisterMismatch,
    field,
    status_error,
)
from windrow.journal.labels import LabelSet
from windrow.journal.status import Status


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.OK])
def test_every_status_but_ok_has_an_error_that_names_journal_and_status(status: Status) -> None:
    error = status_error(status, "a/journal", "seen at 7")
    assert error.status is status
    assert str(error).startswith("journal 'a/journal': ")
    assert str(error).endswith(f"(seen at 7) [{status.name}]")


@pytest.mark.parametrize(
    "error",
    [
        InvalidField("Journal", "cannot be"),
        RegisterMismatch("a/journal", "", LabelSet.of({"aa": "1"})),
        OffsetNotYetAvailable("a/journal", "", write_head=7),
        AppendUnknown("a/journal", "connection reset"),
        status_error(Status.WRONG_ROUTE, "a/journal"),
    ],
)
def test_errors_survive_pickling_with_their_facts(error: Exception) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))


def test_an_invalid_field_is_named_by_the_way_to_it() -> None:
    with pytest.raises(InvalidField) as refused, field("Spec"), field("Labels[1]"):
        raise InvalidField("", "cannot be")
    assert str(refused.value) == "Spec.Labels[1]: cannot be"
    assert isinstance(refused.value, UsageError)


def test_a_lost_answer_is_told_from_a_failure() -> None:
    error = AppendUnknown("a/journal", "connection reset")
    assert isinstance(error, OutcomeUnknown)
    assert not isinstance(error, JournalStatusError)
    assert "may have committed or not (connection reset)" in str(error)
