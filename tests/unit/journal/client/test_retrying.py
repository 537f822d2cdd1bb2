from __future__ import annotations

import asyncio

import pytest

from windrow.errors import Unreachable
from windrow.journal.client.errors import (
    AppendNotWritten,
    CallFailed,
    DependencyFailed,
    FragmentTorn,
    FragmentUnreachable,
    OffsetJump,
)
from windrow.journal.client.retrying import (
    backoff,
    is_append_retried,
    is_read_retried,
    is_service_append_retried,
)
from windrow.journal.errors import AppendUnknown, InvalidField, status_error
from windrow.journal.status import Status

UNREACHABLE = Unreachable("broker", "http://host:1", "refused")
UNKNOWN = AppendUnknown("a/journal", "lost")
BROKEN = CallFailed("Append", "http://host:1", "UNKNOWN", "unexpected EOF")
NOT_WRITTEN = AppendNotWritten("Append", "http://host:1", "UNKNOWN", "no disk", is_passing=True)
NEVER_WRITTEN = AppendNotWritten("Append", "http://host:1", "UNKNOWN", "EOF", is_passing=False)
REFUSED = CallFailed("Append", "http://host:1", "UNAUTHENTICATED", "no token")


def statuses(retried: set[Status]) -> list[tuple[BaseException, bool]]:
    return [
        (status_error(status, "a/journal"), status in retried)
        for status in Status
        if status is not Status.OK
    ]


PASSING = {
    Status.NO_JOURNAL_PRIMARY_BROKER,
    Status.NOT_JOURNAL_PRIMARY_BROKER,
    Status.INSUFFICIENT_JOURNAL_BROKERS,
    Status.NOT_JOURNAL_BROKER,
}
SERVICE_FINAL = {
    Status.JOURNAL_NOT_FOUND,
    Status.NOT_ALLOWED,
    Status.WRONG_APPEND_OFFSET,
    Status.INDEX_HAS_GREATER_OFFSET,
    Status.REGISTER_MISMATCH,
    Status.FRAGMENT_STORE_UNHEALTHY,
}


def test_back_off_grows_to_a_second() -> None:
    waits = [backoff(attempt) for attempt in range(8)]
    assert waits == [0.05, 0.05, 0.1, 0.1, 1.0, 1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("error", "retried"),
    [
        *statuses(PASSING),
        (UNREACHABLE, True),
        (NOT_WRITTEN, True),
        (NEVER_WRITTEN, False),
        (UNKNOWN, False),
        (BROKEN, False),
        (REFUSED, False),
        (InvalidField("Journal", "bad"), False),
        (asyncio.CancelledError(), False),
    ],
    ids=str,
)
def test_an_append_is_sent_again_only_if_it_cannot_be_there(
    error: BaseException, retried: bool
) -> None:
    assert is_append_retried(error) is retried


@pytest.mark.parametrize(
    ("error", "retried"),
    [
        *statuses(set(Status) - SERVICE_FINAL),
        (UNREACHABLE, True),
        (NOT_WRITTEN, True),
        (NEVER_WRITTEN, False),
        (UNKNOWN, True),
        (BROKEN, True),
        (REFUSED, False),
        (DependencyFailed("a", "b", "c"), False),
        (InvalidField("Journal", "bad"), False),
        (asyncio.CancelledError(), False),
    ],
    ids=str,
)
def test_the_service_would_rather_write_twice_than_not_at_all(
    error: BaseException, retried: bool
) -> None:
    assert is_service_append_retried(error) is retried


@pytest.mark.parametrize(
    ("error", "retried"),
    [
        *statuses(
            set(Status) - {Status.OFFSET_NOT_YET_AVAILABLE, Status.SUSPENDED, Status.NOT_ALLOWED}
        ),
        (UNREACHABLE, True),
        (BROKEN, True),
        (REFUSED, False),
        (FragmentTorn("file:///x", 10, 9), True),
        (FragmentUnreachable("file:///x", "no root"), False),
        (OffsetJump("a/journal", 1, 2), False),
    ],
    ids=str,
)
def test_a_reader_goes_on_unless_trying_cannot_help(error: BaseException, retried: bool) -> None:
    assert is_read_retried(error, attempt=0) is retried


@pytest.mark.parametrize(("attempt", "retried"), [(0, True), (3, True), (4, False)])
def test_a_journal_that_is_not_found_may_be_too_new_for_a_while(
    attempt: int, retried: bool
) -> None:
    error = status_error(Status.JOURNAL_NOT_FOUND, "a/journal")
    assert is_read_retried(error, attempt) is retried
