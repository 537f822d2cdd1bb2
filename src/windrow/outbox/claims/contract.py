"""What a relay that shares its outbox with others asks of it: claims, and ways to end them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Claim:
    """A row that is ours until its lease ends.

    Attributes:
        id: Of the row.
        message_id: What receivers know the message by: the same on each try, in each process.
        topic: What kind of message it is; it decides the destination.
        key: What it is about.
        value: Its body; None is a tombstone.
        headers: In the order in which they were stashed; one without a value has an empty one.
        created: When it was stashed.
        attempts: How many tries were counted before this one.
        is_orphan: Whether whoever had it before ended without a word: that try is among those.
    """

    id: int
    message_id: str
    topic: str
    key: str | None
    value: bytes | None
    headers: tuple[tuple[str, str], ...]
    created: datetime
    attempts: int
    is_orphan: bool = False


@dataclass(frozen=True, slots=True)
class Topics:
    """Which rows may be claimed: those of ``names``, or all others."""

    names: tuple[str, ...] = ()
    are_wanted: bool = False


@dataclass(frozen=True, slots=True)
class Suspects:
    """How orphans are claimed that may be what ended their relays.

    Attributes:
        attempts: From so many counted tries on an orphan is one.
        limit: How many of them may be claimed now; the others wait.
    """

    attempts: int
    limit: int


NOBODY = Suspects(attempts=1 << 30, limit=0)
"""Every orphan is claimed like any other row."""


@dataclass(frozen=True, slots=True)
class Retry:
    """A row to be tried again."""

    id: int
    delay: float
    reason: str
    counts: bool
    """Whether the try counts as an attempt."""


@dataclass(frozen=True, slots=True)
class Burial:
    """A row that becomes a dead letter."""

    id: int
    reason: str
    counts: bool = True
    """Whether the try that ended it counts as an attempt."""


class ClaimStore(Protocol):
    """The relay's side of an outbox that several relays share. Blocking; used by one thread.

    Time is the database's own. A row is due when nobody holds it and its delay is over, or when the
    lease of whoever held it has ended. Everything that ends a claim is fenced by its token.

    A row whose lease ended under another token is an orphan, and its claim counts the try that
    nobody ended: so a message that ends its relays has a number of tries like any other.
    """

    def open(self) -> None:
        """Connect and look at the schema."""

    def claim(
        self,
        token: UUID,
        limit: int,
        lease: float,
        topics: Topics,
        suspects: Suspects = NOBODY,
    ) -> list[Claim]:
        """Lease due rows, the oldest first; others' claims are stepped over, not waited for."""

    def finish(
        self,
        token: UUID,
        delivered: Sequence[int],
        retries: Sequence[Retry] = (),
        burials: Sequence[Burial] = (),
    ) -> set[int]:
        """End claims in one transaction; returns the rows that were no longer ours."""

    def renew(self, token: UUID, ids: Sequence[int], lease: float) -> set[int]:
        """Hold on to rows for longer; returns those that were no longer ours."""

    def release(self, token: UUID, ids: Sequence[int]) -> None:
        """Give rows back at once, as if they had not been claimed."""

    def close(self) -> None:
        """Let go of the connection."""
