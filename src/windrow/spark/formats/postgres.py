"""The format ``windrow-postgres``, a sink: rows and progress in one transaction.

Options: ``secret_dsn``, ``table`` (or ``dbtable``) and ``uid``; ``schema``; ``key`` with the key
columns makes rows take the place of those with the same key; ``columns`` set to ``raw`` for
messages as they are. A frame without a column ``value`` is written by the names of its columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSource

from windrow.config import Dsn
from windrow.spark.formats.standalone import (
    StandaloneSink,
    StandaloneStreamWriter,
    StandaloneWriter,
    required,
    sink_of,
    sink_options,
)
from windrow.spark.places import Connections, Place

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

NAME: Final = "windrow-postgres"
TABLE_OPTIONS: Final = ("schema", "mode", "key", "columns")


class PostgresSink(DataSource):
    """``frame.writeStream.format("windrow-postgres")``."""

    @classmethod
    def name(cls) -> str:
        """What it is called in ``format``."""
        return NAME

    def streamWriter(self, schema: StructType, overwrite: bool) -> StandaloneStreamWriter:
        """The writer of a stream."""
        return StandaloneStreamWriter(_sink(schema, self.options, overwrite))

    def writer(self, schema: StructType, overwrite: bool) -> StandaloneWriter:
        """The writer of a frame."""
        return StandaloneWriter(_sink(schema, self.options, overwrite))


def _sink(schema: StructType, given: Mapping[str, str], overwrite: bool) -> StandaloneSink:
    names = ("secret_dsn", "table", "dbtable", *TABLE_OPTIONS)
    options = sink_options(NAME, given, overwrite, names)
    table = required(options, "table", "dbtable", "path")
    try:
        dsn = Dsn(required(options, "secret_dsn"))
    except ValueError as error:  # which never quotes it
        raise options.refused("secret_dsn", str(error)) from None
    more = {name: options.get(name) for name in TABLE_OPTIONS if options.get(name)}
    place = Place(table, "postgres", table, 1, more, Connections(postgres_dsn=dsn))
    return sink_of(options, schema, place, makes_values=True)
