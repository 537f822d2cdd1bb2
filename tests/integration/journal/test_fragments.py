"""ListFragments: what a journal consists of."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.integration.journal.conftest import EtcdPrefix
from tests.integration.journal.stage import Caller, Stage, play, spec, until
from windrow.journal.broker.stored import BrokerStores
from windrow.journal.fragments.stores import FileStore
from windrow.journal.messages import check_fragments_response
from windrow.journal.wire import protocol_pb2 as pb

SIZE = 3000


async def fragments(
    caller: Caller, journal: str = "a/journal", **more: Any
) -> pb.FragmentsResponse:
    request = pb.FragmentsRequest(journal=journal, **more)
    answer: pb.FragmentsResponse = await caller.stub.ListFragments(request, timeout=20)
    check_fragments_response(answer)
    return answer


def spans(answer: pb.FragmentsResponse) -> list[tuple[int, int]]:
    return [(one.spec.begin, one.spec.end) for one in answer.fragments]


async def stored_journal(there: Stage, caller: Caller, count: int = 3) -> None:
    """``count`` fragments in a store, and one that is not there yet."""
    (there.files / "store").mkdir()
    stores = ["file:///store/"]
    await caller.apply(spec(stores=stores, length=1024, refresh_interval={"seconds": 1}))
    await caller.appended(b"0" * SIZE)
    for number in range(1, count):
        await caller.append(bytes([number]) * SIZE)
    await caller.append(b"0123456789")  # too short to be rolled

    async def is_listed() -> bool:
        answer = await fragments(caller)
        persisted = [one for one in answer.fragments if one.spec.backing_store]
        return len(persisted) == count

    await until(is_listed)


ALL = [(0, SIZE), (SIZE, 2 * SIZE), (2 * SIZE, 3 * SIZE), (3 * SIZE, 3 * SIZE + 10)]


def test_stored_and_local_fragments_are_listed_by_their_begin(tmp_path: Path) -> None:
    async def story(there: Stage) -> None:
        _, caller = await there.broker()
        await stored_journal(there, caller)
        answer = await fragments(caller)
        assert spans(answer) == ALL
        stores = [one.spec.backing_store for one in answer.fragments]
        assert stores == ["file:///store/"] * 3 + [""]
        assert answer.next_page_token == 0
        assert {one.signed_url for one in answer.fragments} == {""}

    play(tmp_path, story)


def test_pages_continue_where_the_last_one_ended(tmp_path: Path) -> None:
    async def story(there: Stage) -> None:
        _, caller = await there.broker()
        await stored_journal(there, caller)
        first = await fragments(caller, page_limit=3)
        assert spans(first) == ALL[:3]
        assert first.next_page_token == 3 * SIZE
        last = await fragments(caller, page_limit=3, next_page_token=first.next_page_token)
        assert (spans(last), last.next_page_token) == (ALL[3:], 0)
        assert spans(await fragments(caller, next_page_token=10**9)) == []

    play(tmp_path, story)


def test_times_bound_what_is_listed_and_local_fragments_are_new(tmp_path: Path) -> None:
    async def story(there: Stage) -> None:
        _, caller = await there.broker()
        await stored_journal(there, caller)
        assert spans(await fragments(caller, begin_mod_time=2**40)) == ALL[3:]
        assert spans(await fragments(caller, end_mod_time=2**40)) == ALL[:3]
        assert spans(await fragments(caller, end_mod_time=1)) == []

    play(tmp_path, story)


def test_stored_fragments_are_signed_for_if_asked(tmp_path: Path) -> None:
    async def story(there: Stage) -> None:
        _, caller = await there.broker()
        await stored_journal(there, caller)
        answer = await fragments(caller, signatureTTL={"seconds": 60})
        urls = [one.signed_url for one in answer.fragments]
        assert all(url.startswith("file:///store/a/journal/") for url in urls[:3])
        assert urls[3] == ""
        assert (there.files / urls[0].removeprefix("file:///")).read_bytes() == b"0" * SIZE

    play(tmp_path, story)


def test_malformed_requests_and_unknown_journals_are_refused(tmp_path: Path) -> None:
    async def story(there: Stage) -> None:
        _, caller = await there.broker()
        answer = await fragments(caller, "no/such")
        assert answer.status == pb.Status.JOURNAL_NOT_FOUND
        for bad in ({"page_limit": 10_001}, {"signatureTTL": {"seconds": 0}}):
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await fragments(caller, **bad)
            assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT

    play(tmp_path, story)


def test_a_broker_without_a_replica_asks_one_that_has_it(
    tmp_path: Path, cluster_etcd: EtcdPrefix
) -> None:
    async def story(there: Stage) -> None:
        _, of_holder = await there.broker("holder")
        await of_holder.apply(spec())
        await of_holder.appended(b"0123456789")
        _, of_other = await there.broker("other")
        answer = await fragments(of_other)
        assert spans(answer) == [(0, 10)]
        assert answer.header.process_id.suffix == "holder"
        refused = await fragments(of_other, do_not_proxy=True)
        assert refused.status == pb.Status.NOT_JOURNAL_BROKER

    play(tmp_path, story, cluster_etcd)


def test_a_healthy_store_a_missing_one_and_a_delete_are_told_apart(tmp_path: Path) -> None:
    async def story(there: Stage) -> None:
        (there.files / "store").mkdir()
        _, caller = await there.broker()
        ask = caller.stub.FragmentStoreHealth
        good = pb.FragmentStoreHealthRequest(fragment_store="file:///store/", check_delete=True)
        answer = await ask(good)
        assert (answer.status, answer.store_health_error) == (pb.Status.OK, "")
        answer = await ask(pb.FragmentStoreHealthRequest(fragment_store="file:///missing/"))
        assert answer.status == pb.Status.FRAGMENT_STORE_UNHEALTHY
        assert "does not exist" in answer.store_health_error
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await ask(pb.FragmentStoreHealthRequest(fragment_store="rubbish"))
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT

    play(tmp_path, story)


def test_a_store_that_deletes_nothing_is_found_out_if_that_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FileStore, "remove", lambda *_: None)

    async def story(there: Stage) -> None:
        (there.files / "store").mkdir()
        _, caller = await there.broker()
        ask = caller.stub.FragmentStoreHealth
        request = pb.FragmentStoreHealthRequest(fragment_store="file:///store/")
        assert (await ask(request)).status == pb.Status.OK
        request.check_delete, request.check_delete_prefix = True, "below/here"
        answer = await ask(request)
        assert answer.status == pb.Status.FRAGMENT_STORE_UNHEALTHY
        assert "below/here" in answer.store_health_error
        assert "still there" in answer.store_health_error

    play(tmp_path, story)


def test_fragments_and_reads_wait_for_the_first_listing_of_the_stores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it, nobody knows where the journal begins."""
    may_list, list_stores = asyncio.Event(), BrokerStores.list

    async def late(self: BrokerStores, *arguments: Any) -> Any:
        await may_list.wait()
        return await list_stores(self, *arguments)

    monkeypatch.setattr(BrokerStores, "list", late)

    async def story(there: Stage) -> None:
        (there.files / "store").mkdir()
        server, caller = await there.broker()
        await caller.apply(spec(stores=["file:///store/"]))

        async def is_assigned() -> bool:
            return "a/journal" in server.assembly.resolver.replicas

        await until(is_assigned)
        waiting = {asyncio.create_task(fragments(caller)), asyncio.create_task(caller.read())}
        done, _ = await asyncio.wait(waiting, timeout=0.3)
        assert not done
        may_list.set()
        async with asyncio.timeout(10):
            await asyncio.gather(*waiting)

    play(tmp_path, story)
