"""Spark finds the format ``windrow-graph`` by the name of this module.

A module of such a name that fails to import breaks every Python data source of its environment.
"""

try:
    from windrow.spark.formats.graph import GraphDataSource as DefaultSource
except ImportError:  # an environment that lacks an extra; others find their formats all the same
    pass
else:
    __all__ = ["DefaultSource"]
