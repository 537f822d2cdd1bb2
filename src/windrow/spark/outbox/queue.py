"""An outbox as a queue that a graph, or a query of its own, reads from.

One partition, whose indices the ledger gives. Whoever plans what is read leads: it marks rows, so
that they have an index, and purges what is settled. Whoever only reads, such as the tasks of a
query or somebody who wants to know how much there is, changes nothing.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from windrow.errors import WindrowError
from windrow.graph.delivery_errors import IncarnationChanged, SourceBehind, SourceTrimmed
from windrow.graph.planning import Available
from windrow.graph.positions import SourceOffsets, SourcePartition, Span
from windrow.outbox.table import Table
from windrow.spark.outbox.errors import RowsGone
from windrow.spark.outbox.ledger import LEASE_TTL, Indices, Ledger
from windrow.spark.outbox.rows import to_messages

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_AHEAD: Final = 10_000
"""How many rows beyond what is settled get an index."""
MARK_ROWS: Final = 20_000
"""The most rows of one mark: it holds locks while it runs."""
READ_ROWS: Final = 2_000
"""The most rows of one answer, and of one batch of Arrow."""


class OutboxQueue:
    """A ``QueueReader`` on an outbox.

    Args:
        dsn: The database.
        table: The outbox in it.
        source: What the queue is called: the ``_source`` of its messages.
        rows_ahead: How many rows beyond what is settled get an index.
        fail_on_data_loss: Whether to stop at rows that have an index and are gone.
        lease_ttl: For how long a relay that stands by waits for a sign of life.
    """

    def __init__(
        self,
        dsn: str,
        table: Table,
        source: str,
        *,
        rows_ahead: int = ROWS_AHEAD,
        fail_on_data_loss: bool = True,
        lease_ttl: float = LEASE_TTL,
    ) -> None:
        self.source = source
        self._table = table
        self._rows_ahead = rows_ahead
        self._fail_on_data_loss = fail_on_data_loss
        self._ledger = Ledger(dsn, table, lease_ttl=lease_ttl)
        self._floor: int | None = None
        self._settled: SourceOffsets | None = None

    # -- whoever plans ---------------------------------------------------------------------------

    @property
    def leads(self) -> bool:
        """Whether this one marks and purges."""
        return self._ledger.epoch is not None

    def lead(self, name: str) -> None:
        """Take the outbox over from whoever led it, and mark and purge from now on.

        Waits for what a relay that led before may still have on its way, a few seconds at most.

        Args:
            name: What to be called where people look who leads, such as the processor.

        Raises:
            DividedOutbox: Several relays share the outbox.
        """
        delay = self._ledger.take_over(name)
        self._floor = self._settled = None
        if delay:
            time.sleep(delay)  # there is no event to wait for: the relay may be gone for good

    def settled(self, offsets: SourceOffsets) -> None:
        """Purge what nobody will ask for again; does nothing unless this one leads.

        Only what is in the commit log of a query, or in the delivered record of a sink, is settled.
        Rows are purged by whole batches.

        Raises:
            IncarnationChanged: The offsets are of another outbox of this name.
            SourceBehind: They are ahead of it, so that they are not of its rows.
            Fenced: Another one has taken over; nothing was changed.
            DatabaseFailed: It may have been done, or not; do it again.
        """
        if not self.leads or offsets == self._settled:
            return
        indices = self._ledger.look()
        origin = self._origin(indices)
        offsets.check_incarnations([origin])
        index = offsets.get(origin)
        if index > indices.end:
            raise SourceBehind(self.source, 0, index, indices.end)
        if index > indices.first:
            self._ledger.purge(index)
        self._settled, self._floor = offsets, index

    def reach(self, end: int) -> Indices:
        """Give rows an index until it comes to ``end``, or there are no more rows.

        Raises:
            Fenced: Another one has taken over; nothing was changed.
            DatabaseFailed: Rows may have been marked, or not; the next look tells.
        """
        self._ledger.renew()
        indices = self._ledger.look()
        while self.leads and indices.end < end:
            if not self._ledger.mark(min(end - indices.end, MARK_ROWS)):
                break
            indices = self._ledger.look()
        return indices

    def reach_all(self) -> Indices:
        """Give all rows an index that are visible now."""
        return self.reach(self._ledger.look().end + self._ledger.waiting(None))

    def waiting(self, limit: int | None = None) -> int:
        """How many visible rows have no index yet, counted up to a limit."""
        return self._ledger.waiting(limit)

    # -- whoever reads ---------------------------------------------------------------------------

    def indices(self) -> Indices:
        """What has an index now; changes nothing."""
        return self._ledger.look()

    def available(self) -> Sequence[Available]:
        """What has an index; if this one leads, more rows get one first."""
        if self._floor is None:
            # What is found may be delivered already: until that is known it is not ahead.
            self._floor = self._ledger.look().end
        indices = self.reach(self._floor + self._rows_ahead)
        return [Available(self.source, indices.incarnation, 0, indices.first, indices.end)]

    def cuts(self, origin: SourcePartition) -> Sequence[int]:
        """None: reading begins at any index at once."""
        return ()

    def read(self, span: Span, part: int = 0, parts: int = 1) -> Iterator[pa.RecordBatch]:
        """All messages of a span in order, or those of one part of it.

        Args:
            span: A range of indices.
            part: Which of several parts; all messages of a key are in the same one.
            parts: How many parts there are.

        Raises:
            SourceTrimmed: Some of them are purged.
            SourceBehind: Some of them were never given an index.
            IncarnationChanged: It is another outbox by now.
            RowsGone: Some of them were taken away by somebody else.
        """
        for start in range(span.start, span.end, READ_ROWS):
            piece = span.part(start, min(start + READ_ROWS, span.end))
            rows = self._ledger.read(piece.start, piece.end, part, parts)
            # Asked afterwards: what is purged never returns, so all of it was there before.
            self._check_cover(piece)
            present = self._present(rows)
            if present:
                yield to_messages(span.origin, present)

    def close(self) -> None:
        """End all connections, and leave the outbox to whoever wants it."""
        with contextlib.suppress(WindrowError):  # the lease ends by itself
            self._ledger.resign()
        self._ledger.close()

    def _origin(self, indices: Indices) -> SourcePartition:
        return SourcePartition(self.source, indices.incarnation, 0)

    def _check_cover(self, piece: Span) -> None:
        cover = self._ledger.cover(piece.start, piece.end)
        if cover.incarnation != piece.incarnation:
            known, index = piece.incarnation, piece.start
            raise IncarnationChanged(self.source, 0, known, cover.incarnation, index)
        if cover.holds(piece.start, piece.end):
            return
        indices = self._ledger.look()
        if indices.end < piece.end:
            raise SourceBehind(self.source, 0, piece.end, indices.end)
        raise SourceTrimmed(self.source, 0, piece.start, indices.first)

    def _present(self, rows: list[Sequence[Any]]) -> list[Sequence[Any]]:
        gone = [row[0] for row in rows if row[1]]
        if not gone:
            return rows
        if self._fail_on_data_loss:
            raise RowsGone(str(self._table), len(gone), gone[0], gone[-1])
        return [row for row in rows if not row[1]]
