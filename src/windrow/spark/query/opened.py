"""How does a process get at the places of a plan? Each opens its own, and keeps them open."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from windrow.graph.sink_rows import SinkRow
from windrow.spark.places import Place
from windrow.spark.query.backing import JournalBacking
from windrow.spark.query.leg_plan import LegPlan
from windrow.spark.stores import BackingStore, QueueReader, QueueTarget

Poster = Callable[[Sequence[SinkRow]], None]


class Stores(Protocol):
    """Opens what a plan names; whatever is opened belongs to the process and is closed by it."""

    def reader(self, place: Place) -> QueueReader:
        """What reads a queue."""
        ...

    def target(self, place: Place) -> QueueTarget:
        """What writes to a queue, or keeps the marks of effects."""
        ...

    def backing(self, plan: LegPlan) -> BackingStore:
        """The records of a leg's deliveries."""
        ...

    def poster(self, place: Place) -> Poster:
        """What sends finished rows to a place that keeps no marks."""
        ...

    def suspects(self, plan: LegPlan) -> Suspects:
        """The note of which message is being run."""
        ...

    def ensure(self, places: Sequence[Place]) -> None:
        """Make what is not there yet."""
        ...


class Suspects(Protocol):
    """Which message of which snapshot was being run when everything ended."""

    def note(self, delivery_hash: str, position: str) -> None:
        """Write down, durably, what is about to be run; an empty position for nothing."""
        ...

    def read(self, delivery_hash: str) -> str:
        """What was written down last, if it was for that snapshot."""
        ...


class OpenedStores:
    """The real places."""

    def __init__(self) -> None:
        self._posters: dict[tuple[int, int, Place], Poster] = {}
        self._backings: dict[tuple[int, int, Place], JournalBacking] = {}

    def reader(self, place: Place) -> QueueReader:
        """What reads a queue."""
        from windrow.spark.queues.open import cached_queue

        return cached_queue(place)

    def target(self, place: Place) -> QueueTarget:
        """What writes to a queue, or keeps the marks of effects."""
        from windrow.spark.targets.open import cached_target

        return cached_target(place)

    def backing(self, plan: LegPlan) -> BackingStore:
        """The records of a leg's deliveries."""
        from windrow.spark.queues.clients import journal_client

        key, client = _here(plan.backing), journal_client(plan.backing.connections.journal)
        found = self._backings.get(key)
        if found is None or found.client is not client:
            found = JournalBacking(client, plan.backing.address, plan.uid)
            self._backings[key] = found
        return found

    def poster(self, place: Place) -> Poster:
        """What sends finished rows to a place that keeps no marks."""
        from windrow.spark.targets.open import open_effect

        key = _here(place)
        if key not in self._posters:
            self._posters[key] = open_effect(place)
        return self._posters[key]

    def suspects(self, plan: LegPlan) -> Suspects:
        """The note of which message is being run."""
        from windrow.spark.query.suspects import JournalSuspects
        from windrow.spark.queues.clients import journal_client

        place = plan.suspects
        return JournalSuspects(journal_client(place.connections.journal), place.address)

    def ensure(self, places: Sequence[Place]) -> None:
        """Make the journals and topics that are not there yet."""
        from windrow.spark.queues.create import ensure_journals, ensure_topics

        ensure_journals(places)
        ensure_topics(places)


def _here(place: Place) -> tuple[int, int, Place]:
    """Of this process, and of this thread: a worker that was forked opens its own."""
    return os.getpid(), threading.get_ident(), place


STORES: Stores = OpenedStores()
"""Those of this process."""
