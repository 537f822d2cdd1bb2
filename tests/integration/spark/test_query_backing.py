"""The backing journal on a real broker: owned, counted, and read from its last snapshot."""

from __future__ import annotations

from secrets import token_hex

import pytest

from windrow.config.journal import Journal
from windrow.embedded.broker import Broker
from windrow.graph.backing import Attempt, Poisoned, Retried, Rewound, SnapshotTaken
from windrow.graph.delivery_steps import BackingAppended, BackingRefused
from windrow.graph.positions import Position, SourceOffsets, Span
from windrow.graph.recovery_machine import Taken
from windrow.graph.snapshot import ProcessorUid, Snapshot
from windrow.journal.client.sync import SyncJournalClient
from windrow.spark.places import Connections, Place
from windrow.spark.query.backing import JournalBacking
from windrow.spark.query.suspects import JournalSuspects
from windrow.spark.queues.clients import journal_client
from windrow.spark.queues.create import ensure_journals

UID = ProcessorUid("g", "p", "output/q")


@pytest.fixture
def client(queue_broker: Broker) -> SyncJournalClient:
    return journal_client(Journal(address=queue_broker.address))


@pytest.fixture
def journal(queue_broker: Broker) -> str:
    name = f"_backing/{token_hex(6)}"
    connections = Connections(journal=Journal(address=queue_broker.address))
    ensure_journals([Place(name, "journal", name, None, {}, connections)])
    return name


def taken(number: int, previous: str = "") -> SnapshotTaken:
    return SnapshotTaken(Snapshot(UID, number, (Span("a", "i", 0, number, number + 1),)), previous)


def test_records_add_up_whoever_of_the_owner_appends_them(
    client: SyncJournalClient, journal: str
) -> None:
    """The process that plans and the one that completes each have a store of their own."""
    planner, completer = (JournalBacking(client, journal, UID) for _ in range(2))
    assert planner.take("driver") == Taken(1)
    assert planner.append(taken(1), 1) == BackingAppended()
    attempt = Attempt("attempt-output", 1, taken(1).snapshot.delivery_hash, "q", 3)
    assert completer.append(attempt, 1) == BackingAppended()
    assert planner.append(taken(2), 1) == BackingAppended(), "its view of the journal was old"
    assert planner.append(Retried(2, 2, "again"), 1) == BackingAppended()
    state = JournalBacking(client, journal, UID).read()
    assert (state.owner, state.epoch, state.number, state.attempts) == ("driver", 1, 2, 2)
    assert state.taken == taken(2)


def test_owner_that_was_taken_over_appends_no_more(client: SyncJournalClient, journal: str) -> None:
    old, new = JournalBacking(client, journal, UID), JournalBacking(client, journal, UID)
    assert old.take("old") == Taken(1)
    assert old.append(taken(1), 1) == BackingAppended()
    assert new.take("new") == Taken(2)
    assert old.append(taken(2), 1) == BackingRefused(2)
    assert new.read().number == 1


def test_reading_begins_at_the_last_snapshot_and_not_at_zero(
    client: SyncJournalClient, journal: str
) -> None:
    backing = JournalBacking(client, journal, UID)
    backing.take("driver")
    for number in range(1, 30):
        backing.append(taken(number), 1)
    poison = Position("a", "i", 0, 29)
    backing.append(Poisoned(29, poison, "it kills"), 1)
    read = client.read
    asked: list[int] = []

    def counting(name: str, offset: int = 0, end_offset: int = 0) -> bytes:
        asked.append(end_offset - offset)
        return read(name, offset, end_offset)

    client.read = counting  # type: ignore[method-assign, assignment]
    try:
        state = JournalBacking(client, journal, UID).read()
    finally:
        client.read = read  # type: ignore[method-assign]
    assert state.taken == taken(29)
    assert state.poisoned == (poison,)
    assert asked[0] < client.write_head(journal) / 10
    assert state.epoch == 1, "who owns it is known though that record lies before"


def test_rewinding_keeps_the_number_of_the_last_snapshot(
    client: SyncJournalClient, journal: str
) -> None:
    backing = JournalBacking(client, journal, UID)
    backing.take("driver")
    backing.append(taken(7), 1)
    backing.append(Rewound(SourceOffsets(), "", "an operator said so"), 1)
    state = backing.read()
    assert state.taken is None
    assert state.number == 7


def test_append_whose_answer_was_lost_is_found(
    client: SyncJournalClient, journal: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from windrow.journal.errors import AppendUnknown

    backing = JournalBacking(client, journal, UID)
    backing.take("driver")
    append = client.append
    lost: list[str] = []

    def losing(name: str, content: bytes = b"", **options: object) -> object:
        done = append(name, content, **options)
        if content and not lost:
            lost.append(name)
            raise AppendUnknown(name, "the line was cut")
        return done

    monkeypatch.setattr(client, "append", losing)
    assert backing.append(taken(1), 1) == BackingAppended()
    assert backing.append(Retried(1, 2, ""), 1) == BackingAppended()
    monkeypatch.undo()
    assert lost
    state = backing.read()
    assert (state.number, state.attempts) == (1, 2)
    records = client.read(journal)
    assert records.count(b'"type":"snapshot"') == 1


def test_note_of_a_suspect_counts_for_its_snapshot_only(
    client: SyncJournalClient, journal: str
) -> None:
    suspects = JournalSuspects(client, journal)
    assert suspects.read("one") == ""
    assert JournalSuspects(client, "_suspects/of-nobody").read("one") == ""
    suspects.note("one", "a")
    suspects.note("one", "b")
    assert suspects.read("one") == "b"
    assert suspects.read("two") == ""
    suspects.note("one", "")
    assert suspects.read("one") == ""
