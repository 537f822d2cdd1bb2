"""What is a message to Spark? The columns of every source and sink, in and outside a graph.

The columns that begin with an underscore are the position, by which nothing is written twice.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from windrow.extras import require

if TYPE_CHECKING:
    import pyarrow as pa

SOURCE: Final = "_source"
INCARNATION: Final = "_incarnation"
PARTITION: Final = "_partition"
INDEX: Final = "_index"
ORDINAL: Final = "_ordinal"
TARGET: Final = "_target"
HASH: Final = "_hash"
ROWS: Final = "_rows"
NTH: Final = "_nth"

POSITION_COLUMNS: Final = (SOURCE, INCARNATION, PARTITION, INDEX)

_HEADERS = "array<struct<name:string,value:binary>>"

MESSAGE_DDL: Final = (
    f"{SOURCE} string, {INCARNATION} string, {PARTITION} int, {INDEX} long,"
    f" key binary, value binary, headers {_HEADERS}, topic string, time timestamp"
)
"""What a source gives: where a message stands, and what it says."""

DELIVERY_DDL: Final = f"{TARGET} int, {ROWS} binary"
"""What a sink of a graph takes: which target, and many rows for it, packed by ``chunks.py``."""


@cache
def message_schema() -> pa.Schema:
    """``MESSAGE_DDL`` for Arrow."""
    schema: pa.Schema = require("pyarrow").schema([*_position_fields(), *_content_fields()])
    return schema


@cache
def delivery_schema() -> pa.Schema:
    """``DELIVERY_DDL`` for Arrow."""
    arrow = require("pyarrow")
    schema: pa.Schema = arrow.schema(
        [arrow.field(TARGET, arrow.int32()), arrow.field(ROWS, arrow.binary())]
    )
    return schema


@cache
def chunk_schema() -> pa.Schema:
    """The rows of a chunk: which input of its split, which of its outputs, its hash, its text."""
    arrow = require("pyarrow")
    schema: pa.Schema = arrow.schema(
        [
            arrow.field(NTH, arrow.int64()),
            arrow.field(ORDINAL, arrow.int32()),
            arrow.field(HASH, arrow.string()),
            *_content_fields()[:-1],
        ]
    )
    return schema


def _position_fields() -> list[pa.Field]:
    arrow = require("pyarrow")
    return [
        arrow.field(SOURCE, arrow.string()),
        arrow.field(INCARNATION, arrow.string()),
        arrow.field(PARTITION, arrow.int32()),
        arrow.field(INDEX, arrow.int64()),
    ]


def _content_fields() -> list[pa.Field]:
    arrow = require("pyarrow")
    fields = [arrow.field("name", arrow.string()), arrow.field("value", arrow.binary())]
    header = arrow.struct(fields)
    return [
        arrow.field("key", arrow.binary()),
        arrow.field("value", arrow.binary()),
        arrow.field("headers", arrow.list_(header)),
        arrow.field("topic", arrow.string()),
        arrow.field("time", arrow.timestamp("us", tz="UTC")),
    ]
