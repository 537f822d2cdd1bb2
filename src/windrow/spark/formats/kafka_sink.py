"""The format ``windrow-kafka`` as a sink, exactly once for readers of committed records.

Options: ``topic`` and ``uid``; how the brokers are reached, as for the source; and ``markerTopic``
for the topic of the markers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from windrow.spark.formats.kafka import NAME, SECRETS, kafka_connections
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

NAMES: Final = ("topic", "markerTopic", SECRETS)


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
    options = sink_options(NAME, given, overwrite, NAMES, ("kafka.",))
    topic = required(options, "topic", "path")
    markers = options.get("markerTopic")
    more = {"marker_topic": markers} if markers else {}
    place = Place(topic, "kafka", topic, None, more, kafka_connections(options))
    return sink_of(options, schema, place)
