"""Part ``graph``: what a processor costs on Spark."""

from windrow.bench.graph.measures import measure

__all__ = ["measure"]
