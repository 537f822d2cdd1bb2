"""What a replica holds of a journal: spools, fragments, their index, and the stores behind them."""

from windrow.journal.fragments.content import CompletedSpool, SpoolContent, SpoolObserver
from windrow.journal.fragments.cover_set import CoverSet, Entry
from windrow.journal.fragments.index import Answer, Index, page_of
from windrow.journal.fragments.persister import Persister
from windrow.journal.fragments.recover import RecoveredSpool, recover_journal, recover_spools
from windrow.journal.fragments.spool import Spool
from windrow.journal.fragments.spool_file import DurableFiles, MemoryFiles, SpoolFiles

__all__ = [
    "Answer",
    "CompletedSpool",
    "CoverSet",
    "DurableFiles",
    "Entry",
    "Index",
    "MemoryFiles",
    "Persister",
    "RecoveredSpool",
    "Spool",
    "SpoolContent",
    "SpoolFiles",
    "SpoolObserver",
    "page_of",
    "recover_journal",
    "recover_spools",
]
