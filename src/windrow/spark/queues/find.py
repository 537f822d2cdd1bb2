"""Which journals are the partitions of a queue, and which incarnation of each?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from windrow.journal.labels import Label, LabelSelector, LabelSet
from windrow.journal.spec import SEQUENCED_LABEL
from windrow.spark.places import Place
from windrow.spark.queues.errors import NotSequencedJournal, PartitionsDiffer, QueueMissing

if TYPE_CHECKING:
    from windrow.journal.client.client import JournalClient
    from windrow.journal.client.requests import ListedJournal
    from windrow.journal.client.sync import SyncJournalClient

_PART = re.compile(r"part-(\d{3,})")


@dataclass(frozen=True, slots=True)
class FoundJournal:
    """One partition of a queue.

    Attributes:
        partition: Its number.
        journal: Its name.
        incarnation: Tells it from an earlier journal of that name: the random id of its creation,
            or the revision of its creation where brokers give no id.
    """

    partition: int
    journal: str
    incarnation: str


def find_journals(client: SyncJournalClient, place: Place) -> tuple[FoundJournal, ...]:
    """The journals of a queue, by partition.

    Raises:
        QueueMissing: There is none, or one is missing between others.
        PartitionsDiffer: There are more or fewer than were declared.
        NotSequencedJournal: One of them has no numbers.
        Unreachable: No broker answered.
    """
    return client.thread.run(find_journals_async(client.client, place))


async def find_journals_async(client: JournalClient, place: Place) -> tuple[FoundJournal, ...]:
    """``find_journals`` in the client's own event loop."""
    return chosen(place, (await client.list(selector_of(place))).journals)


def selector_of(place: Place) -> LabelSelector:
    """All journals whose names begin as the queue's do."""
    return LabelSelector(LabelSet((Label("name", place.address, prefix=True),)))


def chosen(place: Place, listed: Iterable[ListedJournal]) -> tuple[FoundJournal, ...]:
    """Those of the listed journals that are the queue's; the journal itself before its parts."""
    by_partition: dict[int, ListedJournal] = {}
    whole: ListedJournal | None = None
    for each in listed:
        if each.spec.name == place.address:
            whole = each
        elif (number := _partition_of(place.address, each.spec.name)) is not None:
            by_partition[number] = each
    if whole is not None and (place.partitions is None or place.partitions == 1):
        by_partition = {0: whole}
    _check_whole(place, sorted(by_partition))
    return tuple(_found(place, number, by_partition[number]) for number in sorted(by_partition))


def _partition_of(address: str, journal: str) -> int | None:
    if not journal.startswith(f"{address}/"):
        return None
    matched = _PART.fullmatch(journal[len(address) + 1 :])
    return int(matched[1]) if matched else None


def _check_whole(place: Place, numbers: Sequence[int]) -> None:
    wanted = place.partitions
    if wanted is not None and numbers and len(numbers) > wanted:
        raise PartitionsDiffer(place.queue, wanted, len(numbers))
    count = wanted or max(1, len(numbers))
    for number in range(count):
        if number not in numbers:
            names = place.journals
            name = names[number] if number < len(names) else f"{place.address}/part-{number:03d}"
            raise QueueMissing(place.queue, f"journal {name!r}", "windrow journal apply --help")


def _found(place: Place, partition: int, listed: ListedJournal) -> FoundJournal:
    spec = listed.spec
    if not spec.is_sequenced:
        raise NotSequencedJournal(place.queue, spec.name, SEQUENCED_LABEL)
    incarnation = spec.incarnation or f"revision-{listed.create_revision}"
    return FoundJournal(partition, spec.name, incarnation)
