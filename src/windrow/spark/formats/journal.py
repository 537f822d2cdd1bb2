"""The format ``windrow-journal``: journals as a stream, as a batch, and as a sink."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from pydantic import ValidationError
from pyspark.sql.datasource import DataSource

from windrow.config import Secret
from windrow.config.journal import Journal, JournalTls
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

NAME: Final = "windrow-journal"
_TLS: Final = ("ca_file", "cert_file", "key_file", "server_name")
CONNECTION_OPTIONS: Final = ("address", "secret_token", "zone", "file_root", "patience", *_TLS)


def journal_connections(options: Options) -> Connections:
    """How the brokers are reached, by the options of a source or a sink.

    Raises:
        InvalidOption: An option is not of its form.
    """
    given = {name: options.get(name) for name in ("address", "zone", "file_root", "patience")}
    section = {name: text for name, text in given.items() if text}
    tls = {name: options.get(name) for name in _TLS if options.get(name)}
    token = options.get("secret_token")
    try:
        return Connections(
            journal=Journal.model_validate(
                section
                | ({"token": Secret(token)} if token else {})
                | ({"tls": JournalTls.model_validate(tls)} if tls else {})
            )
        )
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0]) if first["loc"] else "address"
        name = "secret_token" if name == "token" else name
        raise options.refused(name, first["msg"]) from None


def source_settings(given: Mapping[str, str]) -> SourceSettings:
    """The options of a source.

    Raises:
        UnknownOption: One is not known.
        InvalidOption: One is missing, or out of its range or form.
    """
    options = Options(NAME, given)
    options.check_known((*SHARED, "journal", *CONNECTION_OPTIONS), ("journal.",))
    connections = journal_connections(options)
    places = {
        name: Place(name, "journal", address, partitions, {}, connections)
        for name, (address, partitions) in inputs_of(options, "journal").items()
    }
    return settings_of(options, places)


class JournalDataSource(DataSource):
    """``spark.readStream.format("windrow-journal")``, and the like for batches and writes."""

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
        from windrow.spark.formats.journal_sink import batch_writer

        return batch_writer(schema, self.options, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Writes a stream, exactly once by the positions of its rows."""
        from windrow.spark.formats.journal_sink import stream_writer

        return stream_writer(schema, self.options, overwrite)
