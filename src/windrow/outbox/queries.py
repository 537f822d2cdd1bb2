"""Read a file of named queries: ``-- name --`` headings, a sentence each, then the statement."""

from __future__ import annotations

import re
from importlib import resources

_HEADING = re.compile(r"^-- (\w+) --$", re.MULTILINE)
_COMMENT = re.compile(r"^--.*\n?", re.MULTILINE)


def load_queries(package: str, file: str) -> dict[str, str]:
    """The statements of a packaged file by their names, without the comments."""
    text = resources.files(package).joinpath(file).read_text(encoding="utf-8")
    parts = _HEADING.split(text)[1:]
    pairs = zip(parts[::2], parts[1::2], strict=True)
    return {name: _COMMENT.sub("", body).strip().rstrip(";") for name, body in pairs}
