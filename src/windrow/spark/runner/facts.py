"""What is written of a leg, in its backing journal, its sink and its sources? Read, never changed.

Used by whoever looks at a graph from outside: it takes nothing over, and works while it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from windrow.errors import WindrowError
from windrow.graph.backing import BackingState
from windrow.graph.high_water import Delivered, HighWaters
from windrow.graph.planning import Available
from windrow.graph.queues import BACKENDS
from windrow.graph.snapshot import Snapshot
from windrow.journal.errors import JournalNotFound
from windrow.spark.places import Place

if TYPE_CHECKING:
    from windrow.spark.query.leg_plan import LegPlan
    from windrow.spark.query.opened import Stores

T = TypeVar("T")
_Sink = tuple[Delivered | None, Sequence[HighWaters]]


@dataclass(frozen=True, slots=True)
class LegFacts:
    """What is written of one leg.

    Attributes:
        backing: What its backing journal adds up to; blank if it never ran.
        delivered: The sink's record.
        marks: The high-waters of the targets.
        available: What every partition of its inputs holds.
        problems: What could not be read, and why.
    """

    backing: BackingState = BackingState()  # noqa: RUF009 - frozen
    delivered: Delivered | None = None
    marks: Sequence[HighWaters] = ()
    available: Sequence[Available] = ()
    problems: tuple[str, ...] = ()

    @property
    def in_doubt(self) -> Snapshot | None:
        """The snapshot that was begun and is not known to be delivered."""
        taken = self.backing.taken
        if taken is None:
            return None
        held = self.delivered
        if held is not None and held.number >= taken.snapshot.number:
            return None
        attempt = self.backing.attempt
        if attempt is not None and attempt.kind == "attempt-nil":
            return None
        return taken.snapshot

    @property
    def lag(self) -> int:
        """How many messages wait to be delivered."""
        ends = self.delivered.ends.by_origin if self.delivered else {}
        return sum(max(0, one.end - ends.get(one.origin, one.first)) for one in self.available)


def read_facts(plan: LegPlan, stores: Stores, *, with_marks: bool = False) -> LegFacts:
    """Read all that is written of a leg; what cannot be reached is a problem and no error."""
    problems: list[str] = []
    nothing: _Sink = (None, ())
    backing = _tried(problems, BackingState(), lambda: stores.backing(plan).read())
    delivered, marks = _tried(problems, nothing, lambda: _sink(plan, stores, with_marks))
    available: list[Available] = []
    for place in plan.sources.values():
        available += _tried(problems, (), partial(_available, place, stores))
    return LegFacts(backing, delivered, marks, tuple(available), tuple(dict.fromkeys(problems)))


def queue_ends(places: Iterable[Place], stores: Stores) -> dict[str, int]:
    """How many messages each of these queues has had, where that is known."""
    ends: dict[str, int] = {}
    for place in places:
        if not BACKENDS[place.backend].can_read:
            continue
        found: Sequence[Available] = _tried([], (), partial(_available, place, stores))
        if found:
            ends[place.queue] = sum(one.end for one in found)
    return ends


def _tried(problems: list[str], otherwise: T, read: Callable[[], T]) -> T:
    from windrow.spark.queues.errors import QueueMissing

    try:
        return read()
    except (JournalNotFound, QueueMissing):
        return otherwise  # never begun
    except WindrowError as error:
        problems.append(str(error))
        return otherwise


def _sink(plan: LegPlan, stores: Stores, with_marks: bool) -> _Sink:
    target = stores.target(plan.target)
    delivered = target.read_delivered(plan.uid)
    numbers = range(target.targets()) if with_marks else ()
    return delivered, tuple(target.read_high_water(plan.uid, number) for number in numbers)


def _available(place: Place, stores: Stores) -> Sequence[Available]:
    if place.backend == "spark":
        return ()  # what it holds is known to Spark alone
    return stores.reader(place).available()
