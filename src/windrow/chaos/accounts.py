"""What became of every message of one kind? Pure: from what was written and what arrived.

Nothing is believed but the two ends: the heroes that the database holds, and what the receiver
keeps. A hero is known by its name, which the stream uses once only.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Kind = Literal["outbox", "sync"]
KINDS: tuple[Kind, ...] = ("outbox", "sync")


@dataclass(frozen=True, slots=True)
class Written:
    """A hero that was committed; its message has to arrive. Times are seconds of the calendar."""

    hero: str
    at: float


@dataclass(frozen=True, slots=True)
class Arrival:
    """A message that the receiver has kept, by the id that it bore."""

    hero: str
    message_id: str
    at: float


@dataclass(frozen=True, slots=True)
class Ends:
    """What the two ends hold: heroes by kind, arrivals, and whose messages are in the outbox."""

    written: Mapping[Kind, Sequence[Written]]
    arrived: Sequence[Arrival]
    waiting: Sequence[str] = ()

    def arrived_of(self, kind: Kind) -> list[Arrival]:
        """The arrivals of one kind.

        What is of no kind was never committed: the outbox has to answer for it, since the control
        calls the receiver after its commit only.
        """
        other = {
            each.hero for name, heroes in self.written.items() if name != kind for each in heroes
        }
        if kind == "outbox":
            return [arrival for arrival in self.arrived if arrival.hero not in other]
        own = {each.hero for each in self.written.get(kind, ())}
        return [arrival for arrival in self.arrived if arrival.hero in own]


@dataclass(frozen=True, slots=True)
class Account:
    """The messages of one kind, counted.

    Attributes:
        written: Heroes committed.
        delivered: Those of them whose message arrived.
        lost: Those whose message never did, and waits nowhere.
        waiting: Those whose message is still in the outbox, or buried in it.
        doubled: Arrivals beyond the first of each message.
        doubled_behind_inbox: Of those, the ones under another id: no inbox would know them again.
        unexpected: Arrivals of heroes that were never committed.
        p50: Median of the seconds from commit to first arrival; None if nothing arrived.
        p99: All but one in a hundred took no longer.
        recovery: Seconds from the end of the fault until all that was written before its end had
            arrived; None if it never did.
    """

    written: int
    delivered: int
    lost: int
    waiting: int
    doubled: int
    doubled_behind_inbox: int
    unexpected: int
    p50: float | None
    p99: float | None
    recovery: float | None


def account_of(
    written: Iterable[Written],
    arrived: Iterable[Arrival],
    waiting: Iterable[str] = (),
    fault_end: float = 0.0,
) -> Account:
    """Count one kind of message.

    Args:
        written: What the database holds.
        arrived: What the receiver keeps.
        waiting: Heroes whose messages are still in the outbox, or among its dead letters.
        fault_end: When the fault was over.
    """
    begun = {each.hero: each.at for each in written}
    by_hero: dict[str, list[Arrival]] = defaultdict(list)
    unexpected = 0
    for arrival in arrived:
        if arrival.hero in begun:
            by_hero[arrival.hero].append(arrival)
        else:
            unexpected += 1
    first = {hero: min(each.at for each in arrivals) for hero, arrivals in by_hero.items()}
    missing = begun.keys() - first.keys()
    kept = missing & set(waiting)
    delays = [max(0.0, first[hero] - begun[hero]) for hero in first]
    return Account(
        written=len(begun),
        delivered=len(first),
        lost=len(missing) - len(kept),
        waiting=len(kept),
        doubled=sum(len(arrivals) - 1 for arrivals in by_hero.values()),
        doubled_behind_inbox=sum(
            len({each.message_id for each in arrivals}) - 1 for arrivals in by_hero.values()
        ),
        unexpected=unexpected,
        p50=quantile(delays, 0.50),
        p99=quantile(delays, 0.99),
        recovery=_recovery(begun, first, fault_end),
    )


def _recovery(begun: dict[str, float], first: dict[str, float], end: float) -> float | None:
    before = [hero for hero, at in begun.items() if at <= end]
    if any(hero not in first for hero in before):
        return None
    return round(max((max(0.0, first[hero] - end) for hero in before), default=0.0), 6)


def quantile(values: Sequence[float], share: float) -> float | None:
    """The least value that so large a share does not exceed; None of none."""
    if not values:
        return None
    ordered = sorted(values)
    return round(ordered[max(0, math.ceil(share * len(ordered)) - 1)], 6)


def over_time(
    written: Sequence[Written], arrived: Sequence[Arrival], begin: float, steps: int = 80
) -> list[tuple[float, int, int]]:
    """(second, written, delivered) at even steps, counted from ``begin``: what a plot shows."""
    begun = {each.hero for each in written}
    first: dict[str, float] = {}
    for arrival in arrived:
        if arrival.hero in begun:
            first[arrival.hero] = min(arrival.at, first.get(arrival.hero, arrival.at))
    starts = sorted(each.at - begin for each in written)
    ends = sorted(at - begin for at in first.values())
    last = max([*starts[-1:], *ends[-1:], 0.0])
    # In whole milliseconds and rounded up, so that the last step lies behind the last event.
    step = max(1, math.ceil(last * 1000 / steps))
    moments = [index * step / 1000 for index in range(steps + 1)]
    return [(at, _up_to(starts, at), _up_to(ends, at)) for at in moments]


def _up_to(ordered: Sequence[float], at: float) -> int:
    return bisect_right(ordered, at)
