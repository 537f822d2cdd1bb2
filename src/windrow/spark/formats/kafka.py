"""The format ``windrow-kafka``: topics as a stream, as a batch, and as a sink.

Beside Spark's own format ``kafka`` it reads several topics by name in one source, with the ids of
the topics in its offsets, and its sink is transactional.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSource

from windrow.spark.columns import MESSAGE_DDL
from windrow.spark.formats.options import (
    SHARED,
    Options,
    SourceSettings,
    inputs_of,
    settings_of,
)
from windrow.spark.formats.source import QueueBatchReader, QueueStreamReader
from windrow.spark.places import Connections, Place

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamWriter, DataSourceWriter
    from pyspark.sql.types import StructType

NAME: Final = "windrow-kafka"
SECRETS: Final = "secret_kafka"
BOOTSTRAP: Final = "bootstrap.servers"
FORCED: Final = ("group.id", "isolation.level", "enable.auto.commit", "auto.offset.reset")
"""Properties of readers that decide whether anything is lost: they are not for options to set."""


def kafka_connections(options: Options) -> Connections:
    """How the brokers are reached, by the options of a source or a sink.

    Options ``kafka.…`` are properties of librdkafka; those that are secret are given together in
    the option ``secret_kafka``, as a JSON object.

    Raises:
        InvalidOption: The brokers are not named, or a property is not to be set.
    """
    secrets = options.json(SECRETS) or {}
    properties = {**options.under("kafka."), **secrets}
    if not properties.get(BOOTSTRAP):
        raise options.refused(f"kafka.{BOOTSTRAP}", "give where the brokers are, as host:port")
    for name in FORCED:
        if name in properties:
            raise options.refused(f"kafka.{name}", "is set by the source itself; leave it out")
    return Connections(kafka=properties)


def source_settings(given: Mapping[str, str]) -> SourceSettings:
    """The options of a source.

    Raises:
        UnknownOption: One is not known.
        InvalidOption: One is missing, or out of its range or form.
    """
    options = Options(NAME, given)
    options.check_known((*SHARED, "topic", SECRETS), ("kafka.", "topic."))
    connections = kafka_connections(options)
    places = {
        name: Place(name, "kafka", address, partitions, {}, connections)
        for name, (address, partitions) in inputs_of(options, "topic").items()
    }
    return settings_of(options, places)


class KafkaDataSource(DataSource):
    """``spark.readStream.format("windrow-kafka")``, and the like for batches and writes."""

    @classmethod
    def name(cls) -> str:
        """What it is called in ``format``."""
        return NAME

    def schema(self) -> str:
        """Where a message stands, and what it says."""
        return MESSAGE_DDL

    def reader(self, schema: StructType) -> QueueBatchReader:
        """Reads what lies between two offsets, once."""
        return QueueBatchReader(source_settings(self.options))

    def streamReader(self, schema: StructType) -> QueueStreamReader:
        """Reads on and on."""
        return QueueStreamReader(source_settings(self.options))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Writes a batch, exactly once by the positions of its rows."""
        from windrow.spark.formats.kafka_sink import batch_writer

        return batch_writer(schema, self.options, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Writes a stream, exactly once by the positions of its rows."""
        from windrow.spark.formats.kafka_sink import stream_writer

        return stream_writer(schema, self.options, overwrite)
