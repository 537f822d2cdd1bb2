"""How does a row of an outbox become a message? Tables of columns, with no connection in sight."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from windrow.extras import require
from windrow.graph.positions import SourcePartition
from windrow.outbox.marked import Marked
from windrow.spark.columns import message_schema

if TYPE_CHECKING:
    import pyarrow as pa

_FIELDS = slice(2, 2 + len(Marked._fields))

Header = dict[str, Any]


def to_messages(origin: SourcePartition, rows: Sequence[Sequence[Any]]) -> pa.RecordBatch:
    """Rows as ``Ledger.read`` gives them, in the columns of ``message_schema``."""
    arrow = require("pyarrow")
    records = [Marked._make(row[_FIELDS]) for row in rows]
    columns: list[list[Any]] = [
        [origin.source] * len(rows),
        [origin.incarnation] * len(rows),
        [origin.partition] * len(rows),
        [row[0] for row in rows],
        [None if record.key is None else record.key.encode() for record in records],
        [record.value for record in records],
        [headers_of(record) for record in records],
        [record.topic for record in records],
        [row[-1] for row in rows],
    ]
    schema = message_schema()
    arrays = [
        arrow.array(column, type=field.type) for column, field in zip(columns, schema, strict=True)
    ]
    batch: pa.RecordBatch = arrow.RecordBatch.from_arrays(arrays, schema=schema)
    return batch


def headers_of(record: Marked) -> list[Header]:
    """Names and values in order; a value without a name cannot be told, and is left out."""
    pairs = zip_longest(record.header_keys or (), record.header_values or ())
    return [
        {"name": name, "value": None if value is None else value.encode()}
        for name, value in pairs
        if name is not None
    ]
