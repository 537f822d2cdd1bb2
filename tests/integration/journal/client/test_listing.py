from __future__ import annotations

import asyncio

import grpc
import pytest

from tests.fixtures.journal_server import Fault, JournalServer
from tests.integration.journal.client.serving import JOURNAL, until, with_server
from windrow.errors import Unreachable
from windrow.journal.client.client import JournalClient
from windrow.journal.client.errors import CallFailed
from windrow.journal.client.requests import Delete, Listing, Upsert
from windrow.journal.codec import Codec
from windrow.journal.errors import EtcdTransactionFailed, InvalidField
from windrow.journal.labels import LabelSet
from windrow.journal.spec import FragmentSpec, JournalSpec
from windrow.journal.wire import protocol_pb2 as pb


def spec(name: str, **labels: str) -> JournalSpec:
    return JournalSpec(
        name,
        replication=1,
        labels=LabelSet.of(labels),
        fragment=FragmentSpec(length=1 << 20, codec=Codec.NONE, refresh_interval=60),
    )


def test_a_listing_of_many_messages_is_one_listing() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        for n in range(60):
            server.create(f"many/part-{n:02d}", part=str(n % 2))
        listing = await client.list()
        assert len(listing.journals) == 61
        assert listing.names == tuple(sorted(listing.names))
        assert len((await client.list("part=1")).journals) == 30
        assert (await client.list("name=many/part-07")).names == ("many/part-07",)
        assert (await client.list("part=9")).journals == ()

    with_server(test)


def test_a_listing_tells_revisions_and_routes() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        (journal,) = (await client.list()).journals
        assert journal.mod_revision == journal.create_revision == 2
        assert journal.route.endpoints == (f"http://{server.address}",)

    with_server(test)


def test_a_listing_is_tried_again_until_a_broker_answers() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        server.faults["List"].append(Fault(code=grpc.StatusCode.UNAVAILABLE))
        assert (await client.list()).names == (JOURNAL,)

    with_server(test)


def test_a_listing_that_was_refused_is_not() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        server.faults["List"].append(Fault(code=grpc.StatusCode.UNAUTHENTICATED))
        with pytest.raises(CallFailed):
            await client.list()

    with_server(test)


def test_a_watch_tells_of_every_change() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        watch = client.watch("kind=wanted")
        assert (await anext(watch)).names == ()
        server.create("one/journal", kind="wanted")
        assert (await anext(watch)).names == ("one/journal",)
        await client.apply([Delete("one/journal")])
        assert (await anext(watch)).names == ()

    with_server(test)


def test_a_watch_that_breaks_resumes_behind_what_it_has_told() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        watch = client.watch()
        first = await anext(watch)
        await server.stop()
        await server.start()

        async def next_listing() -> Listing:
            return await anext(watch)

        following = asyncio.create_task(next_listing())
        await until(lambda: [rpc for rpc, _ in server.calls].count("List") >= 2)
        resumed = server.calls[-1][1]
        assert resumed.watch_resume.etcd.revision == first.header.etcd.revision
        server.create("one/journal")
        assert (await following).names == (JOURNAL, "one/journal")

    with_server(test)


def test_changes_are_made_all_or_none() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        revision = await client.apply([Upsert(spec("one/journal", kind="new"))])
        assert revision == server.revision
        stale = [Upsert(spec("two/journal")), Upsert(spec("one/journal"), expect_mod_revision=1)]
        with pytest.raises(EtcdTransactionFailed, match="two/journal, one/journal"):
            await client.apply(stale)
        assert "two/journal" not in server.journals
        await client.apply([Upsert(spec("one/journal"), revision), Delete(JOURNAL)])
        assert set(server.journals) == {"one/journal"}

    with_server(test)


def test_many_changes_can_be_made_in_batches() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        changes = [Upsert(spec(f"many/part-{n:03d}")) for n in range(25)]
        await client.apply(changes, batch=10)
        sizes = [len(request.changes) for rpc, request in server.calls if rpc == "Apply"]
        assert sizes == [10, 10, 5]
        assert len(server.journals) == 26

    with_server(test)


def test_an_append_after_a_change_waits_for_the_broker_to_have_seen_it() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        revision = await client.apply([Upsert(spec("one/journal"))])
        await client.append("one/journal", b"x")
        await client.read("one/journal")
        asked = [request.min_etcd_revision for rpc, request in server.calls[1:]]
        assert set(asked) == {revision}

    with_server(test)


def test_a_change_that_makes_no_sense_is_not_sent() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        with pytest.raises(InvalidField, match="Replication"):
            await client.apply([Upsert(JournalSpec("one/journal"))])
        assert server.calls == []

    with_server(test)


def test_a_change_that_no_broker_answered_is_not_repeated_blindly() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        server.faults["Apply"].append(Fault(code=grpc.StatusCode.UNAVAILABLE))
        with pytest.raises(Unreachable):
            await client.apply([Upsert(spec("one/journal"))])

    with_server(test)


def test_pages_of_fragments_are_joined() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        for n in range(7):
            fragment = pb.Fragment(
                journal=JOURNAL, begin=n * 10, end=n * 10 + 10, compression_codec=pb.GZIP
            )
            server.journals[JOURNAL].fragments.append((fragment, f"file:///{n}"))
        listed = await client.fragments(JOURNAL, page_limit=3)
        assert [each.fragment.begin for each in listed] == [0, 10, 20, 30, 40, 50, 60]
        assert {each.signed_url for each in listed} == {""}
        assert len(server.calls) == 3
        signed = await client.fragments(JOURNAL, signature_ttl=60)
        assert signed[1].signed_url == "file:///1"

    with_server(test)


def test_an_append_goes_to_the_primary_that_an_answer_named() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        async with JournalServer() as primary:
            primary.journals = server.journals
            primary.route = server.route = primary.own_route()
            await client.append(JOURNAL, b"through another,")
            await client.append(JOURNAL, b"direct,")
            assert [len(s.calls) for s in (server, primary)] == [1, 1]
            await primary.stop()
            server.route = server.own_route()
            await client.append(JOURNAL, b"without it")
            assert len(server.calls) == 2
            await primary.start()
        content = server.journals[JOURNAL].content
        assert content == b"through another,direct,without it"

    with_server(test)
