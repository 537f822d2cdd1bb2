"""Everything a command prints on standard output: a table for people, or JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

Row = Mapping[str, object]


def print_rows(rows: Sequence[Row], *, as_json: bool) -> None:
    """Print rows of the same keys: a column per key, or a JSON list of objects."""
    if as_json:
        print_json(rows)
    else:
        _print_text(_table(rows))


def print_json(value: object) -> None:
    """Print one JSON value. What is not JSON goes by its text form, which hides secrets."""
    _print_text(json.dumps(value, indent=2, default=str))


def print_line(text: str = "") -> None:
    """Print a line for people."""
    _print_text(text)


def _table(rows: Sequence[Row]) -> str:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for name in rows[0] if rows else ():
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(Text("" if cell is None else str(cell)) for cell in row.values()))
    # Into a pipe or a file nothing is folded, so that a line is a row.
    console = Console(width=None if sys.stdout.isatty() else 100_000)
    with console.capture() as captured:
        console.print(table)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def _print_text(text: str) -> None:
    # A variable may hold bytes that are no text; the stream would refuse them.
    print(text.encode("utf-8", "backslashreplace").decode(), flush=True)
