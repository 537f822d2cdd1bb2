"""Outbox to journal: a batch and its name in one append, so nothing is there twice."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest

from tests.fixtures.relaying import OutboxDatabase, wait_for
from windrow import Relay
from windrow.config import Config
from windrow.embedded.broker import Broker
from windrow.journal.client.errors import WriterFenced
from windrow.journal.client.requests import Upsert
from windrow.journal.client.sync import SyncJournalClient, connect
from windrow.journal.codec import Codec
from windrow.journal.labels import LabelSet
from windrow.journal.message.framing import FixedUnframer
from windrow.journal.message.record import Control, Record, decode_frame, decode_records
from windrow.journal.spec import SEQUENCED_LABEL, FragmentSpec, JournalSpec
from windrow.outbox.errors import BatchMismatch
from windrow.outbox.marked import Marked
from windrow.outbox.stores.postgres_batches import PostgresBatches
from windrow.relay.batch_machine import BatchName, Committed, ReadBack, Rejected
from windrow.relay.errors import JournalUnusable, LeaderFencedByTarget
from windrow.relay.targets.journal import JournalTarget, record_of


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


def target_of(
    broker: Broker,
    journal: str,
    epoch: int = 1,
    *,
    generation: int = 1,
    name: str = "outbox",
    shard: int = 0,
) -> JournalTarget:
    target = JournalTarget(lambda: connect(broker.address), journal)
    target.identify(name, shard)
    target.enter(generation, epoch)
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


def test_a_batch_of_many_topics_is_one_append_to_one_journal(
    broker: Broker, client: SyncJournalClient, journal: str
) -> None:
    """R1: of two appends under one name, the second would be taken for done already, and lost."""
    target = target_of(broker, journal)
    target.fence()
    topics = ["orders", "clicks", "orders", "refunds"]
    batch = [Marked(n, topic, "key", b"%d" % n, None, None) for n, topic in enumerate(topics)]
    name = BatchName(uuid4(), len(batch))
    assert target.publish(name, batch) == Committed()
    assert [record.topic for record in content(client, journal)] == topics
    frames = [decode_frame(frame) for frame in FixedUnframer().feed(client.read(journal))]
    heads = [one for one in frames if isinstance(one, Control) and one.batch]
    assert [(head.batch, head.count) for head in heads] == [(str(name.uuid), 4)]
    target.close()


def test_what_is_prepared_is_not_in_the_journal(
    broker: Broker, client: SyncJournalClient, journal: str
) -> None:
    """R3: a batch is prepared while the database still names it, and the name may be lost yet."""
    target = target_of(broker, journal)
    target.fence()
    target.prepare(BatchName(uuid4(), 2), rows(1, 2))
    assert content(client, journal) == []
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


def test_what_an_earlier_self_has_on_its_way_is_fenced_as_well(
    broker: Broker, client: SyncJournalClient, journal: str
) -> None:
    """R6: it gave up waiting for the append, and takes over from itself in the same epoch."""
    target = target_of(broker, journal)
    target.fence()
    earlier, its_client = target._writer, target._client
    assert earlier is not None
    assert its_client is not None
    target.fence()
    late = earlier.append_batch("late", [record_of(rows(1)[0], "outbox-0", 0)])
    with pytest.raises(WriterFenced):
        its_client.thread.run(late)  # on its own loop: another hears of no answer
    assert content(client, journal) == []
    target.close()


def test_shards_go_by_names_of_their_own(broker: Broker, journal: str) -> None:
    """R6: under one name each would shut the other out, and purge its rows by the other's word."""
    shards = [target_of(broker, journal, shard=shard) for shard in (0, 1)]
    for shard in shards:
        assert shard.fence() is None
    names = [BatchName(uuid4(), 1), BatchName(uuid4(), 1)]
    for shard, name in zip(shards, names, strict=True):
        assert shard.publish(name, rows(1)) == Committed()
    for shard, name in zip(shards, names, strict=True):
        assert shard.fence() is None
        assert shard.read_back() == ReadBack(name)
        shard.close()


def test_a_new_generation_comes_before_every_epoch_of_the_old(broker: Broker, journal: str) -> None:
    """R6: shards count their epochs for themselves, and a new one may have led less often."""
    old = target_of(broker, journal, epoch=50)
    new = target_of(broker, journal, epoch=1, generation=2)
    assert old.fence() is None
    assert new.fence() is None
    with pytest.raises(LeaderFencedByTarget):
        old.fence()
    for target in (old, new):
        target.close()


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


def relay_to(outbox: OutboxDatabase, broker: Broker, journal: str) -> Relay:
    config = {
        "database": {"dsn": outbox.dsn},
        "journal": {"address": broker.address},
        "relay": {"target": "journal", "journal": journal, "limits": {"transaction": 60}},
    }
    return Relay(Config.model_validate(config))


def leader_that_dies(
    outbox: OutboxDatabase, broker: Broker, journal: str, *, appends: bool = True
) -> None:
    """Mark all rows as one batch and append it, and get no further than that."""
    with PostgresBatches(outbox.dsn, outbox.table) as store:
        epoch = store.raise_epoch("dies")
        name = f"windrow-{outbox.table}-{store.identity()}"
        target = target_of(broker, journal, epoch, generation=0, name=name)
        target.fence()
        target.publish(BatchName(uuid4(), 0), [])
        batch = uuid4()
        marked = store.purge_and_mark(None, [], batch, limit=60)
        if appends:
            assert target.publish(BatchName(batch, len(marked)), marked) == Committed()
        target.close()


@pytest.mark.parametrize("appends", [True, False])
def test_a_batch_of_a_dead_leader_is_there_once_whether_it_was_appended_or_not(
    outbox: OutboxDatabase,
    broker: Broker,
    client: SyncJournalClient,
    journal: str,
    appends: bool,
) -> None:
    outbox.write("orders", [("key", f"{n}") for n in range(10)])
    leader_that_dies(outbox, broker, journal, appends=appends)
    with relay_to(outbox, broker, journal):
        wait_for(lambda: outbox.count() == 0, "all is relayed")
    assert [int(record.value or b"") for record in content(client, journal)] == list(range(10))


def test_a_purge_that_would_hit_part_of_an_appended_batch_halts_the_relay(
    outbox: OutboxDatabase, broker: Broker, client: SyncJournalClient, journal: str
) -> None:
    """R1: the registers hold the number of rows, so that a row nobody appended is not deleted."""
    outbox.write("orders", [("key", f"{n}") for n in range(10)])
    leader_that_dies(outbox, broker, journal)
    with outbox.connect() as connection:
        connection.execute("UPDATE outbox SET leader_id = NULL WHERE kafka_value = '3'")
    relay = relay_to(outbox, broker, journal).start()
    with pytest.raises(BatchMismatch, match=r"with 10 rows, but the outbox holds 9"):
        relay.wait(30.0)
    assert outbox.count() == 10
    assert len(content(client, journal)) == 10


@pytest.mark.proves("relay-journal")
def test_an_outbox_is_relayed_to_a_journal_as_it_was_written(
    outbox: OutboxDatabase, broker: Broker, client: SyncJournalClient, journal: str
) -> None:
    outbox.write("orders", [(f"key-{n % 7}", f"{n}") for n in range(500)])
    with relay_to(outbox, broker, journal) as relay:
        wait_for(lambda: outbox.count() == 0, "all is relayed")
        assert relay.delivered == 500
    records = content(client, journal)
    assert [int(record.value or b"") for record in records] == list(range(500))
    assert [record.seq for record in records] == list(range(500))
