"""Graphs on an embedded broker, run to their end leg by leg."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from windrow.config.journal import Journal
from windrow.graph import Graph
from windrow.graph.messages import Message
from windrow.graph.positions import Span
from windrow.journal.message.record import Record
from windrow.spark.places import Connections, Place, place_of
from windrow.spark.query.encoding import Raw, encode, message_of, raw_rows
from windrow.spark.query.leg_plan import LegPlan, QuerySettings, QueueForm, plan_legs
from windrow.spark.query.run import AVAILABLE_NOW, start_leg
from windrow.spark.query.start import Accepted, Started, ensure_places, recover_leg
from windrow.spark.queues.clients import journal_client
from windrow.spark.queues.create import ensure_journals
from windrow.spark.queues.open import open_queue

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEADLINE = 120.0
TRIES = 4
SLOW_MACHINE = "Python worker failed to connect back"
"""Spark gives a new process ten seconds: on a busy machine that is not always enough."""


@dataclass
class GraphWorld:
    """One graph, its brokers, and the checkpoints of its legs."""

    graph: Graph
    address: str
    directory: Path
    settings: QuerySettings = field(default_factory=QuerySettings)
    started: list[Started] = field(default_factory=list)

    @property
    def connections(self) -> Connections:
        return Connections(journal=Journal(address=self.address))

    @property
    def legs(self) -> list[LegPlan]:
        return plan_legs(self.graph, self.connections, self.settings)

    def leg(self, name: str) -> LegPlan:
        return next(leg for leg in self.legs if leg.name == name)

    def place(self, queue: str) -> Place:
        return place_of(self.graph, queue, self.connections)

    def checkpoint(self, leg: LegPlan) -> Path:
        return self.directory / leg.name.replace("/", "-")

    def send(self, queue: str, messages: Iterable[Any], partition: int = 0) -> None:
        """Append messages to a queue: values, or whole messages."""
        place = self.place(queue)
        ensure_journals([place])
        form = self.graph.queue(queue)
        whole = [m if isinstance(m, Message) else Message(m) for m in messages]
        encoded = [
            encode(m, queue, QueueForm(form.values, self.graph.meta_of(queue)), 1.0) for m in whole
        ]
        records = [
            Record(key=e.key, value=e.value, headers=e.headers, topic=e.topic or "")
            for e in encoded
        ]
        client = journal_client(self.connections.journal)
        client.sequenced(place.journals[partition], "test").append(records)

    def raws(self, queue: str) -> list[Raw]:
        """All that a queue holds, partition by partition."""
        place = self.place(queue)
        ensure_journals([place])
        reader = open_queue(place)
        found: list[Raw] = []
        for one in reader.available():
            span = Span(one.source, one.incarnation, one.partition, one.first, one.end)
            for batch in reader.read(span):
                found += raw_rows(batch)
        reader.close()
        return found

    def messages(self, queue: str) -> list[Message]:
        form = QueueForm(self.graph.queue(queue).values)
        return [message_of(raw, queue, form) for raw in self.raws(queue)]

    def values(self, queue: str) -> list[Any]:
        return [message.value for message in self.messages(queue)]

    def recover(self, leg: LegPlan, accepted: Accepted | None = None) -> Started:
        ensure_places(leg)
        started = recover_leg(leg, str(self.checkpoint(leg)), accepted=accepted)
        self.started.append(started)
        return started

    def run_leg(self, spark: SparkSession, leg: LegPlan) -> Started:
        """Recover, and run until what is there now is delivered."""
        from pyspark.errors import StreamingQueryException

        for left in reversed(range(TRIES)):
            started = self.recover(leg)
            query = start_leg(spark, started, str(self.checkpoint(leg)), AVAILABLE_NOW)
            try:
                assert query.awaitTermination(int(DEADLINE)), "it takes too long"
                break
            except StreamingQueryException as error:
                if SLOW_MACHINE not in str(error) or not left:
                    raise
            finally:
                query.stop()
        return started

    def run(self, spark: SparkSession) -> None:
        """All legs, one after the other."""
        for leg in self.legs:
            self.run_leg(spark, leg)
