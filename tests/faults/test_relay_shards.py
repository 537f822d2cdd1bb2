"""Relays that share an outbox are killed, paused and outnumbered; then count at a consumer."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.faults.relay_bench import RelayBench, RelayProcess, ledger_progress, relay_bench
from tests.faults.test_relay_kills import BARRIER_POINTS, BATCH_POINTS, kills
from tests.fixtures.relaying import OutboxDatabase, consume, wait_for
from windrow.outbox.marked import Marked
from windrow.outbox.stores.postgres import PostgresStore
from windrow.outbox.stores.postgres_batches import PostgresBatches
from windrow.relay.batch_machine import BatchName, Committed, ReadBack, new_batch_uuid
from windrow.relay.election.leading import Leading
from windrow.relay.election.plan import Plan
from windrow.relay.election.plan_table import PlanTable
from windrow.relay.election.postgres_lease import lease_session
from windrow.relay.errors import LeaderFencedByTarget
from windrow.relay.road import enter
from windrow.relay.settling import ResolveBatches
from windrow.relay.targets.kafka_transactions import KafkaTransactions
from windrow.testing import FaultLog

MODES = [
    pytest.param("barrier", marks=pytest.mark.proves("relay-barrier")),
    pytest.param("transactional", marks=pytest.mark.proves("relay-transactional")),
]
POINTS = {"barrier": BARRIER_POINTS, "transactional": BATCH_POINTS}


# -- R7: a key moves to another shard --------------------------------------------------------------


@dataclass
class Move:
    """A key of shard 2 of 4 that belongs to shard 1 of 5, and both their leaders."""

    outbox: OutboxDatabase
    kafka: str
    topic: str
    key: str
    table: PlanTable
    identity: str

    def transactions(self, shard: int) -> KafkaTransactions:
        target = KafkaTransactions(
            {"bootstrap.servers": self.kafka, "log_level": 0},
            transactional_id="",
            state_topic=f"state-{self.identity}",
            operation_timeout=10.0,
        )
        target.identify(self.identity, shard)
        return target

    def divide(self, shards: int) -> Plan:
        assert self.table.divide(self.table.look().plan, shards)
        return self.table.look().plan

    def settle(self, plan: Plan) -> None:
        """Without asking what was left behind."""
        assert self.table.settle(plan, self.table.raise_epoch(0, plan))

    def lead(self, store: PostgresStore, shard: int, plan: Plan) -> Leading:
        leading = Leading(self.table.raise_epoch(shard, plan), 0.0, shard=shard, plan=plan)
        enter(store, leading)
        return leading

    def values(self) -> list[str | None]:
        return [seen.value for seen in consume(self.kafka, self.topic)]


@pytest.fixture
def move(outbox: OutboxDatabase, kafka: str, topic: str) -> Iterator[Move]:
    table = PlanTable(lease_session(outbox.dsn), outbox.table, "relay")
    identity = f"shards-{secrets.token_hex(6)}"
    with outbox.connect() as connection:
        query = (
            "SELECT 'key-' || n FROM generate_series(1, 1000) AS n,"
            " LATERAL (SELECT hashtextextended(('key-' || n) COLLATE \"C\", 0)"
            "   & 9223372036854775807) AS of (hash)"
            " WHERE hash % 4 = 2 AND hash % 5 = 1 LIMIT 1"
        )
        (key,) = connection.execute(query).fetchone() or ("",)
    move = Move(outbox, kafka, topic, key, table, identity)
    move.transactions(0).open()
    yield move
    table.close()


def half_sent(move: Move, old: Plan) -> tuple[KafkaTransactions, list[Marked], BatchName]:
    """The leader of shard 2 of 4 has marked a batch, and is about to commit it."""
    move.outbox.write(move.topic, [(move.key, "1"), (move.key, "2")])
    with PostgresBatches(move.outbox.dsn, move.outbox.table) as store:
        move.lead(store, 2, old)
        target = move.transactions(2)
        assert target.fence() is None
        wait_for(lambda: target.read_back() == ReadBack(None), "the state topic is served")
        assert target.publish(BatchName(uuid4(), 0), ()) == Committed()
        name = new_batch_uuid()
        rows = list(store.purge_and_mark(None, (), name, 10))
    assert [row.value for row in rows] == [b"1", b"2"]
    return target, rows, BatchName(name, len(rows))


def relayed_by_shard_1_of_5(move: Move, new: Plan) -> None:
    with PostgresBatches(move.outbox.dsn, move.outbox.table) as store:
        move.lead(store, 1, new)
        target = move.transactions(1)
        assert target.fence() is None
        name = new_batch_uuid()
        rows = list(store.purge_and_mark(None, (), name, 10))
        if rows:
            assert target.publish(BatchName(name, len(rows)), rows) == Committed()
            store.purge_and_mark((name, len(rows)), (), None, 0)
        target.close()


def test_a_naive_change_of_shards_lets_the_old_leader_commit_what_the_new_one_sends(
    move: Move,
) -> None:
    """R7, the naive version: the new shard fences its own id, and knows of no other's batch."""
    old = move.divide(4)
    move.settle(old)
    stale, rows, name = half_sent(move, old)
    new = move.divide(5)
    move.settle(new)
    relayed_by_shard_1_of_5(move, new)
    assert stale.publish(name, rows) == Committed()
    assert move.values() == ["1", "2", "1", "2"]


@pytest.mark.parametrize("committed_first", [False, True])
def test_a_new_generation_shuts_out_every_old_leader_and_resolves_its_batch(
    committed_first: bool, move: Move
) -> None:
    old = move.divide(4)
    move.settle(old)
    stale, rows, name = half_sent(move, old)
    if committed_first:  # and died before it could purge them
        assert stale.publish(name, rows) == Committed()
    new = move.divide(5)
    with PostgresBatches(move.outbox.dsn, move.outbox.table) as store:
        leading = move.lead(store, 0, new)
        resolve = ResolveBatches(store, move.transactions, lambda event: None)
        wait_for(lambda: resolve(leading), "the old batches are resolved")
        assert resolve(leading), "it may be repeated"
        assert move.table.settle(new, leading.epoch)
    relayed_by_shard_1_of_5(move, new)
    if not committed_first:
        with pytest.raises(LeaderFencedByTarget):
            stale.publish(name, rows)
    assert move.values() == ["1", "2"]
    assert move.outbox.count() == 0


def test_in_barrier_mode_a_new_generation_waits_for_the_leases_of_the_old(
    outbox: OutboxDatabase,
) -> None:
    """R7. Whoever led an old shard may have something on its way until its right has run out."""
    table = PlanTable(lease_session(outbox.dsn), outbox.table, "relay")
    assert table.divide(table.look().plan, 3)
    plan = table.look().plan
    assert table.is_over()
    assert table.settle(plan, table.raise_epoch(0, plan))
    with outbox.connect() as connection:
        connection.execute(
            "UPDATE outbox_lease SET holder = 'old', expires_at = now() + interval '1 s'"
            " WHERE shard = 2"
        )
        assert table.divide(table.look().plan, 2)
        assert not table.is_over()
        wait_for(table.is_over, "the lease has run out", 10.0)
    table.close()


# -- members that die ------------------------------------------------------------------------------


def holders(bench: RelayBench) -> dict[int, str]:
    """Which relay leads which shard."""
    with bench.outbox.connect() as connection:
        rows = connection.execute(
            "SELECT shard, holder FROM outbox_lease WHERE expires_at > clock_timestamp()"
        ).fetchall()
    return {shard: holder.partition(" ")[0] for shard, holder in rows}


def wait_all_led(bench: RelayBench, shards: int, timeout: float = 60.0) -> None:
    def are_led() -> bool:
        led = holders(bench)
        return len(led) == shards and set(led.values()) <= set(bench.relays)

    wait_for(are_led, f"all {shards} shards are led", timeout)


@pytest.mark.parametrize("mode", MODES)
def test_killed_members_lose_nothing_and_misorder_no_key(
    mode: str,
    faults: FaultLog,
    outbox: OutboxDatabase,
    kafka: str,
    topic: str,
    tmp_path: Path,
    pytestconfig: pytest.Config,
) -> None:
    part = faults.part(f"relay {mode}, shards")
    settings = {"relay.mode": mode, "relay.shards": "4"}
    with relay_bench(outbox, kafka, topic, tmp_path, **settings) as bench:
        bench.start_writers()
        bench.start_relay()
        bench.start_relay()
        wait_all_led(bench, 4)
        for moment in part.kill_times(kills(pytestconfig, 6, 100), POINTS[mode]):
            bench.kill(part, bench.leader(), moment)
            if mode == "transactional":
                bench.may_repeat.clear()  # nothing may
            bench.start_relay()
            wait_all_led(bench, 4)
        bench.settle(part)


@pytest.mark.parametrize("mode", MODES)
def test_all_members_killed_and_another_number_of_shards_started_lose_nothing(
    mode: str, faults: FaultLog, outbox: OutboxDatabase, kafka: str, topic: str, tmp_path: Path
) -> None:
    """What the dead left in doubt belongs to other shards by now."""
    part = faults.part(f"relay {mode}, shards")
    with relay_bench(outbox, kafka, topic, tmp_path, **{"relay.mode": mode}) as bench:
        bench.start_writers()
        shards = [3, 5, 2, 4]
        for number, moment in zip(shards, part.kill_times(4, POINTS[mode]), strict=True):
            for _ in range(2):
                bench.start_relay(**{"relay.shards": str(number)})
            wait_all_led(bench, number)
            bench.wait_for_progress("they deliver")
            first, *others = bench.relays.values()
            bench.kill(part, first, moment)
            for other in others:
                bench.kill(part, other)
            if mode == "transactional":
                bench.may_repeat.clear()
        bench.start_relay()
        bench.settle(part)


@pytest.mark.proves("relay-transactional")
def test_a_zombie_of_an_old_generation_changes_nothing(
    faults: FaultLog, outbox: OutboxDatabase, kafka: str, topic: str, tmp_path: Path
) -> None:
    """Its shards are divided among others, under another number, while it sleeps."""
    part = faults.part("relay transactional, shards")
    with relay_bench(outbox, kafka, topic, tmp_path, **{"relay.mode": "transactional"}) as bench:
        bench.start_writers()
        zombie: Any = bench.start_relay(**{"relay.shards": "4"})
        wait_all_led(bench, 4)
        for shards, point in ((5, None), (4, "relay.batch-produced")):
            bench.wait_for_progress("it delivers")
            if point is not None:
                zombie.points.reach(point)
            part.inject("pause", zombie, zombie.pause, work=lambda: ledger_progress(bench))
            successor: RelayProcess = bench.start_relay(**{"relay.shards": str(shards)})
            wait_all_led(bench, shards)
            bench.wait_for_progress("the others deliver")
            if point is not None:
                zombie.points.release(point)
            zombie.resume()
            bench.wait_for_progress("they go on")
            zombie.stop()
            del bench.relays[zombie.name]
            zombie = successor
        bench.settle(part)
