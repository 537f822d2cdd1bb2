"""Spark's Python processes, forked from one that has loaded all they need."""

from windrow.spark.forks.start import Forks

__all__ = ["Forks"]
