"""How many rows to read at a time, by what the last ones were like. Pure.

What is held is bounded in bytes, and rows have to be asked for before anybody has seen them: the
next ones are taken to be like the last. Who has seen few begins with few. A backlog of large rows
would otherwise end a relay at its first read, and again whenever it is started.
"""

from __future__ import annotations

FIRST_ROWS = 100
GROWTH = 4
UNSEEN_ROW_BYTES = 8 * 1024
"""What a row is taken to need before one was seen."""


class Appetite:
    """What one reader may ask for."""

    def __init__(self) -> None:
        self.row_bytes: float = UNSEEN_ROW_BYTES
        """What a row of the last read took."""
        self.most = FIRST_ROWS
        """How many the next read may bring, whatever there is room for."""

    def on_read(self, rows: int, size: int) -> None:
        """A read has brought so many rows, of so many bytes together."""
        if rows:
            self.row_bytes = size / rows
            self.most = max(FIRST_ROWS, GROWTH * rows)

    def rows_in(self, room: int) -> int:
        """How many rows are taken to fit into so many bytes."""
        return int(room // self.row_bytes)
