"""Do the members of a route agree on where a journal stands, and if not, where shall it? Pure.

Two rules, by what the spools are worth:

*Memory* (``decide_furthest``): a spool dies with its broker, so whoever still has one has what was
acknowledged, and the furthest end is adopted. Bytes nobody acknowledged may come to light so.

*Durable* (``decide_lowest``): a byte was acknowledged only when every member of the head's term had
it on disk. So nothing acknowledged lies above the lowest end among the members that count, and what
lies above was acknowledged to nobody: it is given up rather than taken on one member's word (its
disk may be the only one that has it).

While a member of the head is away, its end may be the lowest, so that some of what the others hold
may have been acknowledged to nobody. It cannot be told from the rest and is kept; but it is copied
to all who come new before it counts (``Copy``), so that it does not depend on one disk.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from windrow.journal.broker.head import NO_TERMS, Head, Terms, counts
from windrow.journal.fragment import Fragment
from windrow.journal.labels import EMPTY, LabelSet
from windrow.journal.spec import Route
from windrow.journal.status import Status


@dataclass(frozen=True, slots=True)
class Answer:
    """What one peer answered to a synchronising proposal."""

    member: str
    status: Status
    fragment: Fragment | None = None
    registers: LabelSet = EMPTY
    route: Route = Route.NONE
    """Of a peer that knows another route: which, and as of when."""
    revision: int = 0
    terms: Terms = NO_TERMS
    acknowledged_end: int = 0


@dataclass(frozen=True, slots=True)
class Standing:
    """What the primary itself has."""

    member: str
    fragment: Fragment
    registers: LabelSet
    terms: Terms = NO_TERMS
    acknowledged_end: int = 0
    """Everything below it is known to be acknowledged, and so on every member of the head."""


@dataclass(frozen=True, slots=True)
class Agreed:
    """Every member has the same fragment and registers."""


@dataclass(frozen=True, slots=True)
class Copy:
    """What one member has, and others are to have before it counts."""

    donor: str
    to: tuple[str, ...]
    begin: int
    end: int
    registers: LabelSet
    """At ``end``."""


@dataclass(frozen=True, slots=True)
class MoveTo:
    """Every member shall begin an empty fragment at ``end``."""

    end: int
    registers: LabelSet | None
    """To be adopted by all; None leaves each as it is."""
    copy: Copy | None = None
    """To be done first."""


@dataclass(frozen=True, slots=True)
class ReadThrough:
    """A peer knows a later route."""

    revision: int


@dataclass(frozen=True, slots=True)
class NoMemberOfHead:
    """Nobody present can say what the head's term holds: only an operator can go on."""

    head: Head


@dataclass(frozen=True, slots=True)
class Disagreed:
    """An answer that no rule reconciles."""

    reason: str


Decision = Agreed | MoveTo | ReadThrough | NoMemberOfHead | Disagreed


def decide_furthest(
    route: Route, revision: int, own: Standing, answers: Sequence[Answer]
) -> Decision:
    """The rule of memory spools: adopt the furthest end."""
    if (routed := _later_route(route, revision, answers)) is not None:
        return routed
    target: MoveTo | None = None
    for answer in answers:
        if answer.status is Status.OK:
            continue
        fragment = answer.fragment
        if answer.status is not Status.PROPOSAL_MISMATCH or fragment is None:
            return Disagreed(_refusal(answer))
        if fragment.end > max(own.fragment.end, target.end if target else 0):
            target = MoveTo(fragment.end, answer.registers)
        elif fragment.end == own.fragment.end and fragment.is_empty:
            target = target or MoveTo(own.fragment.end, None)
        elif fragment.end <= own.fragment.end:
            return Disagreed(_refusal(answer))
    return target or Agreed()


def decide_lowest(
    route: Route,
    revision: int,
    head: Head | None,
    own: Standing,
    answers: Sequence[Answer],
    at_least: int = 0,
) -> Decision:
    """The rule of durable spools: go back to the lowest end among those that count.

    Args:
        route: What the primary believes.
        revision: As of when.
        head: The journal's head as of the same revision.
        own: The primary's own spool.
        answers: One of each peer.
        at_least: An offset below which nothing may be written, whatever the spools say.
    """
    if (routed := _later_route(route, revision, answers)) is not None:
        return routed
    for answer in answers:
        if answer.status not in (Status.OK, Status.PROPOSAL_MISMATCH) or answer.fragment is None:
            return Disagreed(_refusal(answer))
    if head is not None and head.is_closed:
        return MoveTo(max(head.end, at_least), head.registers)
    standings = [own, *(_standing(answer) for answer in answers)]
    present = [one for one in standings if counts(head, one.member, one.terms)]
    if not present:
        assert head is not None
        return NoMemberOfHead(head)
    lowest = min(present, key=lambda one: one.fragment.end)
    # Equal sums say equal bytes, so one that counts vouches for those that are the same as it.
    is_agreed = all(answer.status is Status.OK for answer in answers)
    if is_agreed and at_least <= lowest.fragment.end:
        return Agreed()
    copy = _copy(head, lowest, standings, present) if head else None
    return MoveTo(max(lowest.fragment.end, at_least), lowest.registers, copy)


def _copy(
    head: Head, lowest: Standing, standings: Sequence[Standing], present: Sequence[Standing]
) -> Copy | None:
    """What has to be copied because a member of the head is away, and may have less."""
    counting = {one.member for one in present}
    lacking = tuple(one.member for one in standings if one.member not in counting)
    known = max(head.end, lowest.fragment.begin, *(one.acknowledged_end for one in present))
    if counting.issuperset(head.members) or not lacking or known >= lowest.fragment.end:
        return None
    return Copy(lowest.member, lacking, known, lowest.fragment.end, lowest.registers)


def _standing(answer: Answer) -> Standing:
    fragment = answer.fragment
    assert fragment is not None
    return Standing(
        answer.member, fragment, answer.registers, answer.terms, answer.acknowledged_end
    )


def _later_route(
    route: Route, revision: int, answers: Sequence[Answer]
) -> ReadThrough | Disagreed | None:
    later = 0
    for answer in answers:
        if answer.status is not Status.WRONG_ROUTE:
            continue
        if answer.route.equivalent(route) or answer.revision <= revision:
            return Disagreed(
                f"{answer.member} refused route {_show(route)} of revision {revision},"
                f" and itself knows {_show(answer.route)} of revision {answer.revision}"
            )
        later = max(later, answer.revision)
    return ReadThrough(later) if later else None


def _refusal(answer: Answer) -> str:
    fragment = answer.fragment
    span = f" with fragment [{fragment.begin}, {fragment.end})" if fragment else ""
    return f"{answer.member} answered {answer.status.name}{span}"


def _show(route: Route) -> str:
    members = ", ".join(str(member) for member in route.members)
    return f"({members}; primary {route.primary})"
