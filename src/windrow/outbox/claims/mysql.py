"""Claims on an outbox in MariaDB (10.6 and later) or MySQL (8.0 and later)."""

from __future__ import annotations

from windrow.config import Dsn
from windrow.outbox.claims.elsewhere import ClaimsElsewhere
from windrow.outbox.claims.session import ClaimSession
from windrow.outbox.dialects.names import MYSQL
from windrow.outbox.table import Table


class MySQLClaims(ClaimsElsewhere):
    """Due rows are locked by ``SELECT … FOR UPDATE SKIP LOCKED``, then leased.

    At ``READ COMMITTED``: no gap is locked, so writers never wait for a claim.
    """

    def __init__(
        self, dsn: Dsn, table: Table, connect_timeout: float, answer_timeout: float
    ) -> None:
        super().__init__(ClaimSession(dsn, MYSQL, connect_timeout, answer_timeout), table)
