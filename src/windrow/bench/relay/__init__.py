"""Part ``relay``: how fast the outbox is emptied, what it costs, and how soon a record arrives."""

from windrow.bench.relay.measures import measure

__all__ = ["measure"]
