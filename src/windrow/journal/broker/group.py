"""What becomes of each append of a group? Conditions and registers, evaluated in sequence. Pure.

Small appends that wait for the same pipeline are committed together: one content frame and one
proposal for all. Each is judged as if it had come right behind the one before: it sees that one's
registers and write head, and is answered with its own span and sum.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from windrow.journal.fragment import ZERO_SUM, Fragment
from windrow.journal.labels import EMPTY, LabelSelector, LabelSet
from windrow.journal.spec import Codec, SuspendControl
from windrow.journal.status import Status

REGISTERS_NEED_BYTES = "register modification requires non-empty Append"

BARRIER_ONLY = frozenset({SuspendControl.IF_FLUSHED, SuspendControl.NOW, SuspendControl.KEEP})
"""Appends which leave a suspension alone or ask for one bring no content."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What an append asks for besides its content."""

    journal: str
    offset: int = 0
    """The write head that it expects; 0 expects none."""
    check_registers: LabelSelector | None = None
    union_registers: LabelSet = EMPTY
    subtract_registers: LabelSet = EMPTY
    suspend: SuspendControl = SuspendControl.RESUME
    min_revision: int = 0
    may_proxy: bool = True

    @property
    def changes_registers(self) -> bool:
        """Whether it asks for other registers, whatever they are now."""
        return bool(self.union_registers or self.subtract_registers)

    def are_met_by(self, registers: LabelSet) -> bool:
        """Whether the registers are what it expects; none at all are what everybody expects."""
        return (
            self.check_registers is None or not registers or self.check_registers.matches(registers)
        )

    def registers_after(self, registers: LabelSet) -> LabelSet:
        """The registers once it has committed."""
        if not self.changes_registers:
            return registers
        return self.union_registers.union(registers.subtract(self.subtract_registers))


@dataclass(frozen=True, slots=True)
class Member:
    """An append that has been received as a whole."""

    conditions: Conditions
    content: bytes
    chunks: int = 0
    """Messages it came in, its commit mark included."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one append is answered, if its group commits."""

    status: Status
    registers: LabelSet
    commit: Fragment | None = None
    error: str = ""
    """Why it fails for a reason that has no status."""
    total_chunks: int = 0

    @property
    def commits(self) -> bool:
        """Whether it succeeds."""
        return self.status is Status.OK and not self.error


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """What a group commits, and what each member is answered."""

    content: bytes
    registers: LabelSet
    verdicts: tuple[Verdict, ...]


@dataclass(frozen=True, slots=True)
class WriteHead:
    """Where the next byte goes, and what is known of the journal there."""

    journal: str
    offset: int
    registers: LabelSet
    codec: Codec
    is_writable: bool = True
    is_sequenced: bool = False
    indexed_end: int = 0
    """The furthest end in the index, which a journal that cannot be written may lag behind."""


def evaluate(members: Sequence[Member], head: WriteHead) -> GroupPlan:
    """Judge the members of a group, in order."""
    offset, registers = head.offset, head.registers
    contents: list[bytes] = []
    verdicts: list[Verdict] = []
    for member in members:
        verdict = _judge(member, head, offset, registers)
        verdicts.append(verdict)
        if verdict.commits:
            contents.append(member.content)
            offset += len(member.content)
            registers = verdict.registers
    return GroupPlan(b"".join(contents), registers, tuple(verdicts))


def registers_refuse(
    conditions: Conditions, registers: LabelSet, offset: int, is_sequenced: bool
) -> bool:
    """Whether an append must not go ahead because of the registers.

    A journal whose writers count on its registers, and which has bytes but no registers, has lost
    them; an empty set would match every expectation and let old batches in again.
    """
    if is_sequenced and conditions.check_registers is not None and offset > 0 and not registers:
        return True
    return not conditions.are_met_by(registers)


def _judge(member: Member, head: WriteHead, offset: int, registers: LabelSet) -> Verdict:
    conditions = member.conditions
    furthest = max(offset, head.indexed_end)
    if registers_refuse(conditions, registers, offset, head.is_sequenced):
        return Verdict(Status.REGISTER_MISMATCH, registers)
    if offset != furthest and head.is_writable and conditions.offset == 0:
        return Verdict(Status.INDEX_HAS_GREATER_OFFSET, registers)
    if conditions.offset not in (0, furthest):
        return Verdict(Status.WRONG_APPEND_OFFSET, registers)
    if member.content and (not head.is_writable or conditions.suspend in BARRIER_ONLY):
        return Verdict(Status.NOT_ALLOWED, registers)
    if not member.content and conditions.changes_registers:
        return Verdict(Status.OK, registers, error=REGISTERS_NEED_BYTES)
    after = conditions.registers_after(registers) if member.content else registers
    commit = client_fragment(head, offset, member.content)
    return Verdict(Status.OK, after, commit, total_chunks=member.chunks)


def client_fragment(head: WriteHead, begin: int, content: bytes) -> Fragment:
    """A client's own span and the sum of just its bytes."""
    digest = hashlib.sha1(content, usedforsecurity=False).digest() if content else ZERO_SUM
    return Fragment(head.journal, begin, begin + len(content), digest, head.codec)
