"""What a primary does without being asked, and what it writes to the keyspace meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.integration.journal.broker.cluster import JOURNAL, KEYS, Broker, Cluster, spec, tell
from windrow.coordination.store import KeyValue, Put
from windrow.journal.broker.head import Head
from windrow.journal.broker.keyspace_changes import KeyspaceChanges
from windrow.journal.broker.ports import Resolution
from windrow.journal.broker.pulse import Pulse
from windrow.journal.messages import decode_route


@asynccontextmanager
async def pulse_of(broker: Broker) -> AsyncIterator[None]:
    assert broker.api is not None
    assert broker.resolver is not None
    beating = asyncio.create_task(Pulse(broker.api, broker.resolver, broker.replica).run())
    try:
        yield
    finally:
        beating.cancel()
        await asyncio.wait([beating])


async def advertised(there: Cluster) -> list[tuple[str, ...]]:
    """The members that each assignment tells of, none if it tells nothing."""
    kvs = (await there.store.load(KEYS.assignments_of(JOURNAL))).kvs
    return [
        tuple(m.suffix for m in decode_route(kv.value).members) if kv.value else () for kv in kvs
    ]


async def until_advertised(there: Cluster, *members: str) -> None:
    async with asyncio.timeout(10):
        while await advertised(there) != [members] * len(members):  # noqa: ASYNC110
            await asyncio.sleep(0.005)


def test_the_pulse_synchronises_each_new_route_without_any_append(tmp_path: Path) -> None:
    """Brokers cannot enter or leave a route before it was synchronised."""

    async def story(there: Cluster) -> None:
        a, b, c = [await there.broker(name) for name in "abc"]
        await there.create(spec(1))
        await there.assign(a)
        async with pulse_of(a):
            await until_advertised(there, "broker-a")
            await there.create(spec(2))
            await there.assign(a, b)
            await until_advertised(there, "broker-a", "broker-b")
            await there.assign(a, c)
            await until_advertised(there, "broker-a", "broker-c")
        assert (await a.append(b"first")).commit.begin == 0

    tell(story, tmp_path)


def test_a_route_is_advertised_only_while_the_assignments_are_those_resolved(
    tmp_path: Path,
) -> None:
    """Won, then nothing left to do, then lost to a change that was made meanwhile."""

    async def story(there: Cluster) -> None:
        a, b = await there.broker("a"), await there.broker("b")
        await there.create(spec(1))
        await there.assign(a)
        assert a.resolver is not None
        changes = KeyspaceChanges(there.store, KEYS)
        before = await a.resolver.resolve(JOURNAL, require_primary=True, may_proxy=False)
        won = await changes.put_assignments(before, JOURNAL, None)
        assert won.succeeded
        assert await advertised(there) == [("broker-a",)]
        # The same again: what it was resolved from is no more.
        assert not (await changes.put_assignments(before, JOURNAL, None)).succeeded
        await a.resolver.wait_revision(won.revision)
        now = await a.resolver.resolve(JOURNAL, require_primary=True, may_proxy=False)
        await there.assign(b, a)
        assert not (await changes.put_assignments(now, JOURNAL, None)).succeeded
        assert ("broker-b",) not in await advertised(there)

    tell(story, tmp_path)


def test_assignments_that_tell_the_route_already_are_left_alone(tmp_path: Path) -> None:
    async def story(there: Cluster) -> None:
        a, b = await there.broker("a"), await there.broker("b")
        await there.create(spec(2))
        await there.assign(a, b)

        async def revisions() -> list[int]:
            kvs = (await there.store.load(KEYS.assignments_of(JOURNAL))).kvs
            return [kv.mod_revision for kv in kvs]

        empty = await revisions()
        await a.append(b"x")
        told = await revisions()
        assert all(after > before for before, after in zip(empty, told, strict=True))
        assert await advertised(there) == [("broker-a", "broker-b")] * 2
        await a.append(b"y")
        assert await revisions() == told

    tell(story, tmp_path)


def next_head(term: int, resolution: Resolution) -> Head:
    assert resolution.item is not None
    return Head(resolution.item.create_revision, term, ("zone#broker-a",))


async def head_of(there: Cluster) -> list[KeyValue]:
    return list((await there.store.load(KEYS.head(JOURNAL))).kvs)


def test_a_head_takes_the_place_of_the_one_that_was_resolved_and_of_no_other(
    tmp_path: Path,
) -> None:
    """J1: a transaction that was given up may arrive behind the one that was tried after it."""

    async def story(there: Cluster) -> None:
        a = await there.broker("a")
        await there.create(spec(1))
        await there.assign(a)
        assert a.resolver is not None
        changes = KeyspaceChanges(there.store, KEYS)
        before = await a.resolver.resolve(JOURNAL, require_primary=True, may_proxy=False)
        first = await changes.put_head(before, JOURNAL, next_head(70, before))
        assert first.succeeded
        assert not (await changes.put_head(before, JOURNAL, next_head(80, before))).succeeded
        (kv,) = await head_of(there)
        assert Head.decode(JOURNAL, kv.value, kv.mod_revision).term == 70
        await a.resolver.wait_revision(first.revision)
        now = await a.resolver.resolve(JOURNAL, require_primary=True, may_proxy=False)
        assert (await changes.put_head(now, JOURNAL, next_head(90, now))).succeeded

    tell(story, tmp_path)


def test_a_head_outlives_the_leases_of_all_brokers(tmp_path: Path) -> None:
    """J1: when all of them are gone it alone tells which spools are of the true branch."""

    async def story(there: Cluster) -> None:
        a = await there.broker("a")
        await there.create(spec(1))
        lease = await there.store.grant_lease(60.0)
        await there.change(Put(KEYS.assignment(JOURNAL, a.id, 0), b"", lease=lease.id))
        assert (await a.append(b"x")).commit.begin == 0
        await there.store.revoke_lease(lease.id)
        assert (await there.store.load(KEYS.assignments_of(JOURNAL))).kvs == ()
        assert [kv.lease for kv in await head_of(there)] == [0]

    tell(story, tmp_path)
