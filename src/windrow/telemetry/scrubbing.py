"""What of a field may be shown in a log line or a span: no payload and no secret.

A field's name decides first: a payload is shown by its size, a secret not at all. Text that
remains goes through ``redact``. Pure; no value makes it raise.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Set
from typing import Any

from windrow.config.redaction import HIDDEN, redact

_SECRET_NAME = re.compile(
    r"pass(?:word|wd|phrase)|secret|token|credential|authorization|cookie"
    r"|(?:api|access|private)_?key|(?:^|_)(?:auth|dsn|pwd|sasl)(?:_|$)"
)
_PAYLOAD_NAME = re.compile(r"(?:^|_)(?:body|content|data|headers?|payload|values?)$")
# Base64, a token, compact JSON: nobody writes such a word, so it came from somebody's data.
_PAYLOAD_WORD = re.compile(r"\S{1025,}")
_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+")

# Deeper than anyone logs on purpose; it also ends what contains itself.
_MAX_DEPTH = 8


def scrub(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields as they may be shown: plain types only, ready to be rendered."""
    return {scrub_text(name): _field(name, value, _MAX_DEPTH) for name, value in fields.items()}


def scrub_text(text: object) -> str:
    """The text without secrets, and without what is too long a word to be meant for reading."""
    shown = redact(_PAYLOAD_WORD.sub(lambda word: _size(word[0]), str(text)))
    # A lone surrogate, as in an undecodable file name, would break the stream it is written to.
    return shown.encode("utf-8", "backslashreplace").decode()


def _field(name: object, value: object, depth: int) -> Any:
    words = _WORD_START.sub("_", name).lower() if isinstance(name, str) else ""
    if value is None:
        return None
    if _SECRET_NAME.search(words):
        return HIDDEN
    try:
        return _size(value) if _PAYLOAD_NAME.search(words) else _value(value, depth)
    except Exception:  # the value's own methods may do anything
        return f"<unprintable {type(value).__name__}>"


def _value(value: object, depth: int) -> Any:
    match value:
        case None | bool() | int():
            return value
        case float():
            return value if math.isfinite(value) else str(value)  # JSON has no NaN
        case bytes() | bytearray() | memoryview():
            return _size(value)  # whatever the field is called: bytes are somebody's payload
        case Mapping() | list() | tuple() | Set() if depth <= 0:
            return _size(value)
        case Mapping():
            return {_key(name): _field(name, inner, depth - 1) for name, inner in value.items()}
        case list([str(name), inner]) | tuple([str(name), inner]):
            return [scrub_text(name), _field(name, inner, depth - 1)]  # a header, as a pair
        case list() | tuple() | Set():
            return [_value(inner, depth - 1) for inner in value]
        case BaseException():
            return scrub_text(f"{type(value).__name__}: {value}")
    return scrub_text(value)


def _key(name: object) -> str:
    return str(_size(name)) if isinstance(name, bytes) else scrub_text(name)


def _size(value: object) -> str:
    match value:
        case str():
            return f"<{len(value.encode('utf-8', 'replace'))} bytes>"
        case memoryview():
            return f"<{value.nbytes} bytes>"
        case bytes() | bytearray():
            return f"<{len(value)} bytes>"
        case Mapping() | list() | tuple() | Set():
            return f"<{len(value)} items>"
    return f"<{type(value).__name__}>"
