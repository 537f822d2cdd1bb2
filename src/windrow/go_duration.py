"""Durations as Go writes them, in nanoseconds as Go counts them. Pure."""

from __future__ import annotations

import re
from decimal import Decimal

MICROSECOND = 1_000
MILLISECOND = 1_000_000
SECOND = 1_000_000_000

_UNITS = {
    "ns": 1,
    "us": MICROSECOND,
    "µs": MICROSECOND,  # the micro sign
    "μs": MICROSECOND,  # the Greek letter
    "ms": MILLISECOND,
    "s": SECOND,
    "m": 60 * SECOND,
    "h": 3600 * SECOND,
}
_TERM = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")


def parse_go_duration(text: str) -> int:
    """Nanoseconds in ``1.5s``, ``-2h45m``, ``300µs`` or ``0``.

    Raises:
        ValueError: Go would not read it either.
    """
    body = text[1:] if text[:1] in ("+", "-") else text
    terms = _TERM.findall(body)
    if body == "0":
        return 0
    if not terms or "".join(number + unit for number, unit in terms) != body:
        raise ValueError("not a duration; write it as Go does: 250ms, 1.5s or 1h30m")
    total = sum(Decimal(number) * _UNITS[unit] for number, unit in terms)
    return int(-total if text.startswith("-") else total)


def format_go_duration(nanoseconds: int) -> str:
    """The way Go prints it: ``1ms``, ``1.5s``, ``2m0s``, ``1h0m0s``."""
    sign, rest = ("-", -nanoseconds) if nanoseconds < 0 else ("", nanoseconds)
    if rest == 0:
        return "0s"
    for limit, unit in ((MICROSECOND, "ns"), (MILLISECOND, "µs"), (SECOND, "ms")):
        if rest < limit:
            return f"{sign}{_decimal(rest, _UNITS[unit])}{unit}"
    minutes, rest = divmod(rest, 60 * SECOND)
    hours, minutes = divmod(minutes, 60)
    shown = f"{_decimal(rest, SECOND)}s"
    if hours:
        return f"{sign}{hours}h{minutes}m{shown}"
    return f"{sign}{minutes}m{shown}" if minutes else f"{sign}{shown}"


def _decimal(count: int, unit: int) -> str:
    whole = f"{Decimal(count) / unit:f}"
    return whole.rstrip("0").rstrip(".") if "." in whole else whole
