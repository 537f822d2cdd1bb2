"""May an append go ahead, given where the journal stands? Pure; the order of checks is a promise.

With M the furthest end known, be it of the spool or of the index:

1. The registers are not what the append expects: REGISTER_MISMATCH.
2. The spool ends before the offset of an earlier suspension: move the head there.
3. The index reaches beyond the spool and no offset was given: INDEX_HAS_GREATER_OFFSET. Bytes were
   lost, or are kept by brokers that are cut off; writing on would risk writing an offset twice.
   A journal that cannot be written is exempt, as it only ever sees barriers.
4. An offset was given which is not M: WRONG_APPEND_OFFSET.
5. An offset was given which is M, and the spool ends before it: move the head there (reset-head).
6. Suspension: resume, refuse, or suspend, as the append says.
7. The spool holds the first fragment of all: end it, so that it is persisted early and check 3
   has something to go by.
"""

from __future__ import annotations

from dataclasses import dataclass

from windrow.journal.broker.append_events import IndexReady, SpoolState
from windrow.journal.broker.group import Conditions, registers_refuse
from windrow.journal.spec import JournalSpec, SuspendControl, SuspendLevel
from windrow.journal.status import Status


@dataclass(frozen=True, slots=True)
class Accepted:
    """The append may stream its content."""

    roll_to: int = 0


@dataclass(frozen=True, slots=True)
class Refused:
    """The append is answered with a status."""

    status: Status
    store_error: str = ""


@dataclass(frozen=True, slots=True)
class MoveHead:
    """The members first have to begin anew at an offset."""

    offset: int


@dataclass(frozen=True, slots=True)
class SetSuspend:
    """The journal's suspension first has to be changed."""

    level: SuspendLevel
    offset: int


Finding = Accepted | Refused | MoveHead | SetSuspend


def check_preconditions(
    conditions: Conditions, spec: JournalSpec, spool: SpoolState, index: IndexReady
) -> Finding:
    """The first check that does not pass, or that all did."""
    if index.store_error:
        return Refused(Status.FRAGMENT_STORE_UNHEALTHY, index.store_error)
    end, furthest = spool.fragment.end, max(spool.fragment.end, index.end)
    # 1.
    if registers_refuse(conditions, spool.registers, end, spec.is_sequenced):
        return Refused(Status.REGISTER_MISMATCH)
    # 2.
    if end < spec.suspend.offset:
        return MoveHead(spec.suspend.offset)
    # 3.
    if end != furthest and conditions.offset == 0 and spec.writable:
        return Refused(Status.INDEX_HAS_GREATER_OFFSET)
    # 4.
    if conditions.offset not in (0, furthest):
        return Refused(Status.WRONG_APPEND_OFFSET)
    # 5.
    if conditions.offset != 0 and end != furthest:
        return MoveHead(furthest)
    # 6.
    if (suspension := _check_suspend(conditions.suspend, spec, end, index)) is not None:
        return suspension
    # 7.
    is_first = not spool.fragment.is_empty and spool.fragment.begin == index.begin
    return Accepted(roll_to=end if is_first else 0)


def _check_suspend(
    control: SuspendControl, spec: JournalSpec, end: int, index: IndexReady
) -> Finding | None:
    is_suspended = spec.suspend.level is not SuspendLevel.NONE
    match control:
        case SuspendControl.RESUME:
            return SetSuspend(SuspendLevel.NONE, spec.suspend.offset) if is_suspended else None
        case SuspendControl.NO_RESUME:
            return Refused(Status.SUSPENDED) if is_suspended else None
        case SuspendControl.KEEP:
            return None
    if index.begin == index.end:
        return SetSuspend(SuspendLevel.FULL, end)
    if is_suspended:
        return Refused(Status.SUSPENDED)
    if control is SuspendControl.NOW or index.is_flushed:
        return SetSuspend(SuspendLevel.PARTIAL, end)
    return None
