"""The whole road on embedded parts, with three kills on the way and a verdict of its own.

Every worker of Spark imports this package to find the graph's functions, so it brings little along.
"""

from windrow.demo.errors import DemoStalled, NoVerdict, PartEnded

__all__ = ["DemoStalled", "NoVerdict", "PartEnded"]
