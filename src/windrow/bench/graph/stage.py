"""A broker and a Spark session: what every measure of graphs stands on."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from windrow.bench.errors import NotDelivered
from windrow.config import Config
from windrow.embedded.broker import Broker
from windrow.graph.declaration import Graph
from windrow.journal.client.configured import connect_to
from windrow.journal.message.record import Record
from windrow.spark.places import Connections, Place, connections_of, place_of
from windrow.spark.queues.create import ensure_journals
from windrow.spark.queues.open import open_queue
from windrow.spark.session import build_session, stop_session
from windrow.spark.stores import QueueReader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MESSAGE = b"x" * 200
RECORDS_PER_APPEND = 20_000
PATIENCE = 600.0


@dataclass
class Stage:
    """One broker, one session, and a directory for checkpoints."""

    broker: Broker
    session: SparkSession
    directory: Path
    connections: Connections
    _made: int = field(default=0)

    def new_name(self) -> str:
        """A name that no graph had yet."""
        self._made += 1
        return f"bench-{self._made:04}"

    def checkpoint(self, name: str) -> str:
        """Where a query keeps what it remembers."""
        return str(self.directory / name)

    def place(self, graph: Graph, queue: str) -> Place:
        """Where a queue lives; it is there when this returns."""
        place = place_of(graph, queue, self.connections)
        ensure_journals([place])
        return place

    def fill(self, graph: Graph, queue: str, count: int) -> None:
        """Append messages to a queue."""
        place = self.place(graph, queue)
        with connect_to(self.connections.journal) as client:
            writer = client.sequenced(place.address, "bench")
            for first in range(0, count, RECORDS_PER_APPEND):
                numbers = range(first, min(count, first + RECORDS_PER_APPEND))
                now = time.time_ns() // 1000
                writer.append(
                    [Record(key=b"%d" % (n % 1000), value=MESSAGE, time=now) for n in numbers]
                )

    def await_any(self, places: Iterable[Place]) -> None:
        """Return when every place holds something.

        Raises:
            NotDelivered: Nothing came.
        """
        deadline = time.monotonic() + PATIENCE
        for place in places:
            with closing(open_queue(place)) as reader:
                while not _held(reader):
                    if time.monotonic() > deadline:
                        raise NotDelivered(f"{place.queue} holds nothing", PATIENCE)
                    time.sleep(0.02)  # a journal sets no event: it has to be asked again

    def await_count(self, graph: Graph, queues: Sequence[str], count: int) -> None:
        """Return when every queue holds so many messages.

        Raises:
            NotDelivered: They did not come, or there are more.
        """
        deadline = time.monotonic() + PATIENCE
        readers = [open_queue(self.place(graph, queue)) for queue in queues]
        try:
            while (found := [_held(reader) for reader in readers]) != [count] * len(readers):
                if time.monotonic() > deadline or max(found) > count:
                    raise NotDelivered(f"{queues} hold {found} of {count} messages", PATIENCE)
                time.sleep(0.02)  # a journal sets no event: it has to be asked again
        finally:
            for reader in readers:
                reader.close()


def _held(reader: QueueReader) -> int:
    return sum(one.end for one in reader.available())


@contextmanager
def stage() -> Iterator[Stage]:
    """One broker that keeps its own keys, and Spark on two cores."""
    with ExitStack() as stack:
        broker = stack.enter_context(Broker.start())
        directory = Path(stack.enter_context(TemporaryDirectory(prefix="windrow-bench-")))
        session = build_session("windrow bench", master="local[2]", kafka=False)
        stack.callback(stop_session, session)
        config = Config.model_validate({"journal": {"address": broker.address}})
        yield Stage(broker, session, directory, connections_of(config))
