"""How does a message get into a graph from outside, and not twice if whoever sends it tries again?

A send is one append under a batch id. With an idempotency key that id is made from the key: before
anything is appended the journal is searched for it, and the append succeeds only if no other send
came in between, so that two that try at once cannot both write.
"""

from __future__ import annotations

import hashlib
import time
import uuid
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from windrow.config import Config
from windrow.errors import Failed, UsageError
from windrow.graph.declaration import Graph
from windrow.graph.messages import Message
from windrow.graph.positions import Position
from windrow.journal.client.errors import WriterFenced
from windrow.journal.client.requests import ReadRequest
from windrow.journal.client.sequence import WriterState
from windrow.journal.message.framing import FixedUnframer
from windrow.journal.message.record import Control, Record, decode_frame
from windrow.spark.places import Place, place_of
from windrow.spark.query.encoding import Encoded, encode
from windrow.spark.query.leg_plan import QueueForm, routing_of
from windrow.spark.runner.settings import connections_for

if TYPE_CHECKING:
    from windrow.journal.client.sync import SyncJournalClient, SyncSequencedWriter

WRITER: Final = "windrow-send"
PATIENCE: Final = 30.0


class UnknownQueue(UsageError):
    """A message was sent to a queue that the graph does not have, or that is no source of it."""

    def __init__(self, graph: str, queue: str, sources: tuple[str, ...]) -> None:
        super().__init__(graph, queue, sources)
        self.graph, self.queue, self.sources = graph, queue, sources

    def __str__(self) -> str:
        names = ", ".join(f'"{name}"' for name in self.sources) or "none"
        return f'graph "{self.graph}" has no source "{self.queue}"; its sources are {names}'


class NotSendable(UsageError):
    """A source lives where nothing can be sent to from here."""

    def __init__(self, queue: str, backend: str, reason: str) -> None:
        super().__init__(queue, backend, reason)
        self.queue, self.backend, self.reason = queue, backend, reason

    def __str__(self) -> str:
        return f'source "{self.queue}" lives on {self.backend}: {self.reason}'


class SendBusy(Failed):
    """Others send to the same journal all the time."""

    def __init__(self, queue: str, seconds: float) -> None:
        super().__init__(queue, seconds)
        self.queue, self.seconds = queue, seconds

    def __str__(self) -> str:
        return (
            f'nothing was sent to "{self.queue}": for {self.seconds:g} s others were quicker each'
            " time; try again"
        )


@dataclass(frozen=True, slots=True)
class Sent:
    """Where messages went.

    Attributes:
        queue: To which source.
        count: How many messages.
        was_there: An earlier send with the same idempotency key had written them.
        positions: The first index in each partition that got some.
    """

    queue: str
    count: int
    was_there: bool
    positions: dict[int, int]


def send(
    graph: Graph,
    config: Config,
    messages: Sequence[Message],
    queue: str | None = None,
    idempotency_key: str | None = None,
) -> Sent:
    """Append messages to a source of a graph; its journals are made if they are not there.

    Args:
        graph: Whose source.
        config: Where everything is.
        messages: In order; those of one key stay in it.
        queue: Which source; by default the graph's only one.
        idempotency_key: Under which a second send appends nothing.

    Raises:
        UnknownQueue: The graph has no such source.
        NotSendable: It does not live in a journal.
        InvalidMessage: A value is not of the queue's form.
    """
    name = _source(graph, queue)
    place = place_of(graph, name, connections_for(config))
    if place.backend != "journal":
        raise NotSendable(name, place.backend, _OTHER_WAYS.get(place.backend, "fill it there"))
    form = QueueForm(graph.queue(name).values, graph.meta_of(name))
    now = time.time()
    encoded = [encode(message, name, form, now) for message in messages]
    return _Sender(place, idempotency_key).send(encoded, now)


_OTHER_WAYS = {
    "kafka": "produce to the topic with any client of Kafka",
    "outbox": "stash into the table, with the data that it is about",
}


def _source(graph: Graph, queue: str | None) -> str:
    sources = tuple(sorted(source.id for source in graph.sources))
    name = queue or graph.default_source
    if name is None or name not in sources:
        raise UnknownQueue(graph.id, name or "", sources)
    return name


class _Sender:
    """One send to the partitions of one queue."""

    def __init__(self, place: Place, key: str | None) -> None:
        from windrow.spark.queues.clients import journal_client
        from windrow.spark.queues.create import ensure_journals
        from windrow.spark.queues.find import find_journals

        ensure_journals([place])
        self._place, self._is_keyed = place, key is not None
        self._client: SyncJournalClient = journal_client(place.connections.journal)
        self._journals = {
            found.partition: found.journal for found in find_journals(self._client, place)
        }
        self._batch = hashlib.sha256((key or uuid.uuid4().hex).encode()).hexdigest()

    def send(self, encoded: Sequence[Encoded], now: float) -> Sent:
        """Append, unless an earlier send did."""
        routing = routing_of(self._place, len(self._journals))
        parts: dict[int, list[Record]] = defaultdict(list)
        turn = int(self._batch[:8], 16)
        for number, message in enumerate(encoded):
            at = Position(self._place.queue, "", 0, turn + number)
            partition = routing.route(message.key, at)
            parts[partition].append(_record(message, now))
        written = [self._append(partition, records) for partition, records in parts.items()]
        positions = dict(zip(parts, (seq for seq, _ in written), strict=True))
        return Sent(self._place.queue, len(encoded), all(there for _, there in written), positions)

    def _append(self, partition: int, records: Sequence[Record]) -> tuple[int, bool]:
        journal = self._journals[partition]
        forgotten_at = time.monotonic() + PATIENCE
        while True:
            writer = self._client.sequenced(journal, WRITER)
            state = writer.open()
            found = self._find(state) if self._is_keyed else None
            if found is not None:
                return found, True
            try:
                return self._append_after(writer, records)
            except WriterFenced as error:
                # Another send came in between: it may have been the same one.
                if time.monotonic() > forgotten_at:
                    raise SendBusy(self._place.queue, PATIENCE) from error

    def _append_after(
        self, writer: SyncSequencedWriter, records: Sequence[Record]
    ) -> tuple[int, bool]:
        commit = writer.append(records, self._batch)
        return commit.batch.seq, commit.was_there

    def _find(self, state: WriterState) -> int | None:
        """The first index of the batch, if the journal has it."""
        if state.last is None:
            return None  # nobody ever sent to it
        if state.last.id == self._batch:
            return state.last.seq
        if not self._is_mentioned(state.journal):
            return None
        unframer = FixedUnframer(0)
        for content in self._content(state.journal):
            for frame in unframer.feed(content):
                decoded = decode_frame(frame)
                if isinstance(decoded, Control) and decoded.batch == self._batch:
                    return decoded.seq
        return None

    def _is_mentioned(self, journal: str) -> bool:
        """Whether its name stands anywhere: to decode every frame would take far longer."""
        wanted, tail = self._batch.encode(), b""
        for content in self._content(journal):
            if wanted in tail + content:
                return True
            tail = content[-len(wanted) :]
        return False

    def _content(self, journal: str) -> Iterable[bytes]:
        end = self._client.write_head(journal)
        return (
            chunk.content for chunk in self._client.chunks(ReadRequest(journal, 0, end_offset=end))
        )


def _record(message: Encoded, now: float) -> Record:
    return Record(
        uuid=uuid.uuid4().bytes,
        key=message.key,
        headers=message.headers,
        value=message.value,
        topic=message.topic or "",
        time=int(now * 1_000_000),
    )
