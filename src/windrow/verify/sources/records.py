"""Records that are Python's objects: a list, a generator, a ledger."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import pyarrow as pa

from windrow.verify.columns.batches import column_of, make_batch
from windrow.verify.errors import UnreadableSource
from windrow.verify.ledger import LedgerFile
from windrow.verify.tally import Arrival, Entry

BATCH = 1 << 16


class Records:
    """A source of pairs of key and id, or of entries of a ledger."""

    def __init__(self, records: Iterable[Arrival | Entry], name: str = "records") -> None:
        self._records, self._name = records, name

    def __str__(self) -> str:
        return self._name

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All of them."""
        records, read = iter(self._records), 0
        while some := list(islice(records, BATCH)):
            maybe = [True if len(record) > 2 and record[2] else None for record in some]
            yield make_batch(
                self._name,
                read,
                column_of([record[0] for record in some]),
                column_of([record[1] for record in some]),
                pa.array(maybe, pa.bool_()),
            )
            read += len(some)


class LedgerSource(Records):
    """The entries of a ledger; see ``windrow.verify.ledger``."""

    def __init__(self, path: Path, name: str) -> None:
        super().__init__(LedgerFile(path), name)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All of them.

        Raises:
            NotALedger: A line cannot be read.
            UnreadableSource: The file cannot be opened.
        """
        try:
            yield from super().batches()
        except OSError as error:
            raise UnreadableSource(str(self), error.strerror or str(error)) from error
