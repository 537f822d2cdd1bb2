"""The format ``windrow-journal`` as a sink.

Options: ``journal`` (or the path) and ``uid``; how the brokers are reached, as for the source; and
``partitions`` where there are several journals ``<journal>/part-000`` and so on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from windrow.spark.formats.journal import CONNECTION_OPTIONS, NAME, journal_connections
from windrow.spark.formats.standalone import (
    StandaloneSink,
    StandaloneStreamWriter,
    StandaloneWriter,
    required,
    sink_of,
    sink_options,
)
from windrow.spark.places import Place

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

NAMES: Final = ("journal", "partitions", *CONNECTION_OPTIONS)


def stream_writer(
    schema: StructType, options: Mapping[str, str], overwrite: bool
) -> StandaloneStreamWriter:
    """The writer of a stream."""
    return StandaloneStreamWriter(_sink(schema, options, overwrite))


def batch_writer(
    schema: StructType, options: Mapping[str, str], overwrite: bool
) -> StandaloneWriter:
    """The writer of a frame."""
    return StandaloneWriter(_sink(schema, options, overwrite))


def _sink(schema: StructType, given: Mapping[str, str], overwrite: bool) -> StandaloneSink:
    options = sink_options(NAME, given, overwrite, NAMES)
    journal = required(options, "journal", "path")
    connections = journal_connections(options)
    place = Place(journal, "journal", journal, options.count("partitions"), {}, connections)
    return sink_of(options, schema, place)
