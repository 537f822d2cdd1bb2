"""The outbox: a table that services write to in their own transactions."""

from windrow.outbox.collector import Collector
from windrow.outbox.errors import (
    InvalidIdentifier,
    InvalidRecord,
    NotInTransaction,
    TransactionEnded,
    UnsupportedConnection,
    WrongSchema,
)
from windrow.outbox.facts import check
from windrow.outbox.health import Finding
from windrow.outbox.record import Record
from windrow.outbox.schema import migrate
from windrow.outbox.stash import AsyncStash, Stash
from windrow.outbox.table import Columns, Table
from windrow.outbox.writer import Outbox

__all__ = [
    "AsyncStash",
    "Collector",
    "Columns",
    "Finding",
    "InvalidIdentifier",
    "InvalidRecord",
    "NotInTransaction",
    "Outbox",
    "Record",
    "Stash",
    "Table",
    "TransactionEnded",
    "UnsupportedConnection",
    "WrongSchema",
    "check",
    "migrate",
]
