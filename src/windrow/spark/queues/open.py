"""From the description of a place to what reads it, kept open for as long as the process."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from windrow.graph.queues import BackendName
from windrow.spark.places import Place
from windrow.spark.queues.errors import NotReadable
from windrow.spark.stores import QueueReader


def open_queue(place: Place) -> QueueReader:
    """What reads a queue; connections are made when they are first needed.

    Raises:
        NotReadable: Nothing can be read from such a place by position.
        MissingExtra: What it takes to read there is not installed.
    """
    opener = _OPENERS.get(place.backend)
    if opener is None:
        raise NotReadable(place.queue, place.backend)
    return opener(place)


def cached_queue(place: Place) -> QueueReader:
    """The reader of this process and thread for a place; opened once, closed by no caller."""
    key = os.getpid(), threading.get_ident(), place
    if key not in _cache:
        _cache[key] = open_queue(place)
    return _cache[key]


def close_cached_queues() -> None:
    """Close what was opened in this process."""
    while _cache:
        (pid, _, _), queue = _cache.popitem()
        if pid == os.getpid():
            queue.close()


def _open_journal(place: Place) -> QueueReader:
    from windrow.extras import require
    from windrow.spark.queues.clients import journal_client

    require("pyarrow")
    client = journal_client(place.connections.journal)
    from windrow.spark.queues.journal import JournalQueue

    return JournalQueue(place, client)


def _open_kafka(place: Place) -> QueueReader:
    from windrow.extras import require
    from windrow.spark.queues.kafka import KafkaQueue

    require("pyarrow")
    require("confluent_kafka")
    return KafkaQueue(place)


def _open_outbox(place: Place) -> QueueReader:
    from windrow.spark.outbox.open import open_outbox

    return open_outbox(place)


_OPENERS: dict[BackendName, Callable[[Place], QueueReader]] = {
    "journal": _open_journal,
    "kafka": _open_kafka,
    "outbox": _open_outbox,
}

_cache: dict[tuple[int, int, Place], QueueReader] = {}
