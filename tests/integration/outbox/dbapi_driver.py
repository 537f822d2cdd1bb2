"""DB-API drivers that nobody knows, one per parameter style, each a thin shell on psycopg."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

import psycopg

_MARKS = {
    "format": r"%s",
    "pyformat": r"%\((\w+)\)s",
    "qmark": r"\?",
    "numeric": r":(\d+)",
    "named": r":(p\d+)",
}


class Cursor:
    """Takes one style only, as a driver that knows no other would."""

    def __init__(self, connection: psycopg.Connection[Any], style: str) -> None:
        self._cursor = psycopg.RawCursor(connection)
        self._style = style

    def execute(self, sql: str, parameters: Sequence[Any] | Mapping[str, Any]) -> None:
        by_name = self._style in ("pyformat", "named")
        assert isinstance(parameters, dict if by_name else tuple)
        marks = [match[0] for match in re.finditer(_MARKS[self._style], sql)]
        assert len(marks) == len(parameters)
        for number, mark in enumerate(marks, start=1):
            sql = sql.replace(mark, f"${number}", 1)
        if self._style in ("format", "pyformat"):
            sql = sql.replace("%%", "%")
        values = parameters.values() if isinstance(parameters, Mapping) else parameters
        self._cursor.execute(sql, list(values))

    def fetchall(self) -> list[Any]:
        return self._cursor.fetchall()

    def close(self) -> None:
        self._cursor.close()


class Connection:
    """All that PEP 249 asks for, and no word on autocommit."""

    style = ""

    def __init__(self, dsn: str) -> None:
        self._connection = psycopg.connect(dsn)

    def cursor(self) -> Cursor:
        return Cursor(self._connection, self.style)

    def commit(self) -> None:
        self._connection.commit()

    def rollback(self) -> None:
        self._connection.rollback()

    def close(self) -> None:
        self._connection.close()


def driver(style: str) -> type[Connection]:
    """The connections of a driver whose module says that it takes this style."""
    module = ModuleType(f"unknown_driver_{style}")
    vars(module)["paramstyle"] = style
    sys.modules[module.__name__] = module
    # The class lives one level below, as psycopg2's and pg8000's do.
    members = {"style": style, "__module__": f"{module.__name__}.extensions"}
    return type("Connection", (Connection,), members)
