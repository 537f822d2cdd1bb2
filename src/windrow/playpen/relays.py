"""Competing relays for the play-pen: their configuration, and each as a child process."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from windrow.embedded.process import Child
from windrow.playpen.errors import InvalidVariable

MILLISECONDS = {
    "POLL_INTERVAL_MS": "WINDROW__RELAY__COMPETING__POLL_INTERVAL",
    "RETRY_DELAY_MS": "WINDROW__RELAY__COMPETING__RETRY_DELAY",
}
MAX_ATTEMPTS = "MAX_ATTEMPTS"
_LONGEST = 24 * 3_600_000


def relay_variables(
    dsn: str, receiver_url: str, name: str, environ: Mapping[str, str], table: str = "outbox"
) -> dict[str, str]:
    """What a relay's environment has to say.

    ``POLL_INTERVAL_MS``, ``RETRY_DELAY_MS`` and ``MAX_ATTEMPTS`` are understood; a variable of
    Windrow's own for the same thing is stronger.

    Raises:
        InvalidVariable: One of them is no number, or out of its range.
    """
    given = {
        "WINDROW__RELAY__MODE": "competing",
        "WINDROW__RELAY__TARGET": "http",
        "WINDROW__RELAY__NAME": name,
        "WINDROW__RELAY__HTTP__URL": receiver_url.rstrip("/") + "/receive",
        "WINDROW__RELAY__HTTP__SOURCE": "windrow-playpen",
        # The receiver is on this machine.
        "WINDROW__RELAY__HTTP__ALLOW_PRIVATE": "true",
        "WINDROW__DATABASE__DSN": dsn,
        "WINDROW__DATABASE__TABLE": table,
    }
    chosen = seed_variables(environ)
    return {key: value for key, value in chosen.items() if key not in environ} | given


def seed_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables of a play-pen's relay, in our own names.

    Raises:
        InvalidVariable: One of them is no number, or out of its range.
    """
    found = {
        ours: f"{_whole(name, environ[name], 1, _LONGEST)}ms"
        for name, ours in MILLISECONDS.items()
        if environ.get(name)
    }
    delay = found.get("WINDROW__RELAY__COMPETING__RETRY_DELAY")
    if delay is not None:
        # A pause that was asked for is the least there is, so it must not be above the longest.
        longest = max(300_000, 10 * int(delay.removesuffix("ms")))
        found["WINDROW__RELAY__COMPETING__MAX_RETRY_DELAY"] = f"{longest}ms"
    interval = found.get("WINDROW__RELAY__COMPETING__POLL_INTERVAL")
    if interval is not None:
        slowest = max(1_000, int(interval.removesuffix("ms")))
        found["WINDROW__RELAY__COMPETING__IDLE_INTERVAL"] = f"{slowest}ms"
    if environ.get(MAX_ATTEMPTS):
        attempts = _whole(MAX_ATTEMPTS, environ[MAX_ATTEMPTS], 1, 1_000_000)
        found["WINDROW__RELAY__COMPETING__MAX_ATTEMPTS"] = str(attempts)
    return found


def start_relay(name: str, variables: Mapping[str, str], directory: Path) -> Child:
    """A relay in a process of its own; what it logs is in ``<name>.log``."""
    argv = [sys.executable, "-m", "windrow", "relay"]
    return Child.start(name, argv, cwd=directory, log=directory / f"{name}.log", env=variables)


def _whole(name: str, value: str, lowest: int, highest: int) -> int:
    if not (value.isascii() and value.isdigit() and lowest <= int(value[:20]) <= highest):
        raise InvalidVariable(name, value, f"write a whole number from {lowest} to {highest}")
    return int(value)
