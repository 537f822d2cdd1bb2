"""Make a relay, a topic or a key wait, and let it go on.

What the leader has taken already still goes: a pause keeps the rest in the outbox.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Literal

from windrow.relay.desk import Desk, Outcome
from windrow.relay.errors import NotBlocked

QUERIES = "holds.sql"


@dataclass(frozen=True, slots=True)
class Subject:
    """What waits: everything, a topic or a key."""

    what: Literal["relay", "topic", "key"] = "relay"
    name: str = ""

    def __str__(self) -> str:
        return "the relay" if self.what == "relay" else f"{self.what} {self.name!r}"


def way_out(key: str, reason: str) -> str:
    """The command that moves a key on which waits for that reason."""
    name = shlex.quote(key)
    return {
        "held": f"windrow deadletter retry --key {name}",
        "buried": f"windrow deadletter replay {name}",
        "paused": f"windrow relay resume --key {name}",
    }[reason]


def pause(desk: Desk, subject: Subject, note: str = "", *, dry_run: bool = False) -> Outcome:
    """Keep it in the outbox from the next read on.

    Raises:
        NotBlocked: The key waits for a person already, and would go on past the pause.
    """
    with desk.act(dry_run=dry_run) as act:
        reason = _reason(act.rows("held", what=subject.what, name=subject.name))
        if reason == "paused":
            return Outcome("pause", str(subject), False, "it was paused already")
        if reason is not None:
            raise NotBlocked(str(subject), f"{reason} already", way_out(subject.name, reason))
        act.count("pause", what=subject.what, name=subject.name, note=note or None)
        return act.done("pause", str(subject), note or "by hand")


def resume(desk: Desk, subject: Subject, *, dry_run: bool = False) -> Outcome:
    """Let it go on.

    Raises:
        NotBlocked: It is not paused: the key waits for a person to decide about a record.
    """
    with desk.act(dry_run=dry_run) as act:
        reason = _reason(act.rows("held", what=subject.what, name=subject.name))
        if reason is None:
            return Outcome("resume", str(subject), False, "it was not paused")
        if reason != "paused":
            state = f"{reason}, not paused"
            raise NotBlocked(str(subject), state, way_out(subject.name, reason))
        act.count("resume", what=subject.what, name=subject.name)
        return act.done("resume", str(subject), _left(act.rows("still_paused")))


def _reason(rows: list[tuple[str]]) -> str | None:
    return rows[0][0] if rows else None


def _left(rows: list[tuple[str, str]]) -> str:
    names = [str(Subject(what, name)) for what, name in rows]  # type: ignore[arg-type]  # checked there
    return f"still paused: {', '.join(names)}" if names else "nothing else is paused"
