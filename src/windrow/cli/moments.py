"""A moment as people write it on a command line."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime

import typer

from windrow.types import parse_duration

_UNIX_SECONDS = re.compile(r"[0-9]{1,12}")


def unix_seconds(text: str | None, flag: str, now: float | None = None) -> int:
    """Unix seconds of a moment: those themselves, a date with or without a time, or "1h" ago.

    A time without a zone is UTC; without a text it is 0.
    """
    if text is None:
        return 0
    if _UNIX_SECONDS.fullmatch(text):
        return int(text)
    try:
        return int((time.time() if now is None else now) - parse_duration(text))
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(
            f"not a moment ({text}); write it as 2030-01-31T12:00:00Z, 1h (ago), or Unix seconds",
            param_hint=flag,
        ) from None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())


def shown_moment(seconds: int) -> str:
    """Unix seconds for people and programs alike; nothing for 0."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}" if seconds else ""
