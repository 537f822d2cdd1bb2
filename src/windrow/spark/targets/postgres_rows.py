"""How do rows become statements? By the names in a JSON value, or the message as it is. Pure.

One statement takes a run of rows that set the same columns: the database itself turns their JSON
into its types. Nothing reaches SQL except quoted names and types that the database told.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, Literal, get_args

from windrow.graph.sink_rows import SinkRow
from windrow.outbox.table import Table, in_format, quote
from windrow.spark.stores import Content
from windrow.spark.targets.errors import RowRefused, TargetUnusable
from windrow.spark.targets.rows import content_of, position_text

Mode = Literal["append", "upsert"]
Form = Literal["json", "raw"]
Shape = Mapping[str, str]
"""The columns of a table and their types, as the database writes them."""

RAW_COLUMNS = ("key", "value", "headers", "topic", "time", "delivery_hash")
OPTIONS = ("schema", "mode", "key", "columns")


@dataclass(frozen=True, slots=True)
class TableOptions:
    """What a queue on a table is declared with.

    Attributes:
        table: Where rows go.
        mode: Whether a row takes the place of one with the same key.
        key: The columns of that key; it needs a unique index.
        form: Whether columns have the names in the JSON value, or are those of the message.
    """

    table: Table
    mode: Mode = "append"
    key: tuple[str, ...] = ()
    form: Form = "json"

    @classmethod
    def read(cls, address: str, options: Mapping[str, Any]) -> TableOptions:
        """From what was declared: ``schema``, ``mode``, ``key`` and ``columns``.

        Raises:
            TargetUnusable: An option is not one of these, or has no such value.
        """
        parsed = Table.parse(address)
        table = Table(parsed.name, options.get("schema") or parsed.schema)
        given = options.get("key") or ()
        key = tuple(given.split(",")) if isinstance(given, str) else tuple(given)
        key = tuple(column.strip() for column in key)
        mode: Any = options.get("mode") or ("upsert" if key else "append")
        form: Any = options.get("columns") or "json"
        problem = _problem(options, key, mode, form)
        if problem is not None:
            raise TargetUnusable("table", str(table), problem)
        return cls(table, mode, key, form)


def _problem(options: Mapping[str, Any], key: Sequence[str], mode: str, form: str) -> str | None:
    unknown = sorted(set(options) - set(OPTIONS))
    if unknown:
        return f"it has no option {unknown[0]!r}; there are {', '.join(OPTIONS)}"
    if mode not in get_args(Mode):
        return f"mode is {mode!r}; it can be append or upsert"
    if form not in get_args(Form):
        return f"columns is {form!r}; it can be json or raw"
    if mode == "upsert" and not key:
        return 'mode "upsert" needs the option "key": the columns that tell rows apart'
    return None


@dataclass(frozen=True, slots=True)
class Statement:
    """SQL with its parameters, and the rows that it writes."""

    sql: str
    parameters: tuple[Any, ...]
    rows: Sequence[SinkRow]


@dataclass(frozen=True, slots=True)
class _Parsed:
    row: SinkRow
    content: Content
    columns: tuple[str, ...]
    """None of them for a tombstone."""
    key: tuple[str, ...]


def statements(rows: Sequence[SinkRow], options: TableOptions, shape: Shape) -> list[Statement]:
    """What to run to write the rows, in their order.

    Raises:
        RowRefused: A row cannot be one of this table.
        TargetUnusable: The table has none of the columns that it needs.
    """
    parse = _parse_raw if options.form == "raw" else _parse_json
    parsed = [parse(row, options, shape) for row in rows]
    return [
        _statement(list(run), columns, options, shape)
        for columns, run in groupby(parsed, lambda one: one.columns)
    ]


def _statement(
    run: Sequence[_Parsed], columns: Sequence[str], options: TableOptions, shape: Shape
) -> Statement:
    if options.mode == "upsert":
        # One statement cannot write the same row twice; of one key the last one counts.
        run = list({one.key: one for one in run}.values())
    rows = [one.row for one in run]
    if not columns:
        return _delete(run, rows, options, shape)
    names = ", ".join(map(_quoted, columns))
    if options.form == "raw":
        source, parameters = _raw_source(run, columns, shape)
    else:
        text = ",".join([(one.content.value or b"").decode() for one in run])
        source = (
            f"SELECT {names} FROM jsonb_populate_recordset(NULL::{_sql(options.table)}, %s::jsonb)"
        )
        parameters = (f"[{text}]",)
    sql = f"INSERT INTO {_sql(options.table)} ({names}) {source}{_conflict(columns, options)}"
    return Statement(sql, parameters, rows)


def _conflict(columns: Sequence[str], options: TableOptions) -> str:
    if options.mode == "append":
        return ""
    key = ", ".join(map(_quoted, options.key))
    others = [f"{_quoted(c)} = EXCLUDED.{_quoted(c)}" for c in columns if c not in options.key]
    action = f"UPDATE SET {', '.join(others)}" if others else "NOTHING"
    return f" ON CONFLICT ({key}) DO {action}"


def _delete(
    run: Sequence[_Parsed], rows: Sequence[SinkRow], options: TableOptions, shape: Shape
) -> Statement:
    (column,) = options.key
    keys = [one.key[0] for one in run]
    sql = (
        f"DELETE FROM {_sql(options.table)}"
        f" WHERE {_quoted(column)} = ANY (%s::text[]::{in_format(shape[column])}[])"
    )
    return Statement(sql, (keys,), rows)


# -- columns by the names in a JSON value --------------------------------------------------------


def _parse_json(row: SinkRow, options: TableOptions, shape: Shape) -> _Parsed:
    content = content_of(row)
    if content.value is None:
        return _parse_tombstone(row, content, options)
    try:
        tree = json.loads(content.value)
    except ValueError as error:
        raise _refusal(row, options, f"its value is no JSON ({error})") from error
    if not isinstance(tree, dict) or not tree:
        raise _refusal(row, options, "its value is no JSON object with columns in it")
    columns = tuple(sorted(tree))
    unknown = next((name for name in columns if name not in shape), None)
    if unknown is not None:
        raise _refusal(row, options, f'the table has no column "{unknown}"')
    missing = next((name for name in options.key if tree.get(name) is None), None)
    if missing is not None:
        raise _refusal(row, options, f'it has no "{missing}", which is part of the key')
    return _Parsed(row, content, columns, tuple(json.dumps(tree[name]) for name in options.key))


def _parse_tombstone(row: SinkRow, content: Content, options: TableOptions) -> _Parsed:
    if len(options.key) != 1 or content.key is None:
        reason = "it has no value, which deletes by its key where one column is the key"
        raise _refusal(row, options, reason)
    return _Parsed(row, content, (), (content.key.decode(errors="replace"),))


# -- the message as it is ------------------------------------------------------------------------


def _parse_raw(row: SinkRow, options: TableOptions, shape: Shape) -> _Parsed:
    content = content_of(row)
    columns = tuple(name for name in RAW_COLUMNS if name in shape)
    if "value" not in columns:
        raise TargetUnusable("table", str(options.table), 'it has no column "value"')
    key = tuple(_raw_text(content, name) or "" for name in options.key)
    return _Parsed(row, content, columns, key)


def _raw_source(
    run: Sequence[_Parsed], columns: Sequence[str], shape: Shape
) -> tuple[str, tuple[Any, ...]]:
    arrays, casts, parameters = [], [], []
    for name in columns:
        is_binary = shape[name] == "bytea" and name in ("key", "value")
        read: Callable[[Content, str], Any] = getattr if is_binary else _raw_text
        parameters.append([read(one.content, name) for one in run])
        arrays.append("%s::bytea[]" if is_binary else "%s::text[]")
        casts.append(f"{_quoted(name)}::{in_format(shape[name])}")
    aliases = ", ".join(map(_quoted, columns))
    source = f"SELECT {', '.join(casts)} FROM unnest({', '.join(arrays)}) AS given({aliases})"
    return source, tuple(parameters)


def _raw_text(content: Content, name: str) -> str | None:
    value = getattr(content, name)
    match name, value:
        case _, None:
            return None
        case _, bytes():
            return value.decode()
        case "headers", _:
            return json.dumps([_header(*header) for header in value])
        case "time", _:
            return datetime.fromtimestamp(value / 1e6, UTC).isoformat()
    return str(value)


def _header(name: str, value: bytes | None) -> dict[str, Any]:
    if value is None:
        return {"name": name, "value": None}
    try:
        return {"name": name, "value": value.decode()}
    except UnicodeDecodeError:
        return {"name": name, "base64": base64.b64encode(value).decode()}


def _quoted(name: str) -> str:
    # A percent sign would be taken for a parameter.
    return in_format(quote(name))


def _sql(table: Table) -> str:
    return in_format(table.sql)


def _refusal(row: SinkRow, options: TableOptions, reason: str) -> RowRefused:
    return RowRefused(f"table {options.table}", position_text(row), reason)


def one_by_one(rows: Sequence[SinkRow], options: TableOptions, shape: Shape) -> Iterator[Statement]:
    """The same rows, each in a statement of its own: to find the one that is refused."""
    for row in rows:
        yield from statements([row], options, shape)
