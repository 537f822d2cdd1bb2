"""The whole of a comparison, in three steps.

1. Both sides are read into spools, which split what does not fit in memory.
2. Part by part, each arrival is matched with what was written: that tells what is missing and what
   is unexpected.
3. If order counts, the matched arrivals are judged key by key: that tells what is doubled and what
   is misordered.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from windrow.verify.columns.digests import digests
from windrow.verify.columns.matching import Written, shown
from windrow.verify.columns.ordering import Arrivals
from windrow.verify.columns.spool import LEVELS, PARTS, PLACED, Spool
from windrow.verify.comparison import EXAMPLES, TROUBLES, Comparison, Example
from windrow.verify.errors import NoRoom

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from windrow.verify.compare import Progress, Source

    Numbers = NDArray[np.int64]

SHARES: Final = 8
"""Into so many the memory is divided: what is held, twice while it is sorted, for each step."""
PIECE: Final = 1 << 16
"""Records of a part that are matched at a time, at most."""


def count(
    written: Source,
    arrived: Source,
    *,
    ordered: bool,
    allow_repeats: bool,
    memory: int,
    directory: Path | None,
    progress: Progress,
) -> Comparison:
    """See ``windrow.verify.compare``."""
    began = time.perf_counter()
    try:
        with tempfile.TemporaryDirectory(prefix="windrow-verify-", dir=directory) as place:
            counting = _Counting(Path(place), memory // SHARES, ordered=ordered)
            counting.read(written, arrived, progress)
            counting.match()
            counting.judge()
            return counting.close(allow_repeats, began)
    except OSError as error:  # those of sources are told by the sources
        where = str(directory or tempfile.gettempdir())
        raise NoRoom(where, error.strerror or str(error)) from error


class _Trouble:
    """How many records are in one kind of trouble, and where the first ones are."""

    def __init__(self) -> None:
        self.count = 0
        self.first: Numbers = np.zeros(0, np.int64)

    def add(self, places: Numbers) -> None:
        self.count += len(places)
        both = np.concatenate([self.first, places])
        self.first = np.sort(both)[:EXAMPLES] if len(both) else both


class _Counting:
    def __init__(self, directory: Path, share: int, *, ordered: bool) -> None:
        self._directory, self._share, self._ordered = directory, share, ordered
        self._written = Spool(directory / "written", share)
        self._arrived = Spool(directory / "arrived", share)
        self._arrivals = Arrivals(directory / "order", share)
        self._splits = 0
        self._written_count = 0
        self._troubles = {name: _Trouble() for name in TROUBLES}

    # Step 1.

    def read(self, written: Source, arrived: Source, progress: Progress) -> None:
        for side, source, spool in (
            ("written", written, self._written),
            ("arrived", arrived, self._arrived),
        ):
            for batch in source.batches():
                spool.add_read(batch)
                progress(side, len(batch))
        if self._written.is_split or self._arrived.is_split:
            self._written.split()
            self._arrived.split()
        self._written.finish()
        self._arrived.finish()

    # Step 2.

    def match(self) -> None:
        if not self._written.is_split:
            self._match(self._written.batches(), self._arrived.batches())
            return
        for part in range(PARTS):
            self._match_part(self._written, self._arrived, part, 1)

    def _match_part(self, written: Spool, arrived: Spool, part: int, level: int) -> None:
        # Arrivals are looked up piece by piece, so only what was written has to fit.
        if written.part_fits(part, self._share) or level > LEVELS:
            self._match(written.part(part), arrived.part(part))
            return
        finer_written = self._split(written.part(part), level)
        finer_arrived = self._split(arrived.part(part), level)
        for finer in range(PARTS):
            self._match_part(finer_written, finer_arrived, finer, level + 1)

    def _split(self, batches: Iterator[pa.RecordBatch], level: int) -> Spool:
        self._splits += 1
        spool = Spool(self._directory / f"split-{self._splits}", self._share, level)
        for batch in batches:
            spool.add(batch)
        spool.split()
        spool.finish()
        return spool

    def _match(self, written: Iterable[pa.RecordBatch], arrived: Iterable[pa.RecordBatch]) -> None:
        records = Written(pa.Table.from_batches(list(written), PLACED))
        for batch in _pieces(arrived, max(PIECE, len(records.places))):
            self._match_batch(records, batch)
        self._written_count += records.count
        self._troubles["missing"].add(records.missing)

    def _match_batch(self, written: Written, arrived: pa.RecordBatch) -> None:
        places: Numbers = arrived.column("at").to_numpy()
        first_time = written.arrivals == 0
        rows = written.rows_of(arrived)
        is_known = rows >= 0
        self._troubles["unexpected"].add(places[~is_known])
        rows, places = rows[is_known], places[is_known]
        if self._ordered:
            keys = arrived.column("key").filter(pa.array(is_known))
            columns = (digests(keys).view(np.int64), digests(keys, 1).view(np.int64))
            self._arrivals.add(np.column_stack([*columns, places, written.places[rows]]))
        else:
            self._troubles["doubled"].add(places[_is_repeat(rows, first_time)])

    # Step 3.

    def judge(self) -> None:
        for judgement in self._arrivals.judgements():
            self._troubles["doubled"].add(judgement.doubled)
            self._troubles["misordered"].add(judgement.misordered)

    def close(self, allow_repeats: bool, began: float) -> Comparison:
        counts = {name: trouble.count for name, trouble in self._troubles.items()}
        return Comparison(
            written=self._written_count,
            arrived=self._arrived.count,
            **counts,
            forgiven=counts["doubled"] if allow_repeats else 0,
            examples=self._examples(),
            seconds=time.perf_counter() - began,
        )

    def _examples(self) -> dict[str, tuple[Example, ...]]:
        named: dict[str, tuple[Example, ...]] = {}
        first = {name: trouble.first.tolist() for name, trouble in self._troubles.items()}
        missing = self._written.named(first["missing"])
        others = self._arrived.named({at for name in TROUBLES[1:] for at in first[name]})
        for name, places in first.items():
            records = missing if name == "missing" else others
            if places:
                named[name] = tuple(_example(at, *records[at]) for at in places)
        return named


def _pieces(batches: Iterable[pa.RecordBatch], size: int) -> Iterator[pa.RecordBatch]:
    """The same records in pieces of about this size: a look-up costs as much for few as for many.

    Small batches are put together; they come from files, of which each holds many.
    """
    held: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        held.append(batch)
        count += len(batch)
        if count >= size:
            yield from pa.Table.from_batches(held).combine_chunks().to_batches()
            held, count = [], 0
    if held:
        yield from pa.Table.from_batches(held).combine_chunks().to_batches()


def _is_repeat(rows: Numbers, first_time: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Whether each arrival came before: in an earlier piece, or earlier in this one."""
    is_repeat = np.ones(len(rows), np.bool_)
    _, first = np.unique(rows, return_index=True)
    is_repeat[first] = ~first_time[rows[first]]
    return is_repeat


def _example(at: int, key: bytes, record_id: bytes) -> Example:
    return Example(shown(key), shown(record_id), at + 1)
