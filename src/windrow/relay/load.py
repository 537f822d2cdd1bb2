"""What to pump into an outbox, and when. Pure: numbers in, records out.

The same seed gives the same records, whoever writes them and how fast.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass

from windrow.outbox.record import Record

SEQUENCE_HEADER = "Seq"
"""The header with a record's number, by which a consumer and the ledger know it."""
ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789"


@dataclass(frozen=True, slots=True)
class Load:
    """What records look like, and how many there are."""

    keys: int
    records: int
    topic: str = "pump"
    is_blank: bool = False
    skew: float = 0.0
    """The exponent of Zipf's law: 0 draws all keys alike, 1 the first twice as often as the
    second."""
    sizes: tuple[int, int] | None = None
    """The least and the greatest length of a value."""
    per_transaction: int = 20
    rollbacks: float = 0.0
    """The share of transactions that are rolled back, 0 to 1."""
    workers: int = 1
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class Transaction:
    """Records that are committed together, or rolled back."""

    worker: int
    records: tuple[tuple[int, Record], ...]
    """Each with its number in the whole run."""
    rolls_back: bool

    @property
    def arrivals(self) -> list[tuple[str, int]]:
        """As the ledger names them: key and number."""
        return [(record.key or "", number) for number, record in self.records]


def transactions(load: Load) -> Iterator[Transaction]:
    """The whole run. A key always goes to the same worker, which keeps its order."""
    rng = random.Random(load.seed)
    open_by_worker: dict[int, list[tuple[int, Record]]] = {}
    for number, rank in enumerate(_ranks(load, rng)):
        worker = rank % load.workers
        records = open_by_worker.setdefault(worker, [])
        records.append((number, _record(load, rng, rank, number)))
        if len(records) >= load.per_transaction:
            del open_by_worker[worker]
            yield _transaction(load, rng, worker, records)
    for worker, records in sorted(open_by_worker.items()):
        yield _transaction(load, rng, worker, records)


def _ranks(load: Load, rng: random.Random) -> Iterator[int]:
    """Which key each record has, as its place among the keys by weight."""
    if load.skew == 0:
        return (rng.randrange(load.keys) for _ in range(load.records))
    weights = itertools.accumulate(1 / (rank + 1) ** load.skew for rank in range(load.keys))
    cumulative = list(weights)
    ranks = range(load.keys)
    return (rng.choices(ranks, cum_weights=cumulative)[0] for _ in range(load.records))


def _record(load: Load, rng: random.Random, rank: int, number: int) -> Record:
    value = None if load.is_blank else _value(load, rng)
    return Record(load.topic, f"key-{rank:x}", value, [(SEQUENCE_HEADER, str(number))])


def _value(load: Load, rng: random.Random) -> str:
    value = f"value-{rng.getrandbits(64):x}"
    if load.sizes is None:
        return value
    size = rng.randint(*load.sizes)
    # Random enough that compression does not make a large record a small one.
    filler = "".join(rng.choices(ALPHABET, k=max(0, size - len(value))))
    return (value + filler)[:size]


def _transaction(
    load: Load, rng: random.Random, worker: int, records: list[tuple[int, Record]]
) -> Transaction:
    return Transaction(worker, tuple(records), rng.random() < load.rollbacks)
