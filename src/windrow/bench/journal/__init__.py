"""Part ``journal``: what appends, reads and allocation cost."""

from windrow.bench.journal.measures import measure

__all__ = ["measure"]
