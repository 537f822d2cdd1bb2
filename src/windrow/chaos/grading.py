"""Did a scenario keep the promise? Pure.

A scenario passes if the outbox lost nothing, doubled nothing but where its fault may cause that,
and no double is one that an inbox would let through. It is inconclusive, which is no pass, if the
fault did not bite: nothing was written, nothing was struck, or the control lost nothing though it
had to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from windrow.chaos.accounts import Account

Result = Literal["pass", "fail", "inconclusive", "not run"]


@dataclass(frozen=True, slots=True)
class Promise:
    """What must be so after a scenario.

    Attributes:
        may_double: The fault can hit between a delivery and the news of it.
        control_must_lose: A service that calls the receiver itself cannot come through this.
        must_bury: Messages have to have been dead letters for a while.
    """

    may_double: bool = False
    control_must_lose: bool = False
    must_bury: bool = False


@dataclass(frozen=True, slots=True)
class Grade:
    """The verdict, and why if it is not a pass."""

    result: Result
    reasons: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether it does not make the run fail: what was not run says nothing."""
        return self.result in ("pass", "not run")


def grade(
    promise: Promise,
    outbox: Account,
    control: Account | None,
    *,
    strikes: int,
    buried: int = 0,
    stuck: str = "",
) -> Grade:
    """Judge what the two ends say.

    Args:
        promise: What must be so.
        outbox: What became of the messages of the outbox.
        control: And of those sent without one; None if the scenario has no control.
        strikes: How often the fault struck.
        buried: How many messages were dead letters at the height of it.
        stuck: What the scenario waited for in vain, if it came to no end.
    """
    broken = _broken(promise, outbox, stuck)
    if broken:
        return Grade("fail", tuple(broken))
    toothless = _toothless(promise, outbox, control, strikes, buried)
    return Grade("inconclusive", tuple(toothless)) if toothless else Grade("pass")


def _broken(promise: Promise, outbox: Account, stuck: str) -> list[str]:
    reasons = []
    if outbox.lost:
        reasons.append(f"the outbox lost {outbox.lost} of {outbox.written}")
    if outbox.doubled_behind_inbox:
        reasons.append(f"{outbox.doubled_behind_inbox} came again under another id")
    if outbox.doubled and not promise.may_double:
        reasons.append(f"{outbox.doubled} came again, which this fault cannot cause")
    if outbox.unexpected:
        reasons.append(f"{outbox.unexpected} arrived that were never committed")
    if outbox.waiting:
        reasons.append(f"{outbox.waiting} still wait in the outbox or among the dead letters")
    if stuck:
        reasons.append(f"it came to no end: {stuck}")
    return reasons


def _toothless(
    promise: Promise, outbox: Account, control: Account | None, strikes: int, buried: int
) -> list[str]:
    reasons = []
    if not outbox.written:
        reasons.append("nothing was written to the outbox")
    if not strikes:
        reasons.append("the fault never struck")
    if promise.must_bury and not buried:
        reasons.append("nothing was buried though the receiver refused it")
    if promise.control_must_lose and control is not None and not control.lost:
        reasons.append("the control lost nothing though it had to")
    return reasons
