"""The writer's own account of what it committed, on disk.

A line says ``maybe`` before the commit, and ``written`` or ``undone`` once its outcome is known::

    ["maybe", "order-7", 41]
    ["written", "order-7", 41]

Each line is one ``write`` to the file, with nothing kept back in the process: a writer killed at
any moment leaves at most its last line torn, and that line is then ignored. So a kill between the
commit and ``written`` leaves a ``maybe``, which is the truth. A writer that cannot be killed, and
always learns the outcome of a commit, may leave the first line out.

The order of a key is that of the first lines, so say ``maybe`` immediately before the commit.
One file belongs to one writer at a time, and a key to one file.
"""

from __future__ import annotations

import json
import os
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Self

from windrow.lines import append, open_lines
from windrow.verify.errors import NotALedger
from windrow.verify.tally import Arrival, Entry

_OUTCOMES = frozenset({"maybe", "written", "undone"})


class Ledger:
    """The writing side: appends to the file, and goes on with one that is already there."""

    def __init__(self, path: Path, *, fsync: bool = False) -> None:
        """Open the ledger.

        Args:
            path: The file; what a killed writer left torn at its end is cut off.
            fsync: Bring each line to the disk before going on. Needed only against the death of
                the machine: what a killed process wrote stays.
        """
        self._fsync = fsync
        self._file = open_lines(path)

    def maybe(self, records: Iterable[Arrival]) -> None:
        """These are about to be committed. Until told otherwise they may or may not arrive."""
        self._append("maybe", records)

    def written(self, records: Iterable[Arrival]) -> None:
        """These were committed, and must arrive."""
        self._append("written", records)

    def undone(self, records: Iterable[Arrival]) -> None:
        """These were rolled back for certain, and must not arrive. They may be tried again."""
        self._append("undone", records)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _append(self, what: str, records: Iterable[Arrival]) -> None:
        lines = b"".join(
            json.dumps([what, key, record_id]).encode() + b"\n" for key, record_id in records
        )
        append(self._file, lines)
        if self._fsync:
            os.fsync(self._file)


class LedgerFile:
    """The reading side: the entries in the writer's order, as often as it is iterated."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __iter__(self) -> Iterator[Entry]:
        """Each record once, at the place of its first line, with its last known outcome.

        Raises:
            NotALedger: A line other than a torn last one cannot be read.
        """
        undecided: OrderedDict[Arrival, Entry | None] = OrderedDict()
        for what, key, record_id in self._lines():
            record = (key, record_id)
            if what == "undone":
                undecided.pop(record, None)
            elif what == "maybe":
                undecided[record] = None
            elif undecided:
                undecided[record] = Entry(key, record_id)
            else:
                yield Entry(key, record_id)
            while undecided:
                first = next(iter(undecided))
                decided = undecided[first]
                if decided is None:
                    break  # those behind it wait, for the order
                del undecided[first]
                yield decided
        for (key, record_id), decided in undecided.items():
            yield decided or Entry(key, record_id, maybe=True)

    def progress(self) -> int:
        """How far the writer has come: a number that moves with every line."""
        return self.path.stat().st_size if self.path.exists() else 0

    def _lines(self) -> Iterator[tuple[str, str, int | str]]:
        with self.path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.endswith(b"\n"):
                    yield self._parse(number, line)

    def _parse(self, number: int, line: bytes) -> tuple[str, str, int | str]:
        try:
            what, key, record_id = json.loads(line.decode())
        except (ValueError, TypeError):
            what = key = record_id = None
        if (
            what not in _OUTCOMES
            or not isinstance(key, str)
            or not isinstance(record_id, (int, str))
        ):
            raise NotALedger(str(self.path), number, line.decode(errors="replace").strip())
        return what, key, record_id
