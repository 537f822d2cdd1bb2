"""What only journals have: numbers against bytes, fragments, stores, brokers that restart."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from tests.fixtures.services import start_service
from tests.integration.spark.filling import (
    STORED,
    JournalKit,
    rows_of,
    small,
    until,
    values_of,
    whole,
)
from windrow.config.journal import Journal
from windrow.embedded.broker import Broker
from windrow.journal.client.errors import NotSequenced
from windrow.journal.fragments.errors import CorruptFragment
from windrow.journal.message.record import Control, Record, encode_control, encode_records
from windrow.spark.places import Connections, Place
from windrow.spark.queues import frames, open_queue
from windrow.spark.queues.errors import NotSequencedJournal, QueueMissing, SequenceBroken
from windrow.spark.queues.journal import JournalQueue
from windrow.spark.queues.journal_state import JournalState
from windrow.spark.queues.landmarks import Landmark


def journal_queue(place: Place) -> JournalQueue:
    queue = open_queue(place)
    assert isinstance(queue, JournalQueue)
    return queue


@pytest.fixture
def kit(queue_broker: Broker) -> JournalKit:
    kit = JournalKit(queue_broker, None)
    kit.create()
    return kit


def test_any_record_of_a_long_journal_is_found_by_one_who_knows_nothing(
    queue_broker: Broker,
) -> None:
    """Sizes differ by a lot, so that guesses go wrong."""
    kit = JournalKit(queue_broker, None, fragment_length=2 << 20)
    kit.create()
    rng, values = random.Random(6), []
    for begin in range(0, 3000, 250):
        size = rng.choice([10, 2_000, 20_000])
        some = [b"%d " % n + bytes(rng.randint(0, size)) for n in range(begin, begin + 250)]
        kit.fill([Record(value=value) for value in some])
        values += some
    (one,) = open_queue(kit.place).available()
    assert one.end == 3000
    for start in [0, 1, 249, 250, 2999, *(rng.randrange(2990) for _ in range(10))]:
        span = whole(one).part(start, min(3000, start + 5))
        assert values_of(open_queue(kit.place), span) == values[span.start : span.end], start


def test_content_of_a_journal_as_a_message_does_not_mislead(kit: JournalKit) -> None:
    """Whoever looks for records in the middle finds frames with the numbers that it looks for."""
    forged = encode_control(Control("w", "b", "", 1000, 900))
    forged += encode_records([Record(value=b"forged" + bytes(2_000)) for _ in range(1000)], 900)
    kit.fill(small(900))
    kit.fill([Record(value=forged)])
    kit.fill(small(999, 901))
    (one,) = open_queue(kit.place).available()
    for start in (899, 900, 950, 1000, 1500, 1899):
        (row,) = rows_of(open_queue(kit.place), whole(one).part(start, start + 1))
        expected = forged if start == 900 else b"v%d" % start
        assert (row["_index"], row["value"]) == (start, expected)


def test_reader_that_is_told_a_landmark_asks_for_nothing_but_content(
    kit: JournalKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a task does, whose process has never seen this journal."""
    planner, task = journal_queue(kit.place), journal_queue(kit.place)
    kit.fill(small(100))
    planner.available()
    kit.fill(small(100, 100))
    (one,) = planner.available()
    span = whole(one).part(100, 200)
    landmark = planner.landmark(span)
    assert landmark is not None
    assert landmark.seq == 100
    monkeypatch.setattr(JournalState, "refresh", None)
    values = [v.as_py() for batch in task.read(span, landmark) for v in batch.column("value")]
    assert values == [b"v%d" % n for n in range(100, 200)]


def test_writing_past_the_registers_is_found(kit: JournalKit) -> None:
    kit.fill(small(5))
    journal = kit.place.journals[0]
    kit.client.append(journal, encode_records([Record(value=b"intruder")], 3))
    kit.fill(small(5, 5))
    reader = open_queue(kit.place)
    (one,) = reader.available()
    with pytest.raises(SequenceBroken, match=r"should go on with record 5 and has 3|has 3 near"):
        values_of(reader, whole(one))


def test_journal_with_content_and_no_numbers_is_refused(kit: JournalKit) -> None:
    kit.client.append(kit.place.journals[0], b"whatever")
    with pytest.raises(NotSequenced):
        open_queue(kit.place).available()


def test_journal_without_the_label_is_refused(kit: JournalKit) -> None:
    from windrow.journal.client.requests import Upsert
    from windrow.journal.spec import SEQUENCED_LABEL
    from windrow.spark.queues.create import journal_spec

    name = f"{kit.place.address}-plain"
    spec = journal_spec(name, kit.place.connections.journals)
    kit.client.apply([Upsert(replace(spec, labels=spec.labels.without(SEQUENCED_LABEL)))])
    with pytest.raises(NotSequencedJournal, match="has no label"):
        open_queue(replace(kit.place, address=name)).available()


def test_neighbour_with_a_longer_name_is_another_queue(kit: JournalKit) -> None:
    other = replace(kit.place, address=f"{kit.place.address}-more")
    with pytest.raises(QueueMissing):
        open_queue(other).available()
    assert len(open_queue(kit.place).available()) == 1


def test_fragments_begin_at_cuts(kit: JournalKit) -> None:
    for begin in range(0, 200, 20):
        kit.fill([Record(value=bytes(400)) for _ in range(begin, begin + 20)])
    queue = journal_queue(kit.place)
    (one,) = queue.available()
    cuts = queue.cuts(one.origin)
    assert len(cuts) >= 3
    assert all(cut % 20 == 0 for cut in cuts), "appends are whole in their fragments"
    within = whole(one).part(50, 110)
    assert queue.cuts(one.origin, within) == [cut for cut in cuts if 50 < cut < 110]


def test_stored_fragments_are_read_from_their_store(queue_broker: Broker) -> None:
    """Where their files cannot be reached, through the broker."""
    kit = JournalKit(queue_broker, None, codec="gzip", **STORED)
    kit.create()
    for begin in range(0, 60, 20):
        kit.fill([Record(value=b"v%d" % n + bytes(400)) for n in range(begin, begin + 20)])
    until(lambda: bool(kit._fragments()[0].backing_store), "the first fragment is stored")
    (one,) = open_queue(kit.place).available()
    expected = [b"v%d" % n + bytes(400) for n in range(60)]
    direct = journal_queue(kit.place)
    assert values_of(direct, whole(one)) == expected
    assert direct._direct
    elsewhere = Connections(journal=Journal(address=queue_broker.address))
    through = journal_queue(replace(kit.place, connections=elsewhere))
    assert values_of(through, whole(one)) == expected
    assert not through._direct, "it has found out, and will not try again"
    for path in (kit.root / kit.place.journals[0]).glob("*.gz"):
        path.write_bytes(b"broken")
    given = kit.place.connections.journal.model_copy(update={"patience": 0.5})
    hasty = journal_queue(replace(kit.place, connections=Connections(journal=given)))
    with pytest.raises(CorruptFragment):
        list(hasty.read(whole(one), Landmark(0, 0)))


def test_reading_goes_on_after_the_broker_was_killed(pytestconfig: pytest.Config) -> None:
    with start_service(pytestconfig, "broker", Broker.start) as broker:
        kit = JournalKit(broker, None, fragment_length=1 << 20)
        kit.create()
        kit.fill(small(500))
        reader = open_queue(kit.place)
        (before,) = reader.available()
        assert len(values_of(reader, whole(before).part(0, 100))) == 100
        broker.kill()
        broker.restart()
        (after,) = reader.available()
        assert after == before
        assert values_of(reader, whole(after)) == [b"v%d" % n for n in range(500)]
        kit.fill(small(5, 500))
        (later,) = reader.available()
        assert values_of(reader, whole(later).part(498, 505))[-1] == b"v504"


def test_small_span_of_a_large_journal_is_not_read_from_its_beginning(
    queue_broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit = JournalKit(queue_broker, None, fragment_length=1 << 20)
    kit.create()
    for _ in range(20):
        kit.fill([Record(value=bytes(1000)) for _ in range(500)])
    decoded: list[int] = []
    original = frames.decode_block

    def counting(content: bytes, offset: int) -> frames.Block:
        decoded.append(len(content))
        return original(content, offset)

    monkeypatch.setattr(frames, "decode_block", counting)
    (one,) = open_queue(kit.place).available()
    assert len(values_of(open_queue(kit.place), whole(one).part(7_000, 7_010))) == 10
    assert sum(decoded) < 3_000_000, "of 10 MB"


def test_message_much_longer_than_all_others_is_read(kit: JournalKit) -> None:
    kit.fill(small(2000))
    kit.fill([Record(value=bytes(20_000_000))])
    kit.fill(small(1, 2001))
    reader = open_queue(kit.place)
    (one,) = reader.available()
    values = values_of(reader, whole(one).part(1999, 2002))
    assert [len(value or b"") for value in values] == [5, 20_000_000, 5]
