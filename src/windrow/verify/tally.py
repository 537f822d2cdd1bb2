"""What was written against what arrived, counted record by record. Pure.

A record is a key and an id. The writer's order is that of the ledger, key by key; the order of
arrival is that of the observations, key by key; between keys there is none. Each arrival is judged
against the *latest* record of its key that arrived before it, latest in the writer's order:

=====================================  ==============================================
the record is                          it counts as
=====================================  ==============================================
later than the latest                  delivered
the latest itself                      doubled
earlier, and had not arrived           delivered, and misordered: a later one overtook it
earlier, and had arrived               misordered: its repeat went back in time
not in the ledger                      unexpected
=====================================  ==============================================

What never arrived is lost, unless the writer does not know either whether it was committed
(``maybe``): such a record may arrive or not, but at most once like any other.

Both sides are read as streams. The ledger is read only as far ahead as the arrivals need, and a
record is forgotten once it arrived, so what is held is the keys and what is on its way. A record
that is not known makes the rest of the ledger be read: only then is it certain to be a stranger.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from windrow.verify.errors import WrittenTwice

Arrival = tuple[str, int | str]
"""The key and the id of a record, as a consumer saw it."""

EXAMPLES = 10
"""How many records are named for each kind of trouble."""


class Entry(NamedTuple):
    """A record in the ledger. ``maybe``: the writer never learned whether it was committed."""

    key: str
    id: int | str
    maybe: bool = False


@dataclass(frozen=True)
class Tally:
    """The verdict. ``written`` is always ``delivered`` + ``lost``.

    ``doubled`` includes ``forgiven``: the repeats that the caller had allowed.
    ``examples`` names up to ten records for each of lost, doubled, misordered and unexpected;
    forgiven repeats are not among them.
    """

    written: int = 0
    delivered: int = 0
    lost: int = 0
    doubled: int = 0
    misordered: int = 0
    unexpected: int = 0
    forgiven: int = 0
    examples: dict[str, tuple[Arrival, ...]] = field(default_factory=dict)

    @property
    def is_clean(self) -> bool:
        """Nothing lost, misordered or unexpected, and no repeat but the allowed ones."""
        return not (self.lost or self.misordered or self.unexpected) and (
            self.doubled == self.forgiven
        )

    def __str__(self) -> str:
        counts = (
            f"written {self.written}, delivered {self.delivered}, lost {self.lost},"
            f" doubled {self.doubled}, misordered {self.misordered}, unexpected {self.unexpected}"
        )
        named = (
            f"\n  {kind}: {', '.join(f'{key}/{id}' for key, id in records)}"
            for kind, records in self.examples.items()
        )
        return counts + "".join(named)


def tally(
    written: Iterable[Entry], arrived: Iterable[Arrival], may_repeat: Iterable[Arrival] = ()
) -> Tally:
    """Compare the ledger with the arrivals.

    Args:
        written: The ledger, in the writer's order per key. It is iterated a second time if an
            arrival is not known by then, so it must be able to: a list, or a ``LedgerFile``.
        arrived: The records that a consumer saw, in order of arrival per key.
        may_repeat: Records whose repeat is forgiven, each as often as it is named: those that
            were sent and not acknowledged when something was killed.

    Raises:
        WrittenTwice: The ledger names one record of a key twice.
    """
    count = _Count(Counter(may_repeat))
    ledger = iter(written)
    for key, record_id in arrived:
        while not count.arrive(key, record_id):
            entry = next(ledger, None)
            if entry is None:
                count.strangers[key, record_id] += 1
                break
            count.write(entry)
    for entry in ledger:
        count.write(entry)
    return count.close(written)


class _Key:
    """What is remembered of one key."""

    __slots__ = ("ahead", "latest", "overtaken")

    def __init__(self) -> None:
        # Written after the latest arrival, in order; the value says whether it is only a maybe.
        self.ahead: OrderedDict[int | str, bool] = OrderedDict()
        # Written before the latest arrival, and not seen: lost, if they do not come late.
        self.overtaken: dict[int | str, bool] = {}
        self.latest: int | str | None = None


class _Count:
    """The running count of both sides."""

    def __init__(self, may_repeat: Counter[Arrival]) -> None:
        self.may_repeat = may_repeat
        self.strangers: Counter[Arrival] = Counter()
        self.keys: dict[str, _Key] = {}
        self.written = self.delivered = self.doubled = self.forgiven = self.misordered = 0
        self.examples: dict[str, list[Arrival]] = {
            kind: [] for kind in ("lost", "doubled", "misordered", "unexpected")
        }

    def write(self, entry: Entry) -> None:
        key, record_id, maybe = entry
        state = self.keys.get(key)
        if state is None:
            state = self.keys[key] = _Key()
        if record_id in state.ahead or record_id == state.latest or record_id in state.overtaken:
            raise WrittenTwice(key, record_id)
        state.ahead[record_id] = maybe
        self.written += not maybe

    def arrive(self, key: str, record_id: int | str) -> bool:
        """Count an arrival; false, and nothing counted, if the record is not known (yet)."""
        state = self.keys.get(key)
        if state is None:
            return False
        if record_id in state.ahead:
            self._advance(state, record_id)
        elif record_id == state.latest:
            self._repeat(key, record_id)
        elif record_id in state.overtaken:
            self._deliver(state.overtaken.pop(record_id))
            self._misorder((key, record_id), 1)
        else:
            return False
        return True

    def _advance(self, state: _Key, record_id: int | str) -> None:
        while True:
            passed, maybe = state.ahead.popitem(last=False)
            if passed == record_id:
                break
            state.overtaken[passed] = maybe
        state.latest = record_id
        self._deliver(maybe)

    def _deliver(self, maybe: bool) -> None:
        self.delivered += 1
        self.written += maybe  # it arrived, so it was written after all

    def _repeat(self, key: str, record_id: int | str) -> None:
        self.doubled += 1
        if self.may_repeat[key, record_id] > 0:
            self.may_repeat[key, record_id] -= 1
            self.forgiven += 1
        else:
            self._example("doubled", (key, record_id))

    def _misorder(self, arrival: Arrival, times: int) -> None:
        self.misordered += times
        self._example("misordered", arrival)

    def _example(self, kind: str, arrival: Arrival) -> None:
        if len(self.examples[kind]) < EXAMPLES:
            self.examples[kind].append(arrival)

    def close(self, written: Iterable[Entry]) -> Tally:
        # A record that arrived is forgotten, so its repeat after a later one looks like one that
        # was never written. The ledger tells them apart, and is read again only if there are any.
        if self.strangers:
            for key, record_id, _ in written:
                if times := self.strangers.pop((key, record_id), 0):
                    self._misorder((key, record_id), times)
        for arrival in self.strangers:
            self._example("unexpected", arrival)
        lost = 0
        for arrival in self._missing():
            lost += 1
            self._example("lost", arrival)
        return Tally(
            written=self.written,
            delivered=self.delivered,
            lost=lost,
            doubled=self.doubled,
            misordered=self.misordered,
            unexpected=self.strangers.total(),
            forgiven=self.forgiven,
            examples={kind: tuple(named) for kind, named in self.examples.items() if named},
        )

    def _missing(self) -> Iterator[Arrival]:
        for key, state in self.keys.items():
            for records in (state.overtaken, state.ahead):
                for record_id, maybe in records.items():
                    if not maybe:
                        yield key, record_id
