"""Claims on an outbox in a file of SQLite's."""

from __future__ import annotations

from windrow.config import Dsn
from windrow.outbox.claims.elsewhere import ClaimsElsewhere
from windrow.outbox.claims.session import ClaimSession
from windrow.outbox.dialects.names import SQLITE
from windrow.outbox.table import Table


class SQLiteClaims(ClaimsElsewhere):
    """There is one writer at a time: ``BEGIN IMMEDIATE`` is the lock of all rows.

    Others wait for their turn, ``answer_timeout`` at the longest; the journal is a WAL, so that
    readers and the writer do not wait for each other.
    """

    def __init__(self, dsn: Dsn, table: Table, answer_timeout: float) -> None:
        super().__init__(ClaimSession(dsn, SQLITE, answer_timeout, answer_timeout), table)
