"""One suite for every reader of an outbox that several relays share: each sees its own rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from uuid import UUID, uuid4

import pytest

from tests.fixtures.relaying import OutboxDatabase
from windrow.outbox.marked import Marked
from windrow.outbox.stores.postgres import PostgresStore
from windrow.outbox.stores.postgres_batches import PostgresBatches
from windrow.outbox.stores.statements import build_statements
from windrow.outbox.table import WINDROW, Table
from windrow.relay.batch_machine import new_batch_uuid
from windrow.relay.election.leading import Leading
from windrow.relay.election.plan import Plan
from windrow.relay.election.plan_table import PlanTable
from windrow.relay.election.postgres_lease import lease_session
from windrow.relay.road import enter

SHARDS = 4


class Reader:
    """A store as the leader of one shard uses it, whatever its way of taking rows."""

    def __init__(self, store: PostgresStore) -> None:
        self.store, self.leader = store, uuid4()

    def read(self, limit: int = 1_000) -> list[Marked]:
        return self.store.read(self.leader, limit)

    def purge(self, rows: list[Marked]) -> int:
        return self.store.purge([row.id for row in rows])


class BatchReader(Reader):
    store: PostgresBatches

    def read(self, limit: int = 1_000) -> list[Marked]:
        self.name: UUID = new_batch_uuid()
        ahead = self.store.look_ahead((), limit)
        rows = list(self.store.purge_and_mark(None, (), self.name, limit))
        assert [row.id for row in ahead] == [row.id for row in rows]
        return rows

    def purge(self, rows: list[Marked]) -> int:
        self.store.purge_and_mark((self.name, len(rows)), (), None, 0)
        return len(rows)


@pytest.fixture
def plan_table(outbox: OutboxDatabase) -> Iterator[PlanTable]:
    table = PlanTable(lease_session(outbox.dsn), outbox.table, "relay")
    yield table
    table.close()


@pytest.fixture(params=["mark", "diff", "batches"])
def reader_of(
    request: pytest.FixtureRequest, outbox: OutboxDatabase, plan_table: PlanTable
) -> Iterator[Callable[[int, Plan], Reader]]:
    """Makes the leader of a shard under a plan."""
    with ExitStack() as opened:

        def lead(shard: int, plan: Plan) -> Reader:
            reader: Reader
            if request.param == "batches":
                reader = BatchReader(PostgresBatches(outbox.dsn, outbox.table))
            else:
                reader = Reader(PostgresStore(outbox.dsn, outbox.table, reader=request.param))
            opened.enter_context(reader.store)
            epoch = plan_table.raise_epoch(shard, plan)
            enter(reader.store, Leading(epoch, 0.0, shard=shard, plan=plan))
            return reader

        yield lead


ReaderOf = Callable[[int, Plan], Reader]


def divided(plan_table: PlanTable, shards: int = SHARDS) -> Plan:
    """A settled plan of so many shards."""
    assert plan_table.divide(plan_table.look().plan, shards)
    plan = plan_table.look().plan
    assert plan_table.settle(plan, plan_table.raise_epoch(0, plan))
    return plan_table.look().plan


def some_rows(outbox: OutboxDatabase, count: int = 400, keys: int = 40) -> None:
    outbox.write("topic", [(f"key-{n % keys}", str(n)) for n in range(count)])


def test_the_shards_have_all_rows_between_them_and_none_twice(
    outbox: OutboxDatabase, plan_table: PlanTable, reader_of: ReaderOf
) -> None:
    some_rows(outbox)
    with outbox.connect() as connection:
        connection.execute(
            "INSERT INTO outbox (kafka_topic, kafka_value)"
            " SELECT 'topic', n::text FROM generate_series(1, 40) AS n"
        )
    plan = divided(plan_table)
    found = [reader_of(shard, plan).read() for shard in range(SHARDS)]
    ids = [row.id for rows in found for row in rows]
    assert len(ids) == len(set(ids)) == 440
    assert all(found), "a shard has nothing at all"
    for rows in found:
        assert [row.id for row in rows] == sorted(row.id for row in rows)
    keyless = [sum(row.key is None for row in rows) for rows in found]
    assert max(keyless) == 10, "rows without a key are dealt out by their ids"


def test_a_key_belongs_to_one_shard(
    outbox: OutboxDatabase, plan_table: PlanTable, reader_of: ReaderOf
) -> None:
    some_rows(outbox)
    plan = divided(plan_table)
    keys = [{row.key for row in reader_of(shard, plan).read()} for shard in range(SHARDS)]
    assert sum(map(len, keys)) == len(set().union(*keys)) == 40


def test_what_one_shard_takes_and_purges_leaves_the_others_as_they_were(
    outbox: OutboxDatabase, plan_table: PlanTable, reader_of: ReaderOf
) -> None:
    some_rows(outbox)
    plan = divided(plan_table)
    first, second = reader_of(0, plan), reader_of(1, plan)
    mine, others = first.read(), second.read()
    assert first.purge(mine) == len(mine)
    assert outbox.count() == 400 - len(mine)
    assert second.purge(others) == len(others)


def test_a_limit_counts_rows_of_the_shard_alone(
    outbox: OutboxDatabase, plan_table: PlanTable, reader_of: ReaderOf
) -> None:
    some_rows(outbox)
    plan = divided(plan_table)
    for shard in range(SHARDS):
        assert len(reader_of(shard, plan).read(20)) == 20


def test_a_leader_of_another_generation_reads_nothing(
    outbox: OutboxDatabase, plan_table: PlanTable, reader_of: ReaderOf
) -> None:
    some_rows(outbox)
    old = divided(plan_table, 4)
    stale = reader_of(2, old)
    divided(plan_table, 5)
    assert not takes_anything(stale)


def test_the_plan_is_in_the_fence_and_not_the_epoch_alone(
    outbox: OutboxDatabase, plan_table: PlanTable, reader_of: ReaderOf
) -> None:
    """Whoever changed the plan by hand and forgot the epochs would have two leaders for a key."""
    some_rows(outbox)
    stale = reader_of(2, divided(plan_table, 4))
    with outbox.connect() as connection:
        connection.execute("UPDATE outbox_epoch SET shards = 5, generation = generation + 1")
    assert not takes_anything(stale)


def takes_anything(reader: Reader) -> bool:
    from windrow.outbox.errors import Fenced

    try:
        if isinstance(reader, BatchReader):
            return bool(reader.store.purge_and_mark(None, (), new_batch_uuid(), 100))
        return bool(reader.read())
    except Fenced:
        return False


def test_a_leader_of_the_only_shard_reads_everything_by_statements_without_a_word_of_shards(
    outbox: OutboxDatabase, plan_table: PlanTable, reader_of: ReaderOf
) -> None:
    some_rows(outbox)
    assert len(reader_of(0, plan_table.look().plan).read()) == 400
    for name, statement in build_statements(Table(), WINDROW).items():
        if name not in ("mine", "raise_epoch"):
            assert "shards" not in statement
            assert "hash" not in statement
            assert "generation" not in statement
