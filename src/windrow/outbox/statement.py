"""Which INSERT stashes these records? Pure: a table, records and a parameter style in, SQL out.

A record that uses nothing beyond goharvest's columns gets goharvest's own INSERT, so that its table
takes it unchanged and nobody has to ask the database which columns it has. Casts are written out
and parameters are plain values and lists of them, so that one text serves every driver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from windrow.outbox.record import Record
from windrow.outbox.table import Table, in_format

ParamStyle = Literal[
    "format", "pyformat", "qmark", "numeric", "named", "numeric_dollar", "binary_format"
]
"""The DB-API's, asyncpg's, and psycopg's ``%b``, which spares it to escape text in Python."""
Parameters = tuple[Any, ...] | dict[str, Any]

MAX_RECORDS = 1_000
MAX_BYTES = 8 * 1024 * 1024
"""How much one statement carries: more would gain nothing, and hold it all in memory twice."""


class Statement(NamedTuple):
    """What to run, ready for a driver of its parameter style."""

    sql: str
    parameters: Parameters


class _Field(NamedTuple):
    column: str
    type: str
    of: Callable[[Record], Any]

    @property
    def is_array(self) -> bool:
        return self.column.startswith("kafka_header_")


def _array(elements: Iterable[str | None]) -> str:
    """A text[] as PostgreSQL writes it: rows of different lengths fit into one column of text."""
    return "{" + ",".join(map(_element, elements)) + "}"


def _element(text: str | None) -> str:
    if text is None:
        return "NULL"
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


_PLAIN = (
    _Field("kafka_topic", "text", lambda r: r.topic),
    _Field("kafka_key", "text", lambda r: r.key),
    _Field("kafka_value", "text", lambda r: r.value if isinstance(r.value, str) else None),
    _Field("kafka_header_keys", "text", lambda r: _array(name for name, _ in r.headers)),
    _Field("kafka_header_values", "text", lambda r: _array(value for _, value in r.headers)),
)
_EXTENDED = (
    *_PLAIN,
    _Field("kafka_value_bytes", "bytea", lambda r: r.value if isinstance(r.value, bytes) else None),
    _Field("kafka_partition", "integer", lambda r: r.partition),
    _Field("kafka_timestamp", "timestamptz", lambda r: r.timestamp),
)


def uses_extension(record: Record) -> bool:
    """Whether it needs a column that goharvest's table does not have."""
    return (
        isinstance(record.value, bytes)
        or record.partition is not None
        or record.timestamp is not None
    )


def insert_statement(
    table: Table, records: Sequence[Record], style: ParamStyle = "format"
) -> Statement:
    """One INSERT of all these records, which returns their ids in the order of the records."""
    is_extended = any(map(uses_extension, records))
    fields = _EXTENDED if is_extended else _PLAIN
    is_one = len(records) == 1
    values = (
        [field.of(records[0]) for field in fields]
        if is_one
        else [[field.of(record) for record in records] for field in fields]
    )
    return Statement(_insert_sql(table, is_extended, is_one, style), bind(values, style))


def in_chunks(
    records: Iterable[Record], max_records: int = MAX_RECORDS, max_bytes: int = MAX_BYTES
) -> Iterator[list[Record]]:
    """The records in runs that fit into one statement each."""
    chunk: list[Record] = []
    size = 0
    for record in records:
        length = 0 if record.value is None else len(record.value)
        if chunk and (len(chunk) >= max_records or size + length > max_bytes):
            yield chunk
            chunk, size = [], 0
        chunk.append(record)
        size += length
    if chunk:
        yield chunk


@lru_cache(maxsize=256)
def _insert_sql(table: Table, is_extended: bool, is_one: bool, style: ParamStyle) -> str:
    fields = _EXTENDED if is_extended else _PLAIN
    marks = [mark_of(number, style) for number in range(1, len(fields) + 1)]
    columns = ", ".join(field.column for field in fields)
    # Where a percent sign means a parameter, one in a name is written twice.
    outbox = in_format(table.sql) if "format" in style else table.sql
    rows = _one_row(fields, marks) if is_one else _many_rows(fields, marks)
    return f"INSERT INTO {outbox} (create_time, {columns}) {rows} RETURNING id"


def _one_row(fields: Sequence[_Field], marks: Sequence[str]) -> str:
    values = [
        # Through text, or a driver that asks for the type would want a list here.
        f"CAST(CAST({mark} AS text) AS text[])" if field.is_array else mark
        for field, mark in zip(fields, marks, strict=True)
    ]
    return f"VALUES (now(), {', '.join(values)})"


def _many_rows(fields: Sequence[_Field], marks: Sequence[str]) -> str:
    columns = ", ".join(field.column for field in fields)
    values = ", ".join(
        f"CAST({field.column} AS text[])" if field.is_array else field.column for field in fields
    )
    lists = ", ".join(
        f"CAST({mark} AS {field.type}[])" for field, mark in zip(fields, marks, strict=True)
    )
    # Ids are drawn after the sort: without it their order would be the planner's choice.
    return (
        f"SELECT now(), {values} FROM unnest({lists})"
        f" WITH ORDINALITY AS given ({columns}, position) ORDER BY position"
    )


def mark_of(number: int, style: ParamStyle) -> str:
    """What stands for the parameter of that number, the first being 1."""
    match style:
        case "format":
            return "%s"
        case "pyformat":
            return f"%(p{number})s"
        case "qmark":
            return "?"
        case "numeric":
            return f":{number}"
        case "named":
            return f":p{number}"
        case "numeric_dollar":
            return f"${number}"
        case "binary_format":
            return "%b"


def bind(values: Sequence[Any], style: ParamStyle) -> Parameters:
    """The values as that style wants them: by name, or in order."""
    if style in ("pyformat", "named"):
        return {f"p{number}": value for number, value in enumerate(values, start=1)}
    return tuple(values)
