"""A place of each kind to write to, and a way to look at what is there."""

from __future__ import annotations

import json
import secrets
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, closing
from typing import Any

from tests.fixtures.relaying import Seen, consume
from windrow.config import Dsn
from windrow.config.journal import Journal
from windrow.embedded.kafka import create_topic
from windrow.graph.positions import Position, SourceOffsets
from windrow.graph.routing import RoutingPin
from windrow.graph.sink_rows import SinkRow
from windrow.graph.sink_task import SinkTask, TaskDone
from windrow.graph.snapshot import ProcessorUid, Snapshot, delivery_hash
from windrow.spark.places import Connections, Place
from windrow.spark.queues.clients import journal_client
from windrow.spark.queues.create import ensure_journals
from windrow.spark.stores import Content, QueueTarget
from windrow.spark.targets.open import open_target
from windrow.spark.targets.perform import run_sink_task

ROUTING = RoutingPin(2)


class Stage(ABC):
    """A queue with two targets, empty at first."""

    place: Place

    def __init__(self) -> None:
        # The marks of one test are none of the next one's business, wherever they are kept.
        self.uid = ProcessorUid("shop", secrets.token_hex(6))

    def run(
        self,
        target: QueueTarget,
        rows: Sequence[SinkRow],
        number: int = 0,
        *,
        epoch: int = 0,
        rows_per_write: int = 0,
    ) -> TaskDone:
        """Deliver rows to a target, as a task of a sink does."""
        snapshot = Snapshot(self.uid, 1, (), ROUTING)
        task = SinkTask(snapshot, number, rows, SourceOffsets(), rows_per_write, epoch)
        return run_sink_task(task, self.uid, target)

    def open(self) -> QueueTarget:
        return open_target(self.place)

    def close(self) -> None:
        """Leave nothing behind where others are."""
        return

    def opened(self) -> AbstractContextManager[QueueTarget]:
        return closing(self.open())

    @abstractmethod
    def contents(self, target: int) -> list[str]:
        """The text of every row of a target, in order."""


class JournalStage(Stage):
    def __init__(self, address: str) -> None:
        super().__init__()
        connections = Connections(journal=Journal(address=address))
        self.name = f"test/{secrets.token_hex(6)}"
        self.place = Place("priced", "journal", self.name, 2, {}, connections)
        ensure_journals([self.place])

    def records(self, target: int) -> list[Any]:
        from windrow.journal.message.record import decode_records

        client = journal_client(self.place.connections.journal)
        journal = self.place.journals[target]
        if client.write_head(journal) == 0:
            return []
        return decode_records(client.read(journal))

    def contents(self, target: int) -> list[str]:
        records = self.records(target)
        assert [record.seq for record in records] == list(range(len(records)))
        return [json.loads(record.value)["text"] for record in records]


class KafkaStage(Stage):
    def __init__(self, bootstrap: str, config: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self.bootstrap, self.topic = bootstrap, f"test-{secrets.token_hex(6)}"
        create_topic(bootstrap, self.topic, partitions=2, config=config)
        connections = Connections(kafka={"bootstrap.servers": bootstrap})
        self.place = Place("priced", "kafka", self.topic, 2, {}, connections)

    def close(self) -> None:
        from confluent_kafka.admin import AdminClient

        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        admin.delete_topics([self.topic])[self.topic].result(10.0)

    def contents(self, target: int) -> list[str]:
        return [json.loads(one.value or "")["text"] for one in self.seen(target)]

    def seen(self, target: int) -> list[Seen]:
        return [one for one in consume(self.bootstrap, self.topic) if one.partition == target]


class PostgresStage(Stage):
    def __init__(self, dsn: str) -> None:
        super().__init__()
        self.dsn = dsn
        connections = Connections(postgres_dsn=Dsn(dsn))
        self.place = Place("priced", "postgres", "priced", 2, {}, connections)
        self.execute(
            "CREATE TABLE priced (id bigint, target integer, text text,"
            " number bigint GENERATED ALWAYS AS IDENTITY)"
        )

    def execute(self, sql: str) -> list[tuple[Any, ...]]:
        import psycopg

        with psycopg.connect(self.dsn, autocommit=True) as connection:
            cursor = connection.execute(sql)
            return list(cursor.fetchall()) if cursor.description else []

    def contents(self, target: int) -> list[str]:
        rows = self.execute(f"SELECT text FROM priced WHERE target = {target} ORDER BY number")
        return [text for (text,) in rows]


def row(index: int, target: int = 0, ordinal: int = 0, *, partition: int = 0) -> SinkRow:
    at = Position("orders", "first", partition, index, ordinal)
    text = f"{partition}.{index}" + (f".{ordinal}" if ordinal else "")
    value = json.dumps({"id": index, "target": target, "text": text}).encode()
    digest = delivery_hash(
        ProcessorUid("shop", "price"), [Position("orders", "first", partition, index)]
    )
    headers: tuple[tuple[str, bytes | None], ...] = (("note", b"n"), ("none", None))
    return SinkRow((at,), Content(value, b"key-%d" % index, headers, "prices", index, digest))


def nil(index: int, *, partition: int = 0) -> SinkRow:
    return SinkRow((Position("orders", "first", partition, index),), is_nil=True)


def texts(indices: Sequence[int], partition: int = 0) -> list[str]:
    return [f"{partition}.{index}" for index in indices]
