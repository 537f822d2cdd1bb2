"""Which failures are worth another try, and after how long. Pure.

The question differs by who asks. A single append is tried again only if the last try certainly
changed nothing. The append service would rather write twice than not at all. A reader loses nothing
by trying, and stops only where trying cannot help.
"""

from __future__ import annotations

from windrow.errors import Unreachable, UsageError
from windrow.journal.client.errors import AppendNotWritten, CallFailed, OffsetJump
from windrow.journal.errors import AppendUnknown, JournalStatusError
from windrow.journal.status import Status

_BACKOFF = (0.05, 0.05, 0.1, 0.1)
_LONGEST = 1.0
"""By so much a client is late for a journal that has a primary again, and twice that if a try meets
the dead one. Gazette's clients pause for 5 s: the end of a 2 s lease was found after 12."""

PASSING = frozenset(
    {
        Status.NO_JOURNAL_PRIMARY_BROKER,
        Status.NOT_JOURNAL_PRIMARY_BROKER,
        Status.INSUFFICIENT_JOURNAL_BROKERS,
        Status.NOT_JOURNAL_BROKER,
    }
)
"""The cluster is between two routes: nothing was written, and soon it will be possible."""

FINAL_FOR_APPENDS = frozenset(
    {
        Status.JOURNAL_NOT_FOUND,
        Status.NOT_ALLOWED,
        Status.WRONG_APPEND_OFFSET,
        Status.INDEX_HAS_GREATER_OFFSET,
        Status.REGISTER_MISMATCH,
        Status.FRAGMENT_STORE_UNHEALTHY,
    }
)
"""No repetition of the same append can succeed before a person or another writer acts."""

FINAL_FOR_READS = frozenset({Status.OFFSET_NOT_YET_AVAILABLE, Status.SUSPENDED, Status.NOT_ALLOWED})

FINAL_CODES = frozenset(
    {"INVALID_ARGUMENT", "PERMISSION_DENIED", "UNAUTHENTICATED", "UNIMPLEMENTED"}
)
"""Ends of a call that say the call itself was refused, whatever the brokers' state."""

NOT_FOUND_RETRIES = 4
"""A journal just made may not be known to every broker yet."""


def backoff(attempt: int) -> float:
    """How long to wait after this many attempts, counted from 0."""
    return _BACKOFF[attempt] if attempt < len(_BACKOFF) else _LONGEST


def is_refused(code: str) -> bool:
    """Whether a call that ended with this code certainly changed nothing."""
    return code in FINAL_CODES


def is_append_retried(error: BaseException) -> bool:
    """Whether an append can be sent again without a chance of writing it twice."""
    if isinstance(error, JournalStatusError):
        return error.status in PASSING
    if isinstance(error, AppendNotWritten):
        return error.is_passing
    return isinstance(error, Unreachable)


def is_service_append_retried(error: BaseException) -> bool:
    """Whether the append service, which may write twice, sends it again."""
    if isinstance(error, JournalStatusError):
        return error.status not in FINAL_FOR_APPENDS
    if isinstance(error, AppendNotWritten):
        return error.is_passing
    if isinstance(error, CallFailed):
        return not is_refused(error.code)
    return isinstance(error, Unreachable | AppendUnknown)


def is_read_retried(error: BaseException, attempt: int) -> bool:
    """Whether a reader goes on after this many reads in a row have failed before."""
    if isinstance(error, JournalStatusError):
        if error.status is Status.JOURNAL_NOT_FOUND:
            return attempt < NOT_FOUND_RETRIES
        return error.status not in FINAL_FOR_READS
    if isinstance(error, CallFailed):
        return not is_refused(error.code)
    return not isinstance(error, UsageError | OffsetJump)
