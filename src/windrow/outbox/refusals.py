"""What does a driver's error say about the outbox table?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from windrow.outbox.errors import WrongSchema
from windrow.outbox.record import Record
from windrow.outbox.statement import uses_extension
from windrow.outbox.table import Table


def wrong_schema(error: Exception, table: Table, records: Sequence[Record]) -> WrongSchema | None:
    """The table lacks what these records need; None if the error is about something else."""
    match sqlstate_of(error):
        case "42P01":  # undefined_table
            return WrongSchema(str(table), "does not exist", "windrow init")
        case "42703" if any(map(uses_extension, records)):  # undefined_column
            problem = "has no columns for bytes, partition and timestamp, which a record uses"
            return WrongSchema(str(table), problem)
        case "42703":
            return WrongSchema(str(table), "lacks a column of an outbox", "windrow check")
        case "23502" if any(record.key is None for record in records):  # not_null_violation
            return WrongSchema(str(table), "does not take a record without a key")
    return None


def no_doorbell(error: Exception, table: Table) -> WrongSchema | None:
    """The outbox has no doorbell to ring; None if the error is about something else."""
    if sqlstate_of(error) == "42P01":
        return WrongSchema(str(table), "has no doorbell beside it")
    return None


def sqlstate_of(error: BaseException | None) -> str | None:
    """The server's code for it, however deep the libraries have wrapped it."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        code: Any = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
        if code is None and error.args and isinstance(error.args[0], dict):
            code = error.args[0].get("C")  # pg8000 hands the server's fields on as they are
        if isinstance(code, str):
            return code
        error = getattr(error, "orig", None) or error.__cause__
    return None
