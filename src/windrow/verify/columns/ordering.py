"""The arrivals of each key in their order, in bounded memory.

Rows of four numbers (see ``judging``) are split by key into files when they do not fit. A file that
is too large still is cut by place of arrival, and judged cut by cut: what is carried from one to
the next is the latest record of each of its keys. So neither one key with all records nor as many
keys as records needs more memory than the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from windrow.verify.columns.judging import ARRIVED, KEY_1, Judgement, judge

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Rows = NDArray[np.int64]

PARTS: Final = 64
ROW_BYTES: Final = 32
_PIECE: Final = 1 << 15
"""Rows that are read at a time."""


class Arrivals:
    """Collects the arrivals that were written, then judges them.

    Args:
        directory: Where its files go; nothing else may be in it.
        limit: Bytes that are held before they go to files.
    """

    def __init__(self, directory: Path, limit: int) -> None:
        self._directory, self._limit = directory, limit
        self._held: list[Rows] = []
        self._held_bytes = 0
        self._is_split = False

    def add(self, rows: Rows) -> None:
        """Take rows, in any order."""
        self._held.append(rows)
        self._held_bytes += rows.nbytes
        if self._held_bytes > self._limit:
            self._split()

    def judgements(self) -> Iterator[Judgement]:
        """Judge everything."""
        if not self._is_split:
            if self._held:
                yield judge(np.concatenate(self._held))
            return
        self._split()
        for file in sorted(self._directory.iterdir()):
            yield from self._judge_file(file)

    def _split(self) -> None:
        self._is_split = True
        self._directory.mkdir(exist_ok=True)
        rows = np.concatenate(self._held) if self._held else np.zeros((0, 4), np.int64)
        self._held, self._held_bytes = [], 0
        # The highest bits are the ones that were stirred the most.
        _append(self._directory, rows, rows[:, KEY_1].view(np.uint64) >> np.uint64(58), PARTS)

    def _judge_file(self, file: Path) -> Iterator[Judgement]:
        size = file.stat().st_size
        if size <= max(self._limit, ROW_BYTES):
            yield judge(_rows_of(file.read_bytes()))
            return
        cuts = self._cut(file, size)
        latest: Rows | None = None
        for cut in cuts:
            judgement = judge(_rows_of(cut.read_bytes()), latest)
            latest = judgement.latest
            cut.unlink()
            yield judgement

    def _cut(self, file: Path, size: int) -> list[Path]:
        """The rows of a file in several, each later than the one before."""
        number = min(size // max(self._limit, ROW_BYTES) + 1, 1024)
        first, last = _range_of(file)
        directory = file.with_suffix(".cuts")
        directory.mkdir()
        for rows in _pieces(file):
            cut_of = (rows[:, ARRIVED] - first) * number // (last + 1 - first)
            _append(directory, rows, cut_of, number)
        return sorted(directory.iterdir(), key=lambda cut: int(cut.name))


def _append(directory: Path, rows: Rows, part_of: NDArray[Any], parts: int) -> None:
    small = part_of.astype(np.uint16)  # which is sorted in a single pass
    order = np.argsort(small, kind="stable")
    edges = np.searchsorted(small[order], np.arange(parts + 1))
    rows = np.ascontiguousarray(rows[order])
    for part in range(parts):
        some = rows[edges[part] : edges[part + 1]]
        if len(some):
            with (directory / str(part)).open("ab") as file:
                file.write(some.tobytes())


def _range_of(file: Path) -> tuple[int, int]:
    """The first and the last place of arrival."""
    edges = [(int(rows[:, ARRIVED].min()), int(rows[:, ARRIVED].max())) for rows in _pieces(file)]
    return min(low for low, _ in edges), max(high for _, high in edges)


def _pieces(file: Path) -> Iterator[Rows]:
    with file.open("rb") as content:
        while piece := content.read(_PIECE * ROW_BYTES):
            yield _rows_of(piece)


def _rows_of(content: bytes) -> Rows:
    rows: Rows = np.frombuffer(content, np.int64).reshape(-1, 4)
    return rows
