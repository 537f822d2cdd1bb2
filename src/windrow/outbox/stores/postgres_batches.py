"""The outbox of transactional and journal modes: named batches, one in doubt at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from windrow.outbox.errors import BatchMismatch, Fenced
from windrow.outbox.marked import Marked
from windrow.outbox.stores.postgres import PostgresStore


class PostgresBatches(PostgresStore):
    """Purges a committed batch and marks the next in one durable transaction."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, durable_marks=True, **kwargs)

    def purge_and_mark(
        self,
        committed: tuple[UUID, int] | None,
        ids: Sequence[int],
        next_batch: UUID | None,
        limit: int,
    ) -> list[Marked]:
        """Remove the committed batch, name the next; returns its rows in id order.

        Args:
            committed: The name and the row count of the batch that the target holds.
            ids: Its rows, if they are known; otherwise they are found by the name.
            next_batch: The name of the next batch; None to remove only.
            limit: How many rows it may have.

        Raises:
            BatchMismatch: The outbox holds some rows of the committed batch but not all. Nothing
                was changed.
            Fenced: A later leader has raised the epoch. Nothing was changed.
            DatabaseFailed: It may have been done, or not.
        """
        fence: dict[str, Any] = {"shard": self.shard, "epoch": self.epoch}
        with self._reading.transaction() as run:
            if committed is not None:
                uuid, count = committed
                known = f"AND {self._id} = ANY (%(ids)s)" if ids else ""
                purge = self._queries["purge_batch"].replace("{known}", known)
                removed = run(purge, fence | {"committed": uuid, "ids": ids}).rowcount
                if removed not in (0, count):
                    raise BatchMismatch(str(uuid), count, removed)
            rows: list[Any] = []
            if next_batch is not None:
                mark = self._queries["mark_batch"]
                rows = run(mark, fence | {"next": next_batch, "limit": limit}).fetchall()
            if not rows and self._epoch_has_moved(run):
                raise Fenced(str(self.table), self.epoch)
        rows.sort()
        return list(map(Marked._make, rows))

    def _epoch_has_moved(self, run: Any) -> bool:
        row = run(self._queries["read_epoch"], {"shard": self.shard}).fetchone()
        return row is None or row[0] != self.epoch
