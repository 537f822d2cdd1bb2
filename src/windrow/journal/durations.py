"""Durations of specs: seconds here, and as Go writes them (``1h0m30s``) in what its tools read."""

from __future__ import annotations

from fractions import Fraction

import windrow.go_duration as go_duration
from windrow.journal.errors import InvalidField


def parse_go_duration(text: str) -> float:
    """Seconds of a duration such as ``1m0s``, ``-1.5h`` or ``0``.

    Raises:
        InvalidField: It is not of that form.
    """
    try:
        return go_duration.parse_go_duration(text) / go_duration.SECOND
    except ValueError as error:
        raise InvalidField("", f"not a duration; write it as 1m30s ({text})") from error


def format_go_duration(seconds: float) -> str:
    """``seconds``, to the nanosecond, as Go writes them: 90 is ``1m30s``; in ASCII alone."""
    nanoseconds = round(Fraction(seconds) * go_duration.SECOND)
    return go_duration.format_go_duration(nanoseconds).replace("µs", "us")
