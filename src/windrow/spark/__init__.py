"""Windrow on Spark; the only package that imports pyspark."""

from windrow.spark.errors import SessionExists
from windrow.spark.session import build_session, stop_session

__all__ = ["SessionExists", "build_session", "stop_session"]
