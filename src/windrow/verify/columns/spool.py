"""One side of a comparison: held in memory while it fits, then in files, split by digest.

A spool is read several times, so it keeps what it was given until it is closed. Once it has files,
each holds the records of one *part*: those whose digest falls there. The same record is in the same
part of both sides, so parts can be compared one at a time; one that is too large still is split
again, by other bits of the digest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from windrow.verify.columns.batches import SCHEMA
from windrow.verify.columns.digests import digests, together

if TYPE_CHECKING:
    from numpy.typing import NDArray

PARTS: Final = 64
LEVELS: Final = 8
"""After so many splits all bits are used: what is together then is one record, many times."""

PLACED: Final = SCHEMA.append(pa.field("at", pa.int64()))
"""With the place of each record in its source, from 0 on."""


class Spool:
    """Records of one side, or of one part of it.

    Args:
        directory: Where its files go; nothing else may be in it.
        limit: Bytes that are held before they go to files.
        level: How often its records were split before.
    """

    def __init__(self, directory: Path, limit: int, level: int = 0) -> None:
        self.count = self.size = 0
        """Records, and their bytes."""
        self._directory, self._limit, self._level = directory, limit, level
        self._held: list[pa.RecordBatch] = []
        self._held_bytes = 0
        self._writers: dict[int, tuple[Any, Any]] = {}
        self._sizes: dict[int, tuple[int, int]] = {}
        self.is_split = False
        """Whether it has files, one for each part."""

    def add_read(self, batch: pa.RecordBatch) -> None:
        """Take what the source gave next."""
        at = pa.array(np.arange(self.count, self.count + len(batch)))
        self.add(pa.record_batch([*batch.columns, at], schema=PLACED))

    def add(self, batch: pa.RecordBatch) -> None:
        """Take records that have their places."""
        self.count += len(batch)
        self.size += batch.nbytes
        self._held.append(batch)
        self._held_bytes += batch.nbytes
        if self._held_bytes > self._limit:
            self.split()

    def split(self) -> None:
        """Put what is held into the files, now and from now on."""
        if not self.is_split:
            self._directory.mkdir()
            self.is_split = True
        table = pa.Table.from_batches(self._held, PLACED).combine_chunks()
        self._held, self._held_bytes = [], 0
        for whole in table.to_batches():
            part_of = self._part_of(whole)
            order = np.argsort(part_of, kind="stable")
            edges = np.searchsorted(part_of[order], np.arange(PARTS + 1))
            sorted_batch = whole.take(pa.array(order))
            for part in range(PARTS):
                begin, end = int(edges[part]), int(edges[part + 1])
                if end > begin:
                    self._write(part, sorted_batch.slice(begin, end - begin))

    def finish(self) -> None:
        """Nothing more is added, and nothing is to be split any more."""
        for writer, file in self._writers.values():
            writer.close()
            file.close()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Everything, in no order if it is split."""
        if not self.is_split:
            yield from self._held
        for part in self._writers:
            yield from self.part(part)

    def part(self, part: int) -> Iterator[pa.RecordBatch]:
        """The records of one part, in their order."""
        if part not in self._writers:
            return
        # Not mapped into memory: the pages would count as ours.
        with pa.OSFile(str(self._file(part))) as file, pa.ipc.open_stream(file) as reader:
            yield from reader

    def part_fits(self, part: int, limit: int) -> bool:
        """Whether the records of a part take no more bytes than this, or cannot be split."""
        count, size = self._sizes.get(part, (0, 0))
        return size <= limit or count <= 1

    def named(self, places: Iterable[int]) -> dict[int, tuple[bytes, bytes]]:
        """Key and id of the records at these places."""
        wanted = np.array(sorted(places), np.int64)
        found: dict[int, tuple[bytes, bytes]] = {}
        for batch in self.batches() if len(wanted) else ():
            rows = np.flatnonzero(np.isin(batch.column("at").to_numpy(), wanted))
            for row in batch.take(pa.array(rows)).to_pylist() if len(rows) else ():
                found[row["at"]] = row["key"], row["id"]
        return found

    def _write(self, part: int, batch: pa.RecordBatch) -> None:
        if part not in self._writers:
            file = pa.OSFile(str(self._file(part)), "wb")
            self._writers[part] = pa.ipc.new_stream(file, PLACED), file
        self._writers[part][0].write_batch(batch)
        count, size = self._sizes.get(part, (0, 0))
        self._sizes[part] = count + len(batch), size + batch.nbytes

    def _part_of(self, batch: pa.RecordBatch) -> NDArray[np.uint8]:
        found = together(digests(batch.column("key")), digests(batch.column("id")))
        bits = np.uint64((PARTS.bit_length() - 1) * self._level)
        # Numbers this small are sorted in a single pass.
        return ((found >> bits) % np.uint64(PARTS)).astype(np.uint8)

    def _file(self, part: int) -> Path:
        return self._directory / str(part)
