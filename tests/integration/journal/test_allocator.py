"""Allocators against a real etcd: who leads, what a lost lease does, and how a broker leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.integration.coordination.running import run, until
from tests.integration.journal.allocating import Broker, OpenStore, a_broker, apply, delete
from tests.integration.journal.conftest import EtcdPrefix
from windrow.coordination.etcd import EtcdStore
from windrow.coordination.local import LocalStore
from windrow.coordination.store import Compare, Op, Put, TxnResult
from windrow.journal.allocation.converge import converge
from windrow.journal.keys import Keys
from windrow.journal.process import ProcessId

A, B, C = ProcessId("a", "broker"), ProcessId("b", "broker"), ProcessId("c", "broker")
JOURNALS = [f"acme/orders/{n:03}" for n in range(60)]


@pytest.fixture
def keys(cluster_etcd: EtcdPrefix) -> Keys:
    return Keys(cluster_etcd.prefix)


@pytest.fixture
def open_store(cluster_etcd: EtcdPrefix) -> OpenStore:
    return lambda: EtcdStore(cluster_etcd.url)


def test_the_first_broker_assigns_and_the_others_only_watch(
    open_store: OpenStore, keys: Keys
) -> None:
    async def scenario() -> None:
        async with a_broker(open_store, keys, B) as first, a_broker(open_store, keys, A) as second:
            await apply(first.store, keys, JOURNALS, 2)
            for broker in (first, second):
                await until(lambda broker=broker: broker.is_settled(JOURNALS, 2, A, B))  # type: ignore[misc]
            assert (first.allocator.is_leader, second.allocator.is_leader) == (True, False)
            assert sum(done.added for done in first.rounds) == 120
            assert second.rounds == []
            assert sorted(first.allocator.local_items()) == JOURNALS

    run(scenario())


def test_a_settled_cluster_is_written_to_no_more(open_store: OpenStore, keys: Keys) -> None:
    async def scenario() -> None:
        async with a_broker(open_store, keys, A) as leader, a_broker(open_store, keys, B):
            await apply(leader.store, keys, JOURNALS, 2)
            await until(lambda: leader.is_settled(JOURNALS, 2, A, B))
            revision = leader.mirror.revision
            unrelated = keys.head(JOURNALS[0])
            result = await leader.store.txn([], [Put(unrelated, b"{}")])
            await until(lambda: leader.mirror.revision >= result.revision)
            rounds = len(leader.rounds)
            result = await leader.store.txn([], [Put(unrelated, b"{ }")])
            await until(lambda: leader.mirror.revision >= result.revision)
            await until(lambda: len(leader.rounds) > rounds)
            assert leader.mirror.revision == result.revision == revision + 2
            assert leader.rounds[-1].solve_time is None

    run(scenario())


def test_another_broker_takes_over_when_the_leaders_lease_ends(
    open_store: OpenStore, keys: Keys
) -> None:
    """The old leader goes on trying, as one that was suspended: nothing of it comes through."""

    async def scenario() -> None:
        async with (
            a_broker(open_store, keys, A, ttl=3, keep_alive=False) as old,
            a_broker(open_store, keys, B) as new,
            a_broker(open_store, keys, C),
        ):
            await apply(new.store, keys, JOURNALS, 2)
            await until(lambda: new.is_settled(JOURNALS, 2, A, B, C))
            assert old.allocator.is_leader
            before = {a.member for journal in JOURNALS for a in new.state().current(journal)}
            assert before == {A, B, C}
            await until(lambda: new.is_settled(JOURNALS, 2, B, C))
            assert new.allocator.is_leader
            assert not old.allocator.is_leader

    run(scenario())


def test_a_stale_leaders_transaction_changes_nothing(open_store: OpenStore, keys: Keys) -> None:
    """Everything else it compares still holds: only that its sender leads no more stops it."""

    async def scenario() -> None:
        async with a_broker(open_store, keys, A) as stale, a_broker(open_store, keys, B) as other:
            await until(lambda: len(stale.state().members) == 2)
            await stop_allocating(stale, other)
            await apply(other.store, keys, JOURNALS[:1], 1)
            await until(lambda: len(stale.state().items) == 1)
            (late,) = converge(stale.state(), {JOURNALS[0]: (B,)})
            await stale.announcement.withdraw()
            assert not (await stale.store.txn(late.compares, late.ops)).succeeded
            assert (await other.store.load(keys.assignments)).kvs == ()
            assert (await other.store.txn(late.compares[1:], late.ops)).succeeded

    run(scenario())


async def stop_allocating(*brokers: Broker) -> None:
    for broker in brokers:
        for task in broker.tasks:
            task.cancel()
        await asyncio.gather(*broker.tasks, return_exceptions=True)


@pytest.mark.parametrize("leaving", [A, C], ids=["the leader", "another"])
def test_an_exiting_broker_is_drained_and_its_journals_stay_replicated(
    open_store: OpenStore, keys: Keys, leaving: ProcessId
) -> None:
    async def scenario() -> None:
        async with (
            a_broker(open_store, keys, A) as a,
            a_broker(open_store, keys, B) as b,
            a_broker(open_store, keys, C) as c,
        ):
            goer = {A: a, C: c}[leaving]
            stayers = {A, B, C} - {leaving}
            await apply(b.store, keys, JOURNALS, 2)
            await until(lambda: goer.is_settled(JOURNALS, 2, A, B, C))
            assert goer.allocator.local_items()
            fewest = 99

            def watch(_: object) -> None:
                nonlocal fewest
                state = b.state()
                fewest = min(fewest, *(len(state.current(journal)) for journal in JOURNALS))

            b.mirror.observers.append(watch)
            drained = asyncio.create_task(goer.allocator.local_items_drained())
            await asyncio.sleep(0)
            assert not drained.done()
            await goer.exit()
            await drained
            assert goer.allocator.local_items() == []
            await goer.announcement.withdraw()
            await until(lambda: len(b.state().members) == 2)
            await until(lambda: b.is_settled(JOURNALS, 2, *stayers))
            assert fewest == 2
            assert b.allocator.is_leader == (leaving == A)

    run(scenario())


def test_assignments_of_deleted_journals_are_removed(open_store: OpenStore, keys: Keys) -> None:
    async def scenario() -> None:
        async with a_broker(open_store, keys, A) as broker:
            await apply(broker.store, keys, JOURNALS, 1)
            await until(lambda: broker.is_settled(JOURNALS, 1, A))
            for journal in JOURNALS[1:]:
                await delete(broker.store, keys, journal)
            await until(lambda: list(broker.state().assignments) == JOURNALS[:1])
            assert broker.allocator.local_items() == JOURNALS[:1]

    run(scenario())


class Racing(LocalStore):
    """A store in which one journal changes just before each large transaction comes."""

    def __init__(self, directory: Path, key: str) -> None:
        super().__init__(directory)
        self.key = key
        self.races = 0

    async def txn(self, compares: Sequence[Compare], ops: Sequence[Op]) -> TxnResult:
        if len(ops) > 5:
            self.races += 1
            (kv,) = [kv for kv in (await self.load(self.key)).kvs if kv.key == self.key]
            await super().txn([], [Put(self.key, kv.value)])
        return await super().txn(compares, ops)


def test_a_journal_that_changes_all_the_time_holds_up_no_other(tmp_path: Path) -> None:
    async def scenario() -> None:
        keys = Keys("/cluster")
        store = Racing(tmp_path, keys.item(JOURNALS[0]))
        await apply(store, keys, JOURNALS, 1)
        async with a_broker(lambda: store, keys, A) as broker:
            await until(lambda: broker.is_settled(JOURNALS, 1, A))
            assert store.races
            assert any(done.refused for done in broker.rounds)

    run(scenario())
