"""Where does a queue of a graph live, and how is that place reached? Pure, and picklable.

A place travels from the driver to every task, which opens its own connections from it. What is
secret in it is never shown: not by ``repr``, and so in no log and in no error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from windrow.config import Config, Dsn, Secret
from windrow.config.journal import Journal
from windrow.graph.declaration import Graph
from windrow.graph.queues import BackendName
from windrow.graph.snapshot import ProcessorUid
from windrow.graph.staging import staging_queue

OWN_PREFIX: Final = "_"
"""With this begin the names of queues that no graph declares: staging, progress, backing."""


@dataclass(frozen=True, slots=True)
class JournalSettings:
    """How journals are made that do not exist yet; what exists is left as it is.

    Attributes:
        replication: On how many brokers each one lies.
        fragment_length: Bytes after which a fragment ends and is stored.
        codec: What stored fragments are compressed by, as in a journal's specification.
        stores: Where fragments are stored; none keeps them on the brokers alone.
        refresh_interval: Seconds between two listings of the stores.
        retention: Seconds after which stored fragments may be removed; 0 keeps them.
        flush_interval: Seconds after which a fragment is stored though it is not full; 0 is never.
    """

    replication: int = 1
    fragment_length: int = 64 * 1024 * 1024
    codec: str = "zstandard"
    stores: tuple[str, ...] = ()
    refresh_interval: float = 60.0
    retention: float = 0.0
    flush_interval: float = 0.0


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """How topics are made that do not exist yet; what exists is left as it is."""

    replication: int = 1
    config: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Connections:
    """How every kind of place is reached.

    Attributes:
        journal: The brokers of journals.
        kafka: Properties of every client of Kafka, as librdkafka calls them, secrets revealed.
        kafka_producer: Further ones of producers.
        postgres_dsn: The database, with its password; shown without.
        journals: How new journals are made.
        topics: How new topics are made.
    """

    journal: Journal = field(default_factory=Journal)
    kafka: Mapping[str, Any] = field(default_factory=dict, repr=False)
    kafka_producer: Mapping[str, Any] = field(default_factory=dict, repr=False)
    postgres_dsn: Dsn | None = None
    journals: JournalSettings = JournalSettings()
    topics: TopicSettings = field(default_factory=TopicSettings)


@dataclass(frozen=True)
class Place:
    """Where one queue lives.

    Attributes:
        queue: Its name in the graph, and the ``_source`` of its messages.
        backend: The kind of place.
        address: The journal (or what the names of its partitions begin with), topic, table or URL.
        partitions: How many; ``None`` is as many as are found, and one if it has to be made.
        options: What was declared beside the address.
        connections: How to reach it.
    """

    queue: str
    backend: BackendName
    address: str
    partitions: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    connections: Connections = field(default_factory=Connections, repr=False)

    def __hash__(self) -> int:
        return hash((self.queue, self.backend, self.address, self.partitions))

    @property
    def journals(self) -> tuple[str, ...]:
        """The journals that it is made of, if it has to be made: one for each partition."""
        if self.partitions is None or self.partitions == 1:
            return (self.address,)
        return tuple(partition_journal(self.address, n) for n in range(self.partitions))


def partition_journal(address: str, partition: int) -> str:
    """The journal of one of several partitions."""
    return f"{address}/part-{partition:03d}"


def connections_of(
    config: Config,
    journals: JournalSettings | None = None,
    topics: TopicSettings | None = None,
) -> Connections:
    """How the configuration reaches every kind of place.

    Args:
        config: The whole configuration.
        journals: How new journals are made.
        topics: How new topics are made.
    """
    return Connections(
        journal=config.journal,
        kafka={"bootstrap.servers": config.kafka.bootstrap, **_revealed(config.kafka.properties)},
        kafka_producer=_revealed(config.kafka.producer),
        postgres_dsn=config.database.dsn,
        journals=journals or JournalSettings(),
        topics=topics or TopicSettings(),
    )


def place_of(graph: Graph, queue: str, connections: Connections) -> Place:
    """Where a queue of a graph lives: as declared, by default, or one of the graph's own.

    A staging queue is a journal with as many partitions as the most partitioned input of its
    processor declares; other names that begin with an underscore are journals of one partition.
    """
    if queue.startswith(OWN_PREFIX):
        return Place(queue, "journal", queue, _staged_partitions(graph, queue), {}, connections)
    declared = graph.queue(queue)
    return Place(
        queue,
        declared.backend_name,
        declared.address_in(graph.id),
        declared.partitions,
        dict(declared.options),
        connections,
    )


def places_of(graph: Graph, queues: Iterable[str], connections: Connections) -> dict[str, Place]:
    """The places of several queues, by name."""
    return {name: place_of(graph, name, connections) for name in queues}


def _staged_partitions(graph: Graph, queue: str) -> int | None:
    for processor in graph.working:
        uid = ProcessorUid.parse(graph.uid_of(processor))
        if staging_queue(uid) == queue:
            counts = (graph.queue(name).partitions for _, name in graph.read_by(processor))
            return max((count for count in counts if count is not None), default=None)
    return None


def _revealed(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: value.reveal() if isinstance(value, Secret) else value
        for key, value in properties.items()
    }
