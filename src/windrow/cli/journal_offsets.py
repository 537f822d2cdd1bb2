"""The file that says where the read of each journal is to go on."""

from __future__ import annotations

import json
import os
from pathlib import Path

import typer


def load_offsets(path: Path | None) -> dict[str, int]:
    """The offsets of a file; none without one.

    Raises:
        BadParameter: It cannot be read, or is no JSON of journals and offsets.
    """
    if path is None:
        return {}
    try:
        offsets = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise _wrong(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise _wrong(f"{path} is not JSON: {error}") from error
    if not isinstance(offsets, dict) or not all(map(_is_offset, offsets.values())):
        raise _wrong(f'{path} must be JSON such as {{"my/journal": 1024}}')
    return offsets


def save_offsets(path: Path, offsets: dict[str, int]) -> None:
    """Write the offsets, all of them or none."""
    partial = path.with_name(f".{path.name}.partial")
    with partial.open("w", encoding="utf-8") as file:
        json.dump(offsets, file, indent=2, sort_keys=True)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def _is_offset(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _wrong(reason: str) -> typer.BadParameter:
    return typer.BadParameter(reason, param_hint="--offsets")
