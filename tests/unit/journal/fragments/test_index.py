"""The index: which fragment serves a read, and when a read waits, jumps or skips."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from tests.unit.journal.fragments.spooling import commit, memory_spool
from windrow.journal.fragment import Fragment
from windrow.journal.fragments.content import SpoolContent
from windrow.journal.fragments.index import WRITE_HEAD, Answer, Index, page_of
from windrow.journal.status import Status

NOW = 1_000_000
HOUR = 3_600


@dataclass
class Asked:
    offset: int = 0
    begin_mod_time: int = 0


def remote(begin: int, end: int, mod_time: int = NOW) -> Fragment:
    store = "file:///store/"
    return Fragment("a/journal", begin, end, backing_store=store, mod_time=mod_time)


def local(begin: int, end: int) -> Fragment:
    return Fragment("a/journal", begin, end)


def some_content() -> SpoolContent:
    spool, _ = memory_spool()
    commit(spool, b"content")
    return spool.content


def index_of(*fragments: Fragment) -> Index:
    index = Index(unix_time=lambda: NOW)
    index.replace_remote([f for f in fragments if f.is_persisted])
    for fragment in fragments:
        if not fragment.is_persisted:
            index.add_local(fragment, some_content())
    return index


def ask(index: Index, offset: int, begin_mod_time: int = 0) -> Answer:
    return index.query(Asked(offset, begin_mod_time))


async def wait_for(index: Index, offset: int) -> Answer:
    """What a blocking read does."""
    while True:
        changed, answer = index.changed, ask(index, offset)
        if answer.entry is not None:
            return answer
        offset = answer.offset
        await changed.wait()


def test_read_is_answered_by_the_fragment_with_the_largest_end() -> None:
    index = index_of(remote(0, 100), remote(50, 200), local(150, 250))
    answer = ask(index, 60)
    assert answer.entry is not None
    assert (answer.status, answer.offset, answer.write_head) == (Status.OK, 60, 250)
    assert answer.entry.fragment == remote(50, 200)
    assert answer.entry.content is None
    tail = ask(index, 200)
    assert tail.entry is not None
    assert tail.entry.content is not None


def test_offset_beyond_the_end_is_not_yet_available() -> None:
    answer = ask(index_of(remote(0, 100)), 100)
    assert (answer.status, answer.offset) == (Status.OFFSET_NOT_YET_AVAILABLE, 100)
    assert (answer.write_head, answer.entry) == (100, None)


def test_write_head_is_the_present_end() -> None:
    assert ask(index_of(remote(0, 100)), WRITE_HEAD).offset == 100
    assert ask(Index(), WRITE_HEAD).offset == 0


@pytest.mark.parametrize("age", [0, 100 * HOUR])
def test_gap_at_the_beginning_is_jumped_whatever_its_age(age: int) -> None:
    answer = ask(index_of(remote(100, 200, NOW - age)), 10)
    assert (answer.status, answer.offset) == (Status.OK, 100)


def test_gap_at_the_beginning_is_not_jumped_to_a_local_fragment() -> None:
    assert ask(index_of(local(100, 200)), 10).status is Status.OFFSET_NOT_YET_AVAILABLE


def test_gap_in_the_middle_is_jumped_only_once_it_is_old() -> None:
    fresh = index_of(remote(0, 100), remote(150, 200, NOW - 6 * HOUR))
    assert ask(fresh, 100).status is Status.OFFSET_NOT_YET_AVAILABLE
    old = index_of(remote(0, 100), remote(150, 200, NOW - 6 * HOUR - 1))
    assert ask(old, 100).offset == 150


def test_jump_age_can_be_set() -> None:
    index = Index(jump_age=1, unix_time=lambda: NOW)
    index.replace_remote([remote(0, 100), remote(150, 200, NOW - 2)])
    assert ask(index, 100).offset == 150


def test_fragments_persisted_before_the_wanted_time_are_skipped() -> None:
    index = index_of(
        remote(0, 100, 10), remote(100, 200, 20), remote(200, 300, 30), local(300, 400)
    )
    assert ask(index, 0, begin_mod_time=20).offset == 100
    assert ask(index, 0, begin_mod_time=21).offset == 200
    assert ask(index, 50, begin_mod_time=10).offset == 50
    # Local fragments have no time yet: they are newer than any.
    assert ask(index, 0, begin_mod_time=NOW).offset == 300


def test_waiting_read_is_woken_by_a_local_and_by_a_remote_fragment() -> None:
    async def scenario() -> None:
        index = index_of(remote(0, 100))
        reads = [asyncio.create_task(wait_for(index, at)) for at in (100, 100, 250)]
        await asyncio.sleep(0)
        index.add_local(local(100, 200), some_content())
        first, second = await asyncio.wait_for(asyncio.gather(*reads[:2]), 10)
        assert first.entry == second.entry
        assert first.write_head == 200
        assert not reads[2].done()
        index.replace_remote([remote(0, 300)])
        assert (await asyncio.wait_for(reads[2], 10)).offset == 250

    asyncio.run(scenario())


def test_waiting_read_at_the_write_head_stays_where_it_began() -> None:
    async def scenario() -> None:
        index = index_of(remote(0, 100))
        read = asyncio.create_task(wait_for(index, WRITE_HEAD))
        await asyncio.sleep(0)
        index.add_local(local(50, 150), some_content())
        index.add_local(local(50, 160), some_content())
        assert (await asyncio.wait_for(read, 10)).offset == 100

    asyncio.run(scenario())


def test_cancelled_read_leaves_the_others_waiting() -> None:
    async def scenario() -> None:
        index = Index()
        gone, stays = (asyncio.create_task(wait_for(index, 0)) for _ in range(2))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
        index.add_local(local(0, 5), some_content())
        assert (await asyncio.wait_for(stays, 10)).status is Status.OK

    asyncio.run(scenario())


def test_an_end_that_is_known_is_the_write_head_though_its_content_is_elsewhere() -> None:
    """Of a replica that came late: what was before it is a gap, not what is still to come."""
    index = index_of()
    assert not ask(index, 0).is_gap
    woken = index.changed
    index.know_end(100)
    assert woken.is_set()
    answer = ask(index, 0)
    assert (answer.status, answer.write_head) == (Status.OFFSET_NOT_YET_AVAILABLE, 100)
    assert answer.is_gap
    assert ask(index, WRITE_HEAD).offset == 100
    assert not ask(index, 100).is_gap
    index.add_local(local(100, 120), some_content())
    assert index.end_offset == 120
    assert not ask(index, 110).is_gap


def test_local_fragment_is_dropped_once_remote_ones_cover_it() -> None:
    index = index_of(remote(0, 100), local(100, 200), local(200, 300))
    index.replace_remote([remote(0, 100), remote(100, 150)])
    assert [e.fragment.begin for e in index.local_entries] == [100, 200]
    index.replace_remote([remote(0, 100), remote(100, 150), remote(150, 250)])
    assert [e.fragment.begin for e in index.local_entries] == [200]
    index.replace_remote([remote(0, 300)])
    assert index.local_entries == []
    assert (index.begin_offset, index.end_offset) == (0, 300)


def test_remote_fragment_that_vanished_from_the_stores_vanishes_here() -> None:
    index = index_of(remote(0, 100), remote(100, 200))
    index.replace_remote([remote(100, 200)])
    assert index.begin_offset == 100


def test_growing_local_fragment_takes_the_place_of_its_shorter_self() -> None:
    index = index_of(local(0, 10))
    index.add_local(local(0, 20), some_content())
    assert [e.fragment.end for e in index.entries] == [20]


def test_first_listing_can_be_waited_for() -> None:
    async def scenario() -> None:
        index = Index()
        waiting = asyncio.create_task(index.wait_listed())
        await asyncio.sleep(0)
        index.add_local(local(0, 5), some_content())
        await asyncio.sleep(0)
        assert not waiting.done()
        index.replace_remote([])
        await asyncio.wait_for(waiting, 10)
        assert index.is_listed

    asyncio.run(scenario())


def test_listing_is_paged_and_bounded_by_time() -> None:
    entries = index_of(
        remote(0, 10, 100), remote(10, 20, 200), remote(20, 30, 300), local(30, 40)
    ).entries

    def begins(**bounds: int) -> tuple[list[int], int]:
        page, token = page_of(entries, **bounds)
        return [entry.fragment.begin for entry in page], token

    assert begins() == ([0, 10, 20, 30], 0)
    assert begins(begin_mod_time=200) == ([10, 20, 30], 0)
    assert begins(end_mod_time=200) == ([0, 10], 0)
    assert begins(begin_mod_time=150, end_mod_time=300) == ([10, 20], 0)
    assert begins(limit=2) == ([0, 10], 20)
    assert begins(limit=2, token=20) == ([20, 30], 0)
    assert begins(token=31) == ([], 0)
