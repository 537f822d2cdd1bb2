"""Part ``competing``: how fast relays that share an outbox post its messages, and at what cost."""

from windrow.bench.competing.measures import measure

__all__ = ["measure"]
