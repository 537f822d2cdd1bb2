"""Queues to be read: made, filled, cut off at their beginning, and made again."""

from __future__ import annotations

import secrets
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from windrow.config.journal import Journal
from windrow.embedded.broker import Broker
from windrow.graph.planning import Available
from windrow.graph.positions import Span
from windrow.journal.message.record import Record
from windrow.spark.places import Connections, JournalSettings, Place
from windrow.spark.queues import ensure_journals, ensure_topics
from windrow.spark.queues.clients import journal_client
from windrow.spark.stores import QueueReader

if TYPE_CHECKING:
    from windrow.journal.client.sync import SyncJournalClient


def until(condition: Callable[[], bool], what: str, timeout: float = 20.0) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout} s: {what}"
        threading.Event().wait(0.05)


def rows_of(reader: QueueReader, span: Span) -> list[dict[str, Any]]:
    """All rows of a span, as dictionaries."""
    return [row for batch in reader.read(span) for row in batch.to_pylist()]


def values_of(reader: QueueReader, span: Span) -> list[bytes | None]:
    return [value.as_py() for batch in reader.read(span) for value in batch.column("value")]


def whole(one: Available) -> Span:
    return Span(one.source, one.incarnation, one.partition, one.first, one.end)


class Kit(ABC):
    """One place where queues live, and what tests do to them."""

    def __init__(self, place: Place) -> None:
        self.place = place

    @abstractmethod
    def create(self) -> None: ...

    @abstractmethod
    def delete(self) -> None: ...

    @abstractmethod
    def fill(self, records: Iterable[Record], partition: int = 0) -> None: ...

    @abstractmethod
    def trim(self) -> None:
        """Take away the beginning of partition 0, though not all of it."""


NOW = int(time.time()) * 1_000_000
"""Microseconds; Kafka would soon delete what bears a time of long ago."""

STORED: Any = {"stores": ("file:///",)}


class JournalKit(Kit):
    """Journals with fragments of 4 KiB; ``STORED`` ones can be trimmed."""

    def __init__(self, broker: Broker, partitions: int | None, **settings: Any) -> None:
        self.root = Path(broker.flags["file-root"])
        given: dict[str, Any] = {
            "fragment_length": 4096,
            "codec": "none",
            "refresh_interval": 1.0,
        }
        connections = Connections(
            journal=Journal(address=broker.address, file_root=str(self.root)),
            journals=JournalSettings(**given | settings),
        )
        name = f"queues/{secrets.token_hex(6)}"
        super().__init__(Place("orders", "journal", name, partitions, {}, connections))

    @property
    def client(self) -> SyncJournalClient:
        return journal_client(self.place.connections.journal)

    def create(self) -> None:
        ensure_journals([self.place])

    def delete(self) -> None:
        from windrow.journal.client.requests import Delete

        self.client.apply([Delete(name) for name in self.place.journals])

    def fill(self, records: Iterable[Record], partition: int = 0) -> None:
        journal = self.place.journals[partition]
        self.client.sequenced(journal, "filler").append(list(records))

    def trim(self) -> None:
        """Several small appends make several fragments; the first that are stored are deleted."""
        journal = self.place.journals[0]

        def stored() -> list[Path]:
            return sorted((self.root / journal).glob("*"))

        until(lambda: len(stored()) >= 3, "three fragments are stored")
        until(lambda: all(f.backing_store for f in self._fragments()[:2]), "they are listed")
        for path in stored()[:2]:
            path.unlink()
        until(lambda: self._fragments()[0].begin > 0, "the broker has seen that they are gone")

    def _fragments(self) -> Sequence[Any]:
        return [each.fragment for each in self.client.fragments(self.place.journals[0])]


class KafkaKit(Kit):
    """A topic, filled without transactions."""

    def __init__(self, bootstrap: str, partitions: int | None, **settings: Any) -> None:
        connections = Connections(kafka={"bootstrap.servers": bootstrap})
        name = f"queues-{secrets.token_hex(6)}"
        super().__init__(Place("orders", "kafka", name, partitions, {}, connections))

    @property
    def admin(self) -> Any:
        from confluent_kafka.admin import AdminClient

        return AdminClient(dict(self.place.connections.kafka))

    def producer(self, **more: Any) -> Any:
        from confluent_kafka import Producer

        return Producer({**self.place.connections.kafka, **more})

    def create(self) -> None:
        ensure_topics([self.place])

    def delete(self) -> None:
        name, admin = self.place.address, self.admin
        admin.delete_topics([name])[name].result(10)
        until(lambda: name not in admin.list_topics(timeout=10).topics, "it is deleted")

    def fill(self, records: Iterable[Record], partition: int = 0) -> None:
        producer = self.producer()
        for record in records:
            produce(producer, self.place.address, record, partition)
        assert producer.flush(20) == 0

    def trim(self) -> None:
        from confluent_kafka import TopicPartition

        wanted = TopicPartition(self.place.address, 0, 5)
        admin = self.admin  # one that nobody holds ends, and answers nothing
        admin.delete_records([wanted])[wanted].result(10)

    def by_sequence(self) -> Place:
        return replace(self.place, options={"positions": "sequence"})


def produce(producer: Any, topic: str, record: Record, partition: int = 0) -> None:
    headers = list(record.headers)
    producer.produce(
        topic, record.value, record.key, partition, headers=headers, timestamp=record.time // 1000
    )


def small(count: int, begin: int = 0) -> list[Record]:
    """Records that say which they are."""
    return [
        Record(key=b"k%d" % n, value=b"v%d" % n, topic="t", time=NOW + n * 1000)
        for n in range(begin, begin + count)
    ]
