"""What does a receiver's answer say about the message? Pure."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus

from windrow.relay.competing.contract import Delivered, Later, Outcome, Refused

RETRIED = frozenset({408, 425, 429})
"""Refusals that pass, beside all that are the server's own fault."""

OUTAGES = frozenset({502, 503, 504})
"""Said in the receiver's place, often by what stands before it: nobody judged the message."""


def is_temporary(status: int) -> bool:
    """Whether the same request may be accepted another time."""
    return status in RETRIED or status >= 500


def judge(status: int, retry_after: str | None, now: float) -> Outcome:
    """The outcome of a try that was answered.

    Args:
        status: Of the answer.
        retry_after: Its header of that name.
        now: Seconds since 1970.
    """
    if 200 <= status < 300:
        return Delivered()
    reason = f"it answered {describe(status)}"
    if is_temporary(status):
        asked = None if retry_after is None else asked_delay(retry_after, now)
        return Later(reason, asked, is_outage=status in OUTAGES)
    if 300 <= status < 400:
        reason += "; redirects are not followed"
    return Refused(reason)


def asked_delay(retry_after: str, now: float) -> float | None:
    """The seconds that a Retry-After asks for, in seconds or as a date; None if it is neither."""
    text = retry_after.strip()
    if text.isascii() and text.isdigit():
        seconds = float(text)
        return seconds if math.isfinite(seconds) else None
    try:
        date: datetime = parsedate_to_datetime(text)
        moment = (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
    return max(moment - now, 0.0)


def describe(status: int) -> str:
    """The status as people know it; the server's own words may be anything."""
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)
