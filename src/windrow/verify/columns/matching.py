"""Which written record is each arrival? Exact: keys and ids themselves are compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windrow.verify.errors import WrittenTwice

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[np.int64]
    Flags = NDArray[np.bool_]


class Written:
    """The written records of one part, to be looked up.

    Raises:
        WrittenTwice: One of them is there twice.
    """

    def __init__(self, records: pa.Table) -> None:
        self.places: Numbers = records.column("at").to_numpy()
        self.is_maybe: Flags = records.column("maybe").fill_null(False).to_numpy()
        self.arrivals: Numbers = np.zeros(len(records), np.int64)
        """How often each has arrived."""
        keys, self._keys = _encoded(records.column("key"))
        ids, self._ids = _encoded(records.column("id"))
        # A pair of numbers as one: neither column has 2**31 values.
        codes = keys * len(self._ids) + ids
        self._rows: Numbers = np.argsort(codes, kind="stable")
        self._codes = codes[self._rows]
        again = np.flatnonzero(self._codes[1:] == self._codes[:-1])
        if len(again):
            row = records.slice(int(self._rows[again[0] + 1]), 1).to_pylist()[0]
            raise WrittenTwice(shown(row["key"]), shown(row["id"]))

    def rows_of(self, arrived: pa.RecordBatch) -> Numbers:
        """The row of each arrival, counted as arrived; -1 for what was never written."""
        keys = _found(arrived.column("key"), self._keys)
        ids = _found(arrived.column("id"), self._ids)
        rows: Numbers = np.full(len(arrived), -1, np.int64)
        known = np.flatnonzero((keys >= 0) & (ids >= 0))
        if not len(known):
            return rows
        codes = keys[known] * len(self._ids) + ids[known]
        nearest = np.minimum(np.searchsorted(self._codes, codes), len(self._codes) - 1)
        is_there = self._codes[nearest] == codes
        rows[known[is_there]] = self._rows[nearest[is_there]]
        self.arrivals += np.bincount(rows[rows >= 0], minlength=len(self.arrivals))
        return rows

    @property
    def missing(self) -> Numbers:
        """The places of those that were written for certain and never arrived."""
        places: Numbers = self.places[(self.arrivals == 0) & ~self.is_maybe]
        return places

    @property
    def count(self) -> int:
        """How many were written, as far as is known."""
        return int(np.count_nonzero(~self.is_maybe | (self.arrivals > 0)))


def shown(value: bytes) -> str:
    """Bytes of a record for people."""
    return value.decode("utf-8", "backslashreplace")


def _encoded(column: pa.ChunkedArray) -> tuple[Numbers, pa.Array]:
    """Numbers that stand for values, and the values."""
    encoded = pa.chunked_array(column).combine_chunks().dictionary_encode()
    return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary


def _found(column: pa.Array, values: pa.Array) -> Numbers:
    found = pc.index_in(column, value_set=values).fill_null(-1)
    numbers: Numbers = found.to_numpy().astype(np.int64)
    return numbers
