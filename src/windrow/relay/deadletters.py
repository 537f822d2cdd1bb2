"""Held lanes and dead letters, and how a person moves them on.

Every verb is one transaction, may be repeated, and is written down. None of them touches a record
that a leader may have on its way: a held key has given all of its rows back.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from datetime import datetime

from windrow.relay.dead_order import DeadLetter, to_replay
from windrow.relay.desk import Act, Desk, Outcome
from windrow.relay.errors import NotBlocked, OutOfOrder
from windrow.relay.holds import way_out

QUERIES = "deadletters.sql"


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of the list: a lane that waits, or a dead letter. No payload."""

    kind: str
    """``held`` or ``buried`` for a key, ``dead`` for a letter."""
    id: int | None
    """The number of the dead letter."""
    record: int | None
    """The id of the record: the letter's, or the one at the head of the lane."""
    key: str | None
    topic: str | None
    attempts: int | None
    error: str | None
    since: datetime


@dataclass(frozen=True, slots=True)
class Letter:
    """A dead letter, whole. What it holds is in no log: neither in its repr."""

    id: int
    record: int
    created: datetime
    topic: str
    key: str | None
    value: bytes | None = field(repr=False)
    headers: tuple[tuple[str | None, str | None], ...] = field(repr=False)
    attempts: int
    error: str
    buried_at: datetime


# -- looking -------------------------------------------------------------------------------------


def list_entries(
    desk: Desk, *, key: str | None = None, topic: str | None = None, limit: int = 1_000
) -> list[Entry]:
    """What waits for a person: lanes first, then dead letters, the oldest first."""
    lanes = [
        Entry(reason, None, record, name, at_topic, attempts, note, since)
        for name, reason, note, since, record, at_topic, attempts in desk.read(
            "lanes", key=key, limit=limit
        )
        if topic is None or topic == at_topic
    ]
    letters = [Entry("dead", *row) for row in desk.read("dead", key=key, topic=topic, limit=limit)]
    return [*lanes, *letters][:limit]


def find_letter(desk: Desk, number: int) -> Letter | None:
    """A dead letter with all that is in it."""
    rows = desk.read("show_dead", dead=number)
    if not rows:
        return None
    (dead, record, created, topic, key, value, names, values, attempts, error, buried_at) = rows[0]
    # Unequal arrays may be the very reason why it is dead: show what there is.
    longest = max(len(names or ()), len(values or ()))
    headers = zip(_padded(names, longest), _padded(values, longest), strict=True)
    return Letter(
        dead, record, created, topic, key, value, tuple(headers), attempts, error, buried_at
    )


def _padded(texts: list[str | None] | None, length: int) -> list[str | None]:
    given = list(texts or ())
    return given + [None] * (length - len(given))


# -- keys ----------------------------------------------------------------------------------------


def retry_key(desk: Desk, key: str, *, dry_run: bool = False) -> Outcome:
    """Let a held key try its record again, as if for the first time.

    Raises:
        NotBlocked: It is buried or paused, which another command is for.
    """
    subject = f"key {key!r}"
    with desk.act(dry_run=dry_run) as act:
        if not _is_held(act, key):
            return Outcome("retry", subject, False, "it was not held")
        record = _head(act, key)
        act.count("forgive", key=key)
        act.count("release", key=key)
        return act.done("retry", subject, _record(record))


def skip_key(desk: Desk, key: str, *, record: int | None = None, dry_run: bool = False) -> Outcome:
    """Move the record at the head of a held key to the dead letters, and let the rest go on.

    Args:
        desk: Where it is done.
        key: The key.
        record: Do it only while this record is at the head, so that a repetition skips no other.
        dry_run: Undo it all in the end.

    Raises:
        NotBlocked: It is buried or paused, which another command is for.
    """
    subject = f"key {key!r}"
    with desk.act(dry_run=dry_run) as act:
        if not _is_held(act, key):
            return Outcome("skip", subject, False, "it was not held")
        head = _head(act, key)
        if record is not None and head != record:
            return Outcome("skip", subject, False, f"not record {record}, but {_record(head)}")
        rows = [] if head is None else act.rows("bury_head", record=head)
        act.count("release", key=key)
        became = f", now dead letter {rows[0][0]}" if rows else ""
        return act.done("skip", subject, _record(head) + became)


def discard_key(desk: Desk, key: str, *, dry_run: bool = False) -> Outcome:
    """Delete what a key waits with, for good, and let it go on.

    Of a held key that is the record at its head; of a buried one, its dead letters since then.

    Raises:
        NotBlocked: It is paused, which another command is for.
    """
    subject = f"key {key!r}"
    with desk.act(dry_run=dry_run) as act:
        reason, since = _hold_of(act, key)
        if reason == "paused":
            raise NotBlocked(subject, "paused, not held", way_out(key, "paused"))
        if reason is None:
            return Outcome("discard", subject, False, "it was neither held nor buried")
        if reason == "held":
            head = _head(act, key)
            act.count("discard_head", record=head)
            detail = _record(head)
        else:
            letters = [
                letter for letter in _letters(act, key) if since and letter.buried_at >= since
            ]
            act.count("discard_dead", dead=[letter.number for letter in letters])
            detail = f"{len(letters)} dead letters"
        act.count("release", key=key)
        return act.done("discard", subject, detail)


def replay_key(
    desk: Desk,
    key: str,
    *,
    start: int | None = None,
    out_of_order: bool = False,
    dry_run: bool = False,
) -> Outcome:
    """Put the dead letters of a key back into the outbox, in their order, and let it go on.

    What was stashed since follows them: it is moved behind them first.

    Raises:
        NotBlocked: The key is held or paused, and would not go on.
        NoSuchLetter: The one to start with is not of this key.
        OutOfOrder: Later records of the key may have been delivered.
        Blocked: A service holds the outbox with an id drawn and nothing committed.
    """
    subject = f"key {key!r}"
    with desk.act(dry_run=dry_run) as act:
        act.rows("lock_outbox")
        reason, since = _hold_of(act, key)
        if reason in ("held", "paused"):
            raise NotBlocked(subject, f"{reason}, not buried", way_out(key, reason))
        if reason == "buried":
            act.count("bury_rest", key=key)
        letters = to_replay(key, _letters(act, key), since, start, out_of_order)
        ids = act.rows("put_back", dead=[letter.number for letter in letters])
        act.count("release", key=key)
        if not letters and reason is None:
            return Outcome("replay", subject, False, "it has no dead letters")
        span = f" as {ids[0][0]} to {ids[-1][0]}" if ids else ""
        return act.done("replay", subject, f"{len(letters)} dead letters{span}")


# -- dead letters --------------------------------------------------------------------------------


def retry_letter(
    desk: Desk, number: int, *, out_of_order: bool = False, dry_run: bool = False
) -> Outcome:
    """Put one dead letter back, behind all that waits.

    Raises:
        NotBlocked: Its whole key is buried, which another command is for.
        OutOfOrder: Later records of its key may have been delivered.
    """
    subject = f"dead letter {number}"
    with desk.act(dry_run=dry_run) as act:
        rows = act.rows("lock_dead", dead=number)
        if not rows:
            return Outcome("retry", subject, False, "there is none of that number")
        _, record, key, topic = rows[0]
        if key is not None:
            reason, _ = _hold_of(act, key)
            if reason == "buried":
                raise NotBlocked(f"key {key!r}", "buried as a whole", way_out(key, reason))
            if not out_of_order:
                raise OutOfOrder(f"{subject} of key {key!r}")
        ((back,),) = act.rows("put_back", dead=[number])
        return act.done("retry", subject, f"record {record} of topic {topic}, now record {back}")


def discard_letter(desk: Desk, number: int, *, dry_run: bool = False) -> Outcome:
    """Delete a dead letter for good."""
    subject = f"dead letter {number}"
    with desk.act(dry_run=dry_run) as act:
        rows = act.rows("lock_dead", dead=number)
        if not rows:
            return Outcome("discard", subject, False, "there is none of that number")
        _, record, key, topic = rows[0]
        act.count("discard_dead", dead=[number])
        return act.done("discard", subject, f"record {record} of topic {topic}, key {key!r}")


# -- within --------------------------------------------------------------------------------------


def _hold_of(act: Act, key: str) -> tuple[str | None, datetime | None]:
    rows = act.rows("lock_hold", key=key)
    return (rows[0][0], rows[0][1]) if rows else (None, None)


def _is_held(act: Act, key: str) -> bool:
    reason, _ = _hold_of(act, key)
    if reason == "paused":
        raise NotBlocked(f"key {key!r}", "paused, not held", way_out(key, reason))
    if reason == "buried":
        command = f"{way_out(key, reason)}, or: windrow deadletter discard --key {shlex.quote(key)}"
        raise NotBlocked(f"key {key!r}", "buried as a whole", command)
    return reason == "held"


def _head(act: Act, key: str) -> int | None:
    rows = act.rows("head", key=key)
    return rows[0][0] if rows else None


def _letters(act: Act, key: str) -> list[DeadLetter]:
    return [DeadLetter(*row) for row in act.rows("lock_dead_of_key", key=key)]


def _record(record: int | None) -> str:
    return "no record is left of it" if record is None else f"record {record}"
