"""Which dead letters may go back without overtaking anybody? Pure.

A key that was buried has let nothing pass since: its dead letters of that time are all that comes
next, so they may return in their order. Any other dead letter was passed by, and what passed it
cannot be called back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from windrow.relay.errors import NoSuchLetter, OutOfOrder


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A dead letter of a key: its own number, the record's, and when it was moved."""

    number: int
    record: int
    buried_at: datetime


def to_replay(
    key: str,
    letters: Sequence[DeadLetter],
    buried_since: datetime | None,
    start: int | None,
    out_of_order: bool,
) -> list[DeadLetter]:
    """The dead letters of a key that go back, in their order.

    Args:
        key: The key, for the message.
        letters: All of its dead letters, in the order in which they were stashed.
        buried_since: Since when the key is buried; None if it is not.
        start: The number of the first that is to go back; those before it stay.
        out_of_order: Also those that later records of the key have passed.

    Raises:
        NoSuchLetter: The one to start with is not among them.
        OutOfOrder: Some of them were passed by, and nobody said that this is right.
    """
    wanted = list(letters)
    if start is not None:
        places = [place for place, letter in enumerate(letters) if letter.number == start]
        if not places:
            raise NoSuchLetter(key, start)
        wanted = wanted[places[0] :]
    if out_of_order:
        return wanted
    in_time = [
        letter for letter in wanted if buried_since is not None and letter.buried_at >= buried_since
    ]
    if wanted and not in_time:
        raise OutOfOrder(f"dead letter {wanted[0].number} of key {key!r}")
    if start is not None and wanted != in_time:
        raise OutOfOrder(f"dead letter {start} of key {key!r}")
    return in_time
