"""What can stand in the way of reading an outbox as a queue."""

from __future__ import annotations

from windrow.errors import UsageError
from windrow.graph.delivery_errors import Refused


class RowsGone(Refused):
    """Rows that were given an index are in the outbox no more, and were not purged by a source."""

    def __init__(self, table: str, count: int, first: int, last: int) -> None:
        super().__init__(table, count, first, last)
        self.table, self.count = table, count
        self.first, self.last = first, last

    def __str__(self) -> str:
        return (
            f"table {self.table}: {self.count} rows with indices from {self.first} to {self.last}"
            " are gone, though nobody has delivered them from here: a relay has sent them, or they"
            " were deleted by hand; restore them, or give them up with failOnDataLoss=false"
        )


class DividedOutbox(UsageError):
    """Several relays share the outbox by key, and a source would be one leader of all of it."""

    def __init__(self, table: str, shards: int) -> None:
        super().__init__(table, shards)
        self.table, self.shards = table, shards

    def __str__(self) -> str:
        return (
            f"table {self.table} is divided among the relays of {self.shards} shards, and a source"
            " reads all of it; stop them, start one with relay.shards = 1, stop it, and try again"
        )


class NoDatabase(UsageError):
    """A queue lives in an outbox, and nothing says in which database."""

    def __init__(self, queue: str, table: str) -> None:
        super().__init__(queue, table)
        self.queue, self.table = queue, table

    def __str__(self) -> str:
        return (
            f'queue "{self.queue}" lives in the outbox {self.table}, but no database is'
            " configured; set database.dsn, or WINDROW__DATABASE__DSN"
        )
