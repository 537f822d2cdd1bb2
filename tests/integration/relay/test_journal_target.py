"""Outbox to journal: a batch and its name in one append, so nothing is there twice."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest

from tests.fixtures.relaying import OutboxDatabase, wait_for
from windrow.config import Config
from windrow.embedded.broker import Broker
from windrow.journal.client.requests import Upsert
from windrow.journal.client.sync import SyncJournalClient, connect
from windrow.journal.codec import Codec
from windrow.journal.labels import LabelSet
from windrow.journal.message.record import Record, decode_records
from windrow.journal.spec import SEQUENCED_LABEL, FragmentSpec, JournalSpec
from windrow.outbox.marked import Marked
from windrow.relay.batch_machine import BatchName, Committed, ReadBack, Rejected
from windrow.relay.errors import JournalUnusable, LeaderFencedByTarget
from windrow.relay.targets.journal import JournalTarget


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker.start() as running:
        yield running


@pytest.fixture
def client(broker: Broker) -> Iterator[SyncJournalClient]:
    with connect(broker.address) as connected:
        yield connected


def make_journal(client: SyncJournalClient, *labels: str) -> str:
    name = f"relayed/{uuid4().hex}"
    fragment = FragmentSpec(length=1 << 26, codec=Codec.NONE, stores=(), refresh_interval=60.0)
    spec = JournalSpec(name, 1, labels=LabelSet.of(dict.fromkeys(labels, "yes")), fragment=fragment)
    client.apply([Upsert(spec)])
    return name


@pytest.fixture
def journal(client: SyncJournalClient) -> str:
    return make_journal(client, SEQUENCED_LABEL)


def target_of(broker: Broker, journal: str, epoch: int = 1) -> JournalTarget:
    target = JournalTarget(lambda: connect(broker.address), journal)
    target.identify("outbox")
    target.enter(1, epoch)
    target.open()
    return target


def rows(*numbers: int) -> list[Marked]:
    return [Marked(n, "orders", f"key-{n % 3}", b"value %d" % n, None, None) for n in numbers]


def content(client: SyncJournalClient, journal: str) -> list[Record]:
    return decode_records(client.read(journal))


def test_a_batch_arrives_whole_with_its_topic_key_and_headers(
    broker: Broker, client: SyncJournalClient, journal: str
) -> None:
    target = target_of(broker, journal)
    assert target.fence() is None
    row = Marked(7, "orders", "alice", b"\x00\xff", ["trace"], ["abc"], None, 1_000)
    assert target.publish(BatchName(uuid4(), 2), [row, *rows(8)]) == Committed()
    first, second = content(client, journal)
    assert (first.topic, first.key, first.value) == ("orders", b"alice", b"\x00\xff")
    assert (first.headers, first.time) == ((("trace", b"abc"),), 1_000_000)
    assert (first.seq, second.seq) == (0, 1)
    assert first.uuid != second.uuid
    target.close()


def test_the_next_leader_reads_back_the_last_batch_and_its_count(
    broker: Broker, journal: str
) -> None:
    earlier = target_of(broker, journal, epoch=1)
    earlier.fence()
    assert earlier.read_back() == ReadBack(None)
    batch = BatchName(uuid4(), 3)
    earlier.publish(batch, rows(1, 2, 3))
    later = target_of(broker, journal, epoch=2)
    assert later.fence() is None
    assert later.read_back() == ReadBack(batch)
    for target in (earlier, later):
        target.close()


def test_whoever_was_fenced_appends_nothing_more(
    broker: Broker, client: SyncJournalClient, journal: str
) -> None:
    """R6: to read back is not enough, since an append may still be on its way: a fence writes."""
    earlier = target_of(broker, journal, epoch=1)
    earlier.fence()
    later = target_of(broker, journal, epoch=2)
    later.fence()
    with pytest.raises(LeaderFencedByTarget):
        earlier.publish(BatchName(uuid4(), 2), rows(1, 2))
    assert content(client, journal) == []
    for target in (earlier, later):
        target.close()


def test_without_the_fence_a_late_append_lands_behind_the_read_back(
    broker: Broker, client: SyncJournalClient, journal: str
) -> None:
    """The naive version: the later leader only reads, and the earlier one's append goes through."""
    earlier = target_of(broker, journal, epoch=1)
    earlier.fence()
    seen = client.append(journal).registers
    earlier.publish(BatchName(uuid4(), 1), rows(1))
    assert client.append(journal).registers != seen
    assert len(content(client, journal)) == 1
    earlier.close()


def test_an_earlier_epoch_takes_nothing_over(broker: Broker, journal: str) -> None:
    later, earlier = target_of(broker, journal, epoch=5), target_of(broker, journal, epoch=4)
    later.fence()
    with pytest.raises(LeaderFencedByTarget):
        earlier.fence()
    assert later.publish(BatchName(uuid4(), 1), rows(1)) == Committed()
    for target in (earlier, later):
        target.close()


def test_a_batch_that_was_committed_unheard_is_not_appended_again(
    broker: Broker, client: SyncJournalClient, journal: str
) -> None:
    target = target_of(broker, journal)
    target.fence()
    batch = BatchName(uuid4(), 2)
    target.publish(batch, rows(1, 2))
    target.fence()
    assert target.read_back() == ReadBack(batch)
    assert target.publish(batch, rows(1, 2)) == Committed()
    assert len(content(client, journal)) == 2
    target.close()


def test_a_malformed_row_is_refused_and_nothing_is_appended(
    broker: Broker, client: SyncJournalClient, journal: str
) -> None:
    target = target_of(broker, journal)
    target.fence()
    bad = Marked(2, "orders", "bob", b"x", ["one"], [], None, None)
    outcome = target.publish(BatchName(uuid4(), 2), [*rows(1), bad])
    assert isinstance(outcome, Rejected)
    assert [row.id for row, _ in outcome.failures] == [2]
    assert content(client, journal) == []
    target.close()


def test_a_journal_that_is_missing_or_not_sequenced_is_refused(
    broker: Broker, client: SyncJournalClient
) -> None:
    with pytest.raises(JournalUnusable, match="does not exist"):
        target_of(broker, "relayed/missing")
    with pytest.raises(JournalUnusable, match=SEQUENCED_LABEL):
        target_of(broker, make_journal(client))


@pytest.mark.proves("relay-journal")
def test_an_outbox_is_relayed_to_a_journal_as_it_was_written(
    outbox: OutboxDatabase, broker: Broker, client: SyncJournalClient, journal: str
) -> None:
    from windrow import Relay

    outbox.write("orders", [(f"key-{n % 7}", f"{n}") for n in range(500)])
    config = Config.model_validate(
        {
            "database": {"dsn": outbox.dsn},
            "journal": {"address": broker.address},
            "relay": {"target": "journal", "journal": journal, "limits": {"transaction": 60}},
        }
    )
    with Relay(config) as relay:
        wait_for(lambda: outbox.count() == 0, "all is relayed")
        assert relay.delivered == 500
    records = content(client, journal)
    assert [int(record.value or b"") for record in records] == list(range(500))
    assert [record.seq for record in records] == list(range(500))
