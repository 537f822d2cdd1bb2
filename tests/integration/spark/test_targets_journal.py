"""Journals as a target: what a record holds, and who else may write beside."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest

from tests.integration.spark.target_stages import JournalStage, row, texts
from windrow.embedded.broker import Broker
from windrow.graph.delivery_errors import InvalidBacking, MarkConflict
from windrow.graph.packing import pack_marks
from windrow.graph.positions import Position
from windrow.graph.sink_rows import SinkRow
from windrow.journal.client.requests import Upsert
from windrow.journal.client.sync import SyncJournalClient, connect
from windrow.journal.message.record import Control, Record, encode_control
from windrow.journal.spec import JournalSpec
from windrow.spark.places import JournalSettings, Place
from windrow.spark.queues.clients import close_clients
from windrow.spark.queues.create import journal_spec
from windrow.spark.queues.errors import NotSequencedJournal, QueueMissing
from windrow.spark.stores import Content
from windrow.spark.targets.open import cached_target, close_cached_targets, open_target
from windrow.spark.targets.rows import row_uuid


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker.start() as broker:
        yield broker
        close_clients()


@pytest.fixture
def stage(broker: Broker) -> JournalStage:
    return JournalStage(broker.address)


@pytest.fixture
def client(broker: Broker) -> Iterator[SyncJournalClient]:
    with connect(broker.address) as client:
        yield client


def test_record_holds_all_that_the_row_says(stage: JournalStage) -> None:
    at = Position("orders", "first", 0, 0)
    headers: tuple[tuple[str, bytes | None], ...] = (("a", b"1"), ("b", None), ("a", b""))
    full = Content(b"{}", b"k", headers, "prices", 1_767_323_045_000_001, "ab" * 32)
    bare = Content(None)
    with stage.opened() as target:
        rows = [SinkRow((at,), full), SinkRow((Position("orders", "first", 0, 1),), bare)]
        stage.run(target, rows)
    first, second = stage.records(0)
    uuid = bytes.fromhex("ab" * 16)
    assert first == Record(uuid, 0, b"k", headers, b"{}", "prices", 1_767_323_045_000_001)
    assert second == Record(row_uuid("", 0), 1, None, (), None, "", 0)


def test_rows_go_behind_those_of_a_writer_that_knows_nothing_of_graphs(
    stage: JournalStage, client: SyncJournalClient
) -> None:
    relay = client.sequenced(stage.place.journals[0], "relay")
    with stage.opened() as target:
        stage.run(target, [row(0)])
        relay.append([Record(value=b'{"text": "other"}')])
        stage.run(target, [row(1), row(2)])
        relay.append([Record(value=b'{"text": "more"}')])
        stage.run(target, [row(3)])
    assert stage.contents(0) == ["0.0", "other", "0.1", "0.2", "more", "0.3"]


def test_marks_that_nobody_of_us_wrote_are_refused_and_not_tried_for_ever(
    stage: JournalStage, client: SyncJournalClient
) -> None:
    """They mean what was expected and are written in another way: the check can never pass."""
    with stage.opened() as target:
        stage.run(target, [row(0)])
        (name, text), *_ = pack_marks(target.read_high_water(stage.uid, 0)).items()
        client.append(stage.place.journals[0], encode_control(Control()), union={name: f"{text}+"})
        with pytest.raises(InvalidBacking):
            stage.run(target, [row(1)])
        odd = text.replace("0=0.1", "0=00.1")
        assert odd != text
        client.append(stage.place.journals[0], encode_control(Control()), union={name: odd})
        with pytest.raises(MarkConflict, match="two graphs may share one name there"):
            stage.run(target, [row(1)])


def test_journal_that_is_missing_or_not_numbered_is_refused(
    stage: JournalStage, client: SyncJournalClient
) -> None:
    missing = Place("p", "journal", "test/absent", 1, {}, stage.place.connections)
    with pytest.raises(QueueMissing, match="journal 'test/absent' does not exist"):
        open_target(missing).targets()
    name = f"test/{secrets.token_hex(6)}"
    sound = journal_spec(name, JournalSettings())
    client.apply([Upsert(JournalSpec(name, 1, fragment=sound.fragment))])
    plain = Place("p", "journal", name, 1, {}, stage.place.connections)
    with pytest.raises(NotSequencedJournal, match="has no label"):
        open_target(plain).read_high_water(stage.uid, 0)


def test_target_is_opened_once_in_a_process(stage: JournalStage) -> None:
    kept = cached_target(stage.place)
    assert cached_target(Place(**vars(stage.place))) is kept
    stage.run(kept, [row(0)])
    close_cached_targets()
    assert cached_target(stage.place) is not kept
    stage.run(cached_target(stage.place), [row(0), row(1)])
    close_cached_targets()
    assert stage.contents(0) == texts([0, 1])
