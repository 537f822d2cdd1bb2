"""The format ``windrow-http``, a sink: each row is posted, at least once.

Options: ``url`` and ``uid``; ``timeout``, ``attempts``, ``max_delay``, ``content_type``; and, as
JSON objects, ``headers`` and ``secret_headers``. With ``progress``, the name of a journal, and the
``address`` of its brokers, what was posted is remembered there, and a replay posts only the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource

from windrow.spark.formats.journal import CONNECTION_OPTIONS, journal_connections
from windrow.spark.formats.options import Options
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

NAME: Final = "windrow-http"
PLAIN_OPTIONS: Final = ("attempts", "content_type", "max_delay", "timeout")
HEADER_OPTIONS: Final = ("headers", "secret_headers")


class HttpSink(DataSource):
    """``frame.writeStream.format("windrow-http")``."""

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
    names = ("url", "progress", *PLAIN_OPTIONS, *HEADER_OPTIONS, *CONNECTION_OPTIONS)
    options = sink_options(NAME, given, overwrite, names)
    url = required(options, "url", "path")
    more: dict[str, Any] = {name: options.get(name) for name in PLAIN_OPTIONS if options.get(name)}
    more |= {name: _headers(options, name) for name in HEADER_OPTIONS if options.get(name)}
    effect = Place(url, "http", url, 1, more)
    journal = options.get("progress")
    progress: Place | None = None
    if journal:
        progress = Place(journal, "journal", journal, 1, {}, journal_connections(options))
    return sink_of(options, schema, progress, effect=effect)


def _headers(options: Options, name: str) -> dict[str, str]:
    given: dict[str, Any] = options.json(name)
    if not all(isinstance(value, str) for value in given.values()):
        raise options.refused(name, 'must be a JSON object of texts, as {"X-Shop": "12"}')
    return given
