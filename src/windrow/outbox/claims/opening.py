"""Which store serves the outbox at that address?"""

from __future__ import annotations

from windrow.config import Dsn
from windrow.errors import UsageError
from windrow.outbox.claims.contract import ClaimStore
from windrow.outbox.table import Table

CONNECT_TIMEOUT = 5.0
ANSWER_TIMEOUT = 10.0


class InvalidAddress(UsageError):
    """An address of no database that holds outboxes; it is not quoted, for its password."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"the address of the outbox {self.reason}"


def open_claims(
    dsn: str,
    table: Table,
    *,
    pooler: bool = False,
    connect_timeout: float = CONNECT_TIMEOUT,
    answer_timeout: float = ANSWER_TIMEOUT,
) -> ClaimStore:
    """A store of claims for that outbox, not opened yet: nothing is connected before ``open``.

    Args:
        dsn: ``postgresql://…`` or libpq's other form, ``mysql://…`` or ``sqlite:///path``.
        table: The outbox.
        pooler: Whether a transaction pooler stands before PostgreSQL.
        connect_timeout: How long to wait for a connection.
        answer_timeout: How long to wait for the answer to a statement before it is given up; on
            SQLite, how long to wait for other writers.

    Raises:
        InvalidAddress: It is none of these.
    """
    try:
        address = Dsn(dsn)
    except ValueError as error:
        raise InvalidAddress(str(error)) from None
    match address.system:
        case "postgresql":
            from windrow.outbox.claims.postgres import PostgresClaims

            return PostgresClaims(
                dsn,
                table,
                pooler=pooler,
                connect_timeout=connect_timeout,
                answer_timeout=answer_timeout,
            )
        case "mysql":
            from windrow.outbox.claims.mysql import MySQLClaims

            return MySQLClaims(address, table, connect_timeout, answer_timeout)
        case "sqlite":
            from windrow.outbox.claims.sqlite import SQLiteClaims

            return SQLiteClaims(address, table, answer_timeout)
