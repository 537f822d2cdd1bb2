"""Appends that wait for a pipeline, and how its owner takes them along."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from windrow.journal.broker.group import Conditions, Member, Verdict
from windrow.journal.broker.inbox import Inbox
from windrow.journal.broker.signals import Signal
from windrow.journal.not_written import FailureKind
from windrow.journal.spec import SuspendControl

if TYPE_CHECKING:
    from windrow.journal.broker.ports import Resolution
    from windrow.journal.broker.replica import Replica

MAX_GROUP = 256
MAX_GROUP_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an append ended at this broker."""

    resolution: Resolution | None
    verdict: Verdict | None
    """None if the primary has to be asked instead."""
    error: str = ""
    store_error: str = ""
    delayed_chunks: int = 0
    failure: FailureKind = FailureKind.UNKNOWN
    """What is known of the error, if there is one."""


class PendingAppend:
    """An append on its way to a pipeline."""

    def __init__(self, conditions: Conditions, inbox: Inbox) -> None:
        self.conditions, self.inbox = conditions, inbox
        self.taken = Signal()
        """Set when the owner of the pipeline commits it together with its own."""
        self.outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

    @property
    def may_join(self) -> bool:
        """Whether it can be committed together with others."""
        is_plain = self.conditions.suspend is SuspendControl.RESUME
        return self.inbox.is_whole and is_plain and not self.inbox.gone.is_set()

    def as_member(self) -> Member:
        """The append as a value."""
        return self.inbox.as_member(self.conditions)

    def answer(self, outcome: Outcome) -> None:
        """Tell it how it ended."""
        if not self.outcome.done():
            self.outcome.set_result(outcome)


def take_group(replica: Replica, own: PendingAppend) -> list[tuple[PendingAppend, Member]]:
    """Our own append, and all that wait for the same pipeline and fit in."""
    member = own.as_member()
    group, size = [(own, member)], len(member.content)
    if not own.may_join:
        return group
    while replica.waiting and len(group) < MAX_GROUP:
        pending = replica.waiting[0]
        if pending.may_join and not pending.taken.is_set():
            member = pending.as_member()
            size += len(member.content)
            if size > MAX_GROUP_BYTES:
                break
            pending.taken.set()
            group.append((pending, member))
        replica.waiting.popleft()
    return group
