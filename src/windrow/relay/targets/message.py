"""From a row to what a message needs: headers, hints, and what is wrong with them."""

from __future__ import annotations

from typing import Any

from windrow.errors import WindrowError
from windrow.outbox.marked import Marked


class Malformed(WindrowError):
    """A row that no target could take, whoever wrote it."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem

    def __str__(self) -> str:
        return self.problem


def headers_of(row: Marked) -> list[tuple[str, str | None]]:
    """The headers of a row, in their order.

    Raises:
        Malformed: The two arrays do not match, or a name is NULL.
    """
    names, values = row.header_keys or [], row.header_values or []
    if len(names) != len(values):
        raise Malformed(f"unequal number of header keys ({len(names)}) and values ({len(values)})")
    if None in names:
        raise Malformed(f"header {names.index(None)} has no name")
    return list(zip(names, values, strict=True))  # type: ignore[arg-type]  # no None is left


def hints_of(row: Marked) -> dict[str, Any]:
    """The partition and the time the writer asked for, as the producer wants them."""
    hints: dict[str, Any] = {}
    if row.partition is not None:
        hints["partition"] = row.partition
    if row.timestamp is not None:
        hints["timestamp"] = row.timestamp
    return hints
