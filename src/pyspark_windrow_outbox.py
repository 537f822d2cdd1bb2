"""Spark finds the format ``windrow-outbox`` by the name of this module.

A module of such a name that fails to import breaks every Python data source of its environment.
"""

try:
    from windrow.spark.formats.outbox import OutboxSource as DefaultSource
except ImportError:  # an environment that lacks an extra; others find their formats all the same
    pass
else:
    __all__ = ["DefaultSource"]
