"""Small value types that every layer shares."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer

_UNITS = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(us|µs|ms|s|m|h|d)")


def parse_duration(text: str) -> float:
    """Seconds in a duration such as ``250ms``, ``1.5s`` or ``1h30m``.

    Raises:
        ValueError: It is not of that form; a bare number is refused because its unit is a guess.
    """
    compact = text.strip()
    parts = _DURATION.findall(compact)
    if not parts or "".join(number + unit for number, unit in parts) != compact:
        raise ValueError("not a duration; write it as 250ms, 1.5s, 2m or 1h30m")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def format_duration(seconds: float) -> str:
    """The shortest exact way to write it: ``0.25`` is ``250ms``."""
    for unit in ("d", "h", "m", "s", "ms"):
        count = seconds / _UNITS[unit]
        if count >= 1 and round(count, 9) == int(round(count, 9)):
            return f"{int(round(count, 9))}{unit}"
    return "0s" if seconds == 0 else f"{round(seconds * 1e6, 3):g}us"


def _duration(value: Any) -> Any:
    if isinstance(value, str):
        return parse_duration(value)
    if isinstance(value, int) and not isinstance(value, bool) and value != 0:
        raise ValueError("has no unit; write it as 250ms, 1.5s, 2m or 1h30m")
    return value


Duration = Annotated[
    float, BeforeValidator(_duration), PlainSerializer(format_duration, when_used="json")
]
"""A length of time in seconds, written ``250ms`` in configuration."""
