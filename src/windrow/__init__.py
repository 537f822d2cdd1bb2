"""Windrow: from the database transaction to the last consumer, exactly once."""

from windrow.version import __version__

__all__ = ["__version__"]
