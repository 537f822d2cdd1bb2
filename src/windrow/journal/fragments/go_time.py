"""Moments written by a layout that shows how one given moment would look, as Go does it.

The moment is Monday, 2 January 2006, 15:04:05, in a zone seven hours behind UTC.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

ZERO_TIME = datetime(1, 1, 1, tzinfo=UTC)
"""What a moment is before it was set."""

_PIECES: dict[str, Callable[[datetime], str]] = {
    "January": lambda t: t.strftime("%B"),
    "Jan": lambda t: t.strftime("%b"),
    "Monday": lambda t: t.strftime("%A"),
    "Mon": lambda t: t.strftime("%a"),
    "2006": lambda t: f"{t.year:04}",
    "-07:00": lambda t: "+00:00",
    "-0700": lambda t: "+0000",
    "Z07:00": lambda t: "Z",
    "Z0700": lambda t: "Z",
    "MST": lambda t: "UTC",
    "002": lambda t: f"{t.timetuple().tm_yday:03}",
    "01": lambda t: f"{t.month:02}",
    "02": lambda t: f"{t.day:02}",
    "03": lambda t: f"{_twelve(t):02}",
    "04": lambda t: f"{t.minute:02}",
    "05": lambda t: f"{t.second:02}",
    "06": lambda t: f"{t.year % 100:02}",
    "15": lambda t: f"{t.hour:02}",
    "_2": lambda t: f"{t.day:2}",
    "PM": lambda t: "AM" if t.hour < 12 else "PM",
    "pm": lambda t: "am" if t.hour < 12 else "pm",
    "1": lambda t: str(t.month),
    "2": lambda t: str(t.day),
    "3": lambda t: str(_twelve(t)),
    "4": lambda t: str(t.minute),
    "5": lambda t: str(t.second),
}
_PIECE = re.compile("|".join(_PIECES))


def format_time(moment: datetime, layout: str) -> str:
    """``moment``, which is in UTC, as ``layout`` shows it."""
    return _PIECE.sub(lambda found: _PIECES[found.group()](moment), layout)


def moment_of(unix_time: float) -> datetime:
    """The moment so many seconds after the epoch; the zero one if that is 0."""
    return (
        datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=unix_time) if unix_time else ZERO_TIME
    )


def _twelve(moment: datetime) -> int:
    return moment.hour % 12 or 12
