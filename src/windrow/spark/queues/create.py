"""Make the journals and topics of queues that do not exist yet; leave alone what does."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from windrow.errors import Unreachable
from windrow.extras import require
from windrow.spark.places import Connections, JournalSettings, Place
from windrow.spark.queues.clients import journal_client
from windrow.spark.queues.find import chosen, selector_of

if TYPE_CHECKING:
    from windrow.journal.client.sync import SyncJournalClient
    from windrow.journal.spec import JournalSpec

CREATE_TIMEOUT: Final = 30.0
_TRIES: Final = 5


def ensure_journals(places: Iterable[Place]) -> tuple[str, ...]:
    """Create the journals of queues on journals that are missing; returns their names, sorted.

    A queue that has partitions of its own accord keeps them, if it was declared without a number.

    Raises:
        PartitionsDiffer: A queue has more partitions than were declared.
        NotSequencedJournal: A journal is there, and its records have no numbers.
        Unreachable: No broker answered.
    """
    created: list[str] = []
    for place in places:
        if place.backend == "journal":
            created += _ensure(journal_client(place.connections.journal), place)
    return tuple(sorted(created))


def _ensure(client: SyncJournalClient, place: Place) -> list[str]:
    from windrow.journal.client.requests import Upsert
    from windrow.journal.errors import EtcdTransactionFailed

    for attempt in range(_TRIES):
        listed = client.list(selector_of(place)).journals
        names = {each.spec.name for each in listed}
        missing = [name for name in place.journals if name not in names]
        if place.partitions in (None, 1) and f"{place.address}/part-000" in names:
            missing = []
        if not missing:
            chosen(place, listed)
            return []
        specs = [journal_spec(name, place.connections.journals) for name in missing]
        try:
            client.apply([Upsert(spec) for spec in specs])
        except EtcdTransactionFailed:
            if attempt == _TRIES - 1:
                raise
            continue  # another process has made one of them meanwhile
        return missing
    raise AssertionError("unreachable")


def journal_spec(name: str, settings: JournalSettings) -> JournalSpec:
    """What a new journal of a queue is made of: numbered records behind fixed frames."""
    from windrow.journal.codec import Codec
    from windrow.journal.labels import LabelSet
    from windrow.journal.message.framing import FIXED
    from windrow.journal.spec import SEQUENCED_LABEL, FragmentSpec, JournalSpec

    labels = LabelSet.of({SEQUENCED_LABEL: "true", "content-type": FIXED.content_type})
    fragment = FragmentSpec(
        length=settings.fragment_length,
        codec=Codec[settings.codec.upper()],
        stores=settings.stores,
        refresh_interval=settings.refresh_interval,
        retention=settings.retention,
        flush_interval=settings.flush_interval,
    )
    return JournalSpec(name, settings.replication, labels, fragment)


def ensure_topics(places: Iterable[Place]) -> tuple[str, ...]:
    """Create the topics of queues on Kafka that are missing; returns their names, sorted.

    Raises:
        PartitionsDiffer: A topic has another number of partitions than was declared.
        Unreachable: No broker answered.
    """
    by_cluster: dict[str, list[Place]] = defaultdict(list)
    for place in places:
        if place.backend == "kafka":
            by_cluster[repr(sorted(place.connections.kafka.items()))].append(place)
    created: list[str] = []
    for group in by_cluster.values():
        created += _ensure_topics(group[0].connections, group)
    return tuple(sorted(created))


def _ensure_topics(connections: Connections, places: Sequence[Place]) -> list[str]:
    from windrow.spark.queues.kafka_clients import admin_client, await_topics, reason_of

    kafka = require("confluent_kafka")
    admin = admin_client(connections.kafka)
    try:
        found = admin.list_topics(timeout=CREATE_TIMEOUT).topics
        missing = {place.address: place for place in places if place.address not in found}
        _create_topics(admin, missing)
        await_topics(admin, {place.address: place for place in places}, CREATE_TIMEOUT)
    except kafka.KafkaException as error:
        address = str(connections.kafka.get("bootstrap.servers"))
        raise Unreachable("Kafka", address, reason_of(error)) from error
    return sorted(missing)


def _create_topics(admin: Any, missing: Mapping[str, Place]) -> None:
    if not missing:
        return
    kafka, module = require("confluent_kafka"), require("confluent_kafka.admin")
    wanted = []
    for name, place in missing.items():
        settings = place.connections.topics
        wanted.append(
            module.NewTopic(
                name,
                num_partitions=place.partitions or 1,
                replication_factor=settings.replication,
                config=dict(settings.config),
            )
        )
    for future in admin.create_topics(wanted, operation_timeout=CREATE_TIMEOUT).values():
        try:
            future.result(CREATE_TIMEOUT)
        except kafka.KafkaException as error:
            if error.args[0].name() != "TOPIC_ALREADY_EXISTS":
                raise
