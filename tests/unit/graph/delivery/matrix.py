"""The table of faults, read."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

OUTCOMES = "exact", "lost-by-contract", "at-least-once", "stalls", "refused", "documented"


@dataclass(frozen=True)
class Row:
    """A fault, where it strikes, and what the queues hold afterwards."""

    id: str
    fault: str
    point: str
    outcome: str
    replays: bool
    levels: tuple[str, ...]
    error: str | None = None
    when: str | None = None


def rows() -> dict[str, Row]:
    """Every row by its id, in the order of the file."""
    tree = tomllib.loads(Path(__file__).with_name("matrix.toml").read_text())
    return {entry["id"]: _row(entry) for entry in tree["row"]}


def _row(entry: dict[str, Any]) -> Row:
    return Row(**(entry | {"levels": tuple(entry["levels"])}))
