"""What was written against what arrived."""

from windrow.verify.compare import Source, compare
from windrow.verify.comparison import Comparison, Example
from windrow.verify.errors import (
    BadQuery,
    BadSource,
    NoId,
    NoRoom,
    NotALedger,
    UnreadableSource,
    WrittenTwice,
)
from windrow.verify.ledger import Ledger, LedgerFile
from windrow.verify.tally import Arrival, Entry, Tally, tally

__all__ = [
    "Arrival",
    "BadQuery",
    "BadSource",
    "Comparison",
    "Entry",
    "Example",
    "Ledger",
    "LedgerFile",
    "NoId",
    "NoRoom",
    "NotALedger",
    "Source",
    "Tally",
    "UnreadableSource",
    "WrittenTwice",
    "compare",
    "tally",
]
