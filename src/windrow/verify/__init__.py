"""What was written against what arrived."""

from windrow.verify.errors import NotALedger, WrittenTwice
from windrow.verify.ledger import Ledger, LedgerFile
from windrow.verify.tally import Arrival, Entry, Tally, tally

__all__ = [
    "Arrival",
    "Entry",
    "Ledger",
    "LedgerFile",
    "NotALedger",
    "Tally",
    "WrittenTwice",
    "tally",
]
