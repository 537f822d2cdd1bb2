"""What sources give: keys and ids as columns of bytes, however they came.

Text is compared, since the ends of a road seldom agree on types: an id that is a number in a table
is text in a header. A missing key is the empty key; a missing id is an error.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from windrow.verify.errors import NoId

SCHEMA = pa.schema(
    [pa.field("key", pa.binary(), False), pa.field("id", pa.binary(), False), ("maybe", pa.bool_())]
)
"""``maybe`` is null or true: whether nobody knows if the record was written."""


def make_batch(
    source: str, read_before: int, keys: pa.Array | None, ids: pa.Array, maybe: pa.Array = None
) -> pa.RecordBatch:
    """A batch of records from columns of any type.

    Args:
        source: What to call the source in an error.
        read_before: How many records the source gave before these.
        keys: None if there are none.
        ids: As many.
        maybe: As many, or None if all were written for certain.

    Raises:
        NoId: One of them has none.
    """
    ids = as_bytes(ids)
    if ids.null_count:
        raise NoId(source, read_before + pc.index(ids.is_null(), True).as_py() + 1)
    if keys is None:
        keys = pa.repeat(pa.scalar(b"", pa.binary()), len(ids))
    keys = as_bytes(keys)
    if keys.null_count:
        keys = keys.fill_null(b"")
    if maybe is None:
        maybe = pa.nulls(len(ids), pa.bool_())
    return pa.record_batch([keys, ids, maybe], schema=SCHEMA)


def as_bytes(column: pa.Array) -> pa.Array:
    """A column as the bytes of its text, in one piece."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if column.type == pa.binary():
        return column
    if not (pa.types.is_string(column.type) or pa.types.is_binary(column.type)):
        column = column.cast(pa.string())
    return column.cast(pa.binary())


def column_of(values: Sequence[Any]) -> pa.Array:
    """A column from Python's objects: at once if they are of one usual type."""
    kinds = set(map(type, values)) - {type(None)}
    try:
        if kinds == {str}:
            return pa.array(values, pa.string()).cast(pa.binary())
        if kinds == {int}:
            return pa.array(values, pa.int64()).cast(pa.string()).cast(pa.binary())
        if kinds == {bytes}:
            return pa.array(values, pa.binary())
    except (pa.ArrowInvalid, OverflowError, UnicodeEncodeError):
        pass  # a number beyond 64 bits, or half of a surrogate: one by one
    return pa.array([bytes_of(value) for value in values], pa.binary())


def bytes_of(value: Any) -> bytes | None:
    """One value as the bytes of its text, as JSON has it where JSON has its type."""
    match value:
        case None:
            return None
        case bytes() | bytearray() | memoryview():
            return bytes(value)
        case str():
            text = value
        case bool() | dict() | list():
            text = json.dumps(value, separators=(",", ":"), sort_keys=True)
        case _:
            text = str(value)
    return text.encode("utf-8", "surrogatepass")
