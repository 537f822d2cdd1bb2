"""From the description of a place to what writes there, kept open for as long as the process."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from windrow.graph.queues import BackendName
from windrow.spark.places import Place
from windrow.spark.stores import QueueTarget
from windrow.spark.targets.errors import TargetUnusable

if TYPE_CHECKING:
    from windrow.spark.targets.http import HttpEffect

ROWS_PER_WRITE: dict[BackendName, int] = {"journal": 50_000, "kafka": 50_000, "postgres": 20_000}
"""How many rows go into one write: more take no less time for each, and more memory."""


def open_target(place: Place) -> QueueTarget:
    """What writes to a place; the connections are made when they are first needed.

    Raises:
        TargetUnusable: No high-water can be kept there.
        MissingExtra: What it takes to write there is not installed.
    """
    opener = _OPENERS.get(place.backend)
    if opener is None:
        reason = "no high-water can be kept there; keep it in a journal beside it"
        raise TargetUnusable(place.backend, place.address, reason)
    return opener(place)


def cached_target(place: Place) -> QueueTarget:
    """The target of this process and thread for a place; opened once, closed by no caller."""
    key = os.getpid(), threading.get_ident(), place
    if key not in _cache:
        _cache[key] = open_target(place)
    return _cache[key]


def close_cached_targets() -> None:
    """Close what was opened in this process, effects included."""
    for kept in (_cache, _effects):
        while kept:
            (pid, _, _), opened = kept.popitem()
            if pid == os.getpid():
                opened.close()


def open_effect(place: Place) -> HttpEffect:
    """What posts messages to a URL, to be the effect of a sink task.

    Raises:
        TargetUnusable: The place is no URL.
    """
    if place.backend != "http":
        raise TargetUnusable(place.backend, place.address, "it is no URL to post to")
    from windrow.spark.targets.http import HttpEffect

    return HttpEffect.of(place)


def cached_effect(place: Place) -> HttpEffect:
    """The effect of this process and thread for a URL; opened once, closed by no caller."""
    key = os.getpid(), threading.get_ident(), place
    if key not in _effects:
        _effects[key] = open_effect(place)
    return _effects[key]


def _open_journal(place: Place) -> QueueTarget:
    from windrow.spark.targets.journal import JournalTarget

    return JournalTarget(place)


def _open_kafka(place: Place) -> QueueTarget:
    from windrow.spark.targets.kafka import KafkaTarget

    return KafkaTarget(place)


def _open_postgres(place: Place) -> QueueTarget:
    from windrow.spark.targets.postgres import PostgresTarget

    return PostgresTarget(place)


_OPENERS: dict[BackendName, Callable[[Place], QueueTarget]] = {
    "journal": _open_journal,
    "kafka": _open_kafka,
    "postgres": _open_postgres,
}

_cache: dict[tuple[int, int, Place], QueueTarget] = {}
_effects: dict[tuple[int, int, Place], HttpEffect] = {}
