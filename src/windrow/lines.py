"""Files that only grow by whole lines, and whose writer may be killed at any moment."""

from __future__ import annotations

import os
from pathlib import Path


def open_lines(path: Path) -> int:
    """Open a file to append lines to, or make it; what was left torn at its end is cut off."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    os.ftruncate(file, whole_lines(path))
    return file


def append(file: int, data: bytes) -> None:
    """Write all of it, with nothing kept back in the process."""
    while data:
        data = data[os.write(file, data) :]


def whole_lines(path: Path) -> int:
    """The length of the file up to the end of its last whole line."""
    size = path.stat().st_size
    with path.open("rb") as file:
        while size > 0:
            start = max(0, size - 4096)
            file.seek(start)
            newline = file.read(size - start).rfind(b"\n")
            if newline >= 0:
                return start + newline + 1
            size = start
    return 0
