"""How is plain data written as TOML? Python reads it and does not write it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from windrow.graph.errors import NotPlainData

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def toml_text(document: Mapping[str, Any], sections: frozenset[str] = frozenset()) -> str:
    """The document as TOML; tables below the named keys get headings, others stand in one line."""
    lines = [
        f"{_key(key)} = {_value(value, key)}"
        for key, value in document.items()
        if key not in sections
    ]
    for section in (key for key in document if key in sections):
        for name, table in document[section].items():
            lines += ["", f"[{_key(section)}.{_key(name)}]"]
            lines += _lines(table, f"{section}.{name}")
    return "\n".join(lines).lstrip("\n") + "\n"


def _lines(table: Mapping[str, Any], path: str) -> Iterator[str]:
    return (f"{_key(key)} = {_value(value, f'{path}.{key}')}" for key, value in table.items())


def _key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else _text(name)


def _value(value: Any, path: str) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return _text(value)
        case int():
            return str(value)
        case float():
            return repr(value) if math.isfinite(value) else str(value)
        case list() | tuple():
            return "[" + ", ".join(_value(item, path) for item in value) + "]"
        case Mapping():
            inside = ", ".join(f"{_key(k)} = {_value(v, f'{path}.{k}')}" for k, v in value.items())
            return f"{{{inside}}}"
    raise NotPlainData(path, type(value).__name__)


def _text(text: str) -> str:
    # TOML's strings are JSON's, but for one character that JSON leaves as it is.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
