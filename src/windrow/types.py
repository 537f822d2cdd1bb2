"""Small value types that every layer shares."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PlainSerializer, ValidationInfo

# Long to short. The short ones divide: 35 / 1000 is the float 0.035, and 35 * 1e-3 is not.
_MULTIPLES = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_FRACTIONS = {"ms": 1_000, "us": 1_000_000}
_SPELLINGS = {"µs": "us", "μs": "us"}  # the micro sign and the Greek letter
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(us|µs|μs|ms|s|m|h|d)")

WRITTEN = {"written": True}
"""Validation context of values a person wrote, where a number without a unit is refused."""


def parse_duration(text: str) -> float:
    """Seconds in a duration such as ``250ms``, ``1.5s`` or ``1h30m``.

    Raises:
        ValueError: It is not of that form; a bare number is refused because its unit is a guess.
    """
    compact = text.strip()
    parts = _DURATION.findall(compact)
    if not parts or "".join(number + unit for number, unit in parts) != compact:
        raise ValueError("not a duration; write it as 250ms, 1.5s, 2m or 1h30m")
    return sum(_seconds(float(number), unit) for number, unit in parts)


def format_duration(seconds: float) -> str:
    """The shortest exact way to write it: ``0.25`` is ``250ms``."""
    for unit in (*_MULTIPLES, *_FRACTIONS):
        count = round(seconds / _seconds(1, unit))
        if count >= 1 and _seconds(count, unit) == seconds:
            return f"{count}{unit}"
    return "0s" if seconds == 0 else f"{Decimal(repr(seconds)):f}s"


def _seconds(count: float, unit: str) -> float:
    unit = _SPELLINGS.get(unit, unit)
    return count * _MULTIPLES[unit] if unit in _MULTIPLES else count / _FRACTIONS[unit]


def _duration(value: Any, info: ValidationInfo) -> Any:
    if isinstance(value, str):
        return parse_duration(value)
    is_bare = isinstance(value, int | float) and value != 0
    if is_bare and info.context == WRITTEN:
        raise ValueError("has no unit; write it as 250ms, 1.5s, 2m or 1h30m")
    return value


Duration = Annotated[
    float,
    BeforeValidator(_duration),
    Field(ge=0, allow_inf_nan=False),
    PlainSerializer(format_duration, when_used="json"),
]
"""A length of time: seconds in Python, written ``250ms`` in configuration."""
