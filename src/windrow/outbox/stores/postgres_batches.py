"""The outbox of transactional and journal modes: named batches, one in doubt at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from windrow.outbox.errors import BatchMismatch, DatabaseFailed, Fenced
from windrow.outbox.marked import Marked, as_marked
from windrow.outbox.stores.id_array import Ids
from windrow.outbox.stores.postgres import PostgresStore
from windrow.outbox.stores.ranges import as_multirange
from windrow.outbox.stores.session import PLAN
from windrow.outbox.table import Table


class PostgresBatches(PostgresStore):
    """Purges a committed batch and marks the next in one durable transaction."""

    def __init__(self, dsn: str, table: Table, **options: Any) -> None:
        super().__init__(dsn, table, durable_marks=True, **options)
        self._looking = self._new_session(PLAN)
        self._was_empty = False

    def look_ahead(self, beside: Sequence[int], limit: int) -> list[Marked]:
        """The rows that would come after these, without marking any; from any one thread."""
        parameters = self._fence() | {"limit": limit, "taken": as_multirange(beside)}
        query = self._queries["diff"].replace("{filters}", self._mine)
        return as_marked(self._looking.run(query, parameters).fetchall())

    def purge_and_mark(
        self,
        committed: tuple[UUID, int] | None,
        ids: Sequence[int],
        next_batch: UUID | None,
        limit: int,
        ahead: Sequence[Marked] = (),
    ) -> Sequence[Marked]:
        """Remove the committed batch, name the next; returns its rows in id order.

        Args:
            committed: The name and the row count of the batch that the target holds.
            ids: Its rows, if they are known; otherwise they are found by the name.
            next_batch: The name of the next batch; None to remove only.
            limit: How many rows it may have.
            ahead: What ``look_ahead`` found beside the committed batch: it becomes the next one.

        Raises:
            BatchMismatch: The outbox holds some rows of the committed batch but not all. Nothing
                was changed.
            Fenced: A later leader has raised the epoch. Nothing was changed.
            DatabaseFailed: It may have been done, or not.
        """
        if self._epoch_in_doubt:
            self._renew_epoch()
        if self._was_empty and committed is None and self._is_empty():
            return ()
        try:
            rows = self._purge_and_mark(committed, ids, next_batch, limit, ahead)
        except DatabaseFailed:
            self._epoch_in_doubt = True
            raise
        self._was_empty = not rows
        return rows

    def _is_empty(self) -> bool:
        """Whether there is still nothing: a transaction for each look would be four statements."""
        row = self._reading.run(self._queries["look"], self._fence()).fetchone()
        if row is None or row[0] != self.epoch:
            raise Fenced(str(self.table), self.epoch)
        return not row[1]

    def _purge_and_mark(
        self,
        committed: tuple[UUID, int] | None,
        ids: Sequence[int],
        next_batch: UUID | None,
        limit: int,
        ahead: Sequence[Marked],
    ) -> Sequence[Marked]:
        fence = self._fence()
        with self._reading.transaction() as run:
            if committed is not None:
                uuid, count = committed
                known = f"AND {self._id} = ANY (%(ids)s)" if ids else ""
                purge = self._queries["purge_batch"].replace("{known}", known)
                removed = run(purge, fence | {"committed": uuid, "ids": Ids(ids)}).rowcount
                if removed not in (0, count):
                    raise BatchMismatch(str(uuid), count, removed)
            rows: Sequence[Marked] = ()
            if next_batch is not None:
                rows = self._mark(run, fence | {"next": next_batch, "limit": limit}, ahead)
            if not rows and self._epoch_has_moved(run):
                raise Fenced(str(self.table), self.epoch)
        return rows

    def _mark(
        self, run: Any, parameters: dict[str, Any], ahead: Sequence[Marked]
    ) -> Sequence[Marked]:
        if ahead:
            ids = Ids(row.id for row in ahead)
            if run(self._queries["mark_known"], parameters | {"ids": ids}).rowcount == len(ids):
                return ahead
            # Somebody has taken a row away meanwhile, by hand: look again.
        rows = run(self._queries["mark_batch"], parameters).fetchall()
        rows.sort()
        return as_marked(rows)

    def named_rows(self, *, of_all_shards: bool = False) -> tuple[int, int | None]:
        """How many rows of this shard carry the name of a batch, and the first of them."""
        queries = self._unsharded_queries if of_all_shards else self._queries
        row = self._reading.run(queries["named_rows"], self._fence()).fetchone()
        return (row[0], row[1]) if row else (0, None)

    def release_names(self) -> None:
        """Take the names off all rows, whosever batches they were; for when none is in doubt.

        Raises:
            Fenced: A later leader has raised the epoch. Nothing was changed.
            DatabaseFailed: It may have been done, or not.
        """
        with self._reading.transaction() as run:
            run(self._queries["release_names"], self._fence())
            if self._epoch_has_moved(run):
                raise Fenced(str(self.table), self.epoch)

    def interrupt(self) -> None:
        """Break whatever statement is under way, from any thread."""
        super().interrupt()
        self._looking.interrupt()

    def close(self) -> None:
        """Close all connections."""
        super().close()
        self._looking.close()

    def _epoch_has_moved(self, run: Any) -> bool:
        row = run(self._queries["read_epoch"], {"shard": self.shard}).fetchone()
        return row is None or row[0] != self.epoch
