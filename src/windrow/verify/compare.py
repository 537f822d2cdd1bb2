"""Two sources compared, in bounded memory: the entry to ``columns``, which does the work.

Needs the extra ``spark`` for pyarrow and numpy, so nothing here imports them before they are used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from windrow.extras import require
from windrow.verify.comparison import Comparison

if TYPE_CHECKING:
    import pyarrow as pa

MEMORY: Final = 128 * 1024 * 1024
"""Bytes of records to work with at a time; with it, a process takes some 350 MB at most."""

Progress = Callable[[str, int], None]
"""Told ``"written"`` or ``"arrived"``, and how many more records of it were read."""


class Source(Protocol):
    """Gives the records of one side in its own order; its text form is for messages."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The records, as ``columns.batches.make_batch`` makes them.

        Raises:
            WindrowError: They cannot be read.
        """


def compare(
    written: Source,
    arrived: Source,
    *,
    ordered: bool = True,
    allow_repeats: bool = False,
    memory: int = MEMORY,
    directory: Path | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """Compare what was written with what arrived, by the definitions of ``tally``.

    A record is a key and an id, both as text: the number 17 and the text "17" are the same id.

    Args:
        written: In the writer's order per key.
        arrived: In order of arrival per key.
        ordered: Whether order counts. Without it every repeat is doubled, and none misordered.
        allow_repeats: Whether what is doubled is forgiven: the promise was "at least once".
        memory: Bytes of records to hold; what is more goes to files.
        directory: Where those files go; they are deleted in the end.
        progress: Told how far the reading has come.

    Raises:
        WrittenTwice: One record of a key was written twice, so its place is not known.
        NoId: A record has no id.
        NoRoom: The files cannot be written.
        MissingExtra: pyarrow is not installed.
        WindrowError: A source cannot be read.
    """
    require("pyarrow")
    from windrow.verify.columns.counting import count

    return count(
        written,
        arrived,
        ordered=ordered,
        allow_repeats=allow_repeats,
        memory=memory,
        directory=directory,
        progress=progress or _ignore,
    )


def _ignore(side: str, records: int) -> None:
    """Nobody wants to know."""
