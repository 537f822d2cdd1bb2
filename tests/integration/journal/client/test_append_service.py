from __future__ import annotations

import asyncio
import os
from contextlib import suppress

import grpc
import pytest

from tests.fixtures.journal_server import Fault, JournalServer
from tests.integration.journal.client.serving import JOURNAL, until, with_server
from tests.unit.journal.client.test_buffer import files_of_at_most
from windrow.errors import Failed
from windrow.journal.client import append_service
from windrow.journal.client.append_service import AppendService
from windrow.journal.client.client import JournalClient
from windrow.journal.client.errors import DependencyFailed, RegistersNeedContent, ServiceClosed
from windrow.journal.client.requests import AppendRequest
from windrow.journal.errors import JournalNotFound, NotAllowed, RegisterMismatch
from windrow.journal.labels import LabelSelector, LabelSet
from windrow.journal.wire import protocol_pb2 as pb

OTHER = "another/journal"


def appended(server: JournalServer, journal: str = JOURNAL) -> bytes:
    return bytes(server.journals[journal].content)


def append_calls(server: JournalServer) -> list[str]:
    return [request.journal for rpc, request in server.calls if rpc == "Append"]


def stalled(server: JournalServer) -> asyncio.Event:
    """Have the next append wait for the event that is returned."""
    event = asyncio.Event()
    server.faults["Append"].append(Fault(stall=event))
    return event


def test_appends_made_at_once_travel_in_one_call() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        async with AppendService(client) as service:
            pending = [await service.enqueue(JOURNAL, b"%d," % n) for n in range(100)]
            assert {(await each).end for each in pending} == {290}
        assert append_calls(server) == [JOURNAL]
        assert appended(server) == b"".join(b"%d," % n for n in range(100))

    with_server(test)


def test_what_comes_while_a_call_is_under_way_gathers_in_the_next() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        event = stalled(server)
        async with AppendService(client) as service:
            first = await service.enqueue(JOURNAL, b"first,")
            await until(lambda: len(server.calls) == 1)
            later = [await service.enqueue(JOURNAL, b"later,") for _ in range(10)]
            assert not first.is_done
            event.set()
            assert (await later[-1]).begin == (await first).end
        assert append_calls(server) == [JOURNAL, JOURNAL]

    with_server(test)


def test_a_link_that_is_full_takes_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(append_service, "MAX_LENGTH", 100)

    async def test(server: JournalServer, client: JournalClient) -> None:
        async with AppendService(client) as service:
            for n in range(12):
                await service.enqueue(JOURNAL, bytes([65 + n]) * 30)
        # The one that passes the limit still goes along.
        assert server.journals[JOURNAL].commits == [(0, 120), (120, 240), (240, 360)]
        assert appended(server) == b"".join(bytes([65 + n]) * 30 for n in range(12))

    with_server(test)


def test_a_request_that_differs_goes_in_a_call_of_its_own() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        fenced = AppendRequest(
            JOURNAL,
            check=LabelSelector.parse("owner=us"),
            union=LabelSet.of({"owner": "us"}),
        )
        async with AppendService(client) as service:
            await service.enqueue(JOURNAL, b"a")
            await service.enqueue(JOURNAL, b"b")
            await service.enqueue(fenced, b"c")
            await service.enqueue(fenced, b"d")
            await service.enqueue(JOURNAL, b"e")
        assert server.journals[JOURNAL].commits == [(0, 2), (2, 4), (4, 5)]
        assert appended(server) == b"abcde"

    with_server(test)


def test_much_content_is_spilled_and_appended_all_the_same() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        async with AppendService(client, memory=1000) as service:
            for n in range(100):
                pending = await service.enqueue(JOURNAL, b"%099d\n" % n)
            assert pending.buffer.is_spilled
        assert appended(server) == b"".join(b"%099d\n" % n for n in range(100))

    with_server(test)


@pytest.mark.parametrize(
    "fault",
    [
        Fault(code=grpc.StatusCode.UNAVAILABLE),
        Fault(code=grpc.StatusCode.UNKNOWN),
        Fault(code=grpc.StatusCode.UNAVAILABLE, before_content=True),
        Fault(status=pb.INSUFFICIENT_JOURNAL_BROKERS),
        Fault(status=pb.ETCD_TRANSACTION_FAILED),
    ],
    ids=str,
)
def test_what_failed_is_tried_again_with_the_same_content(fault: Fault) -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        server.faults["Append"].extend([fault, fault])
        async with AppendService(client) as service:
            assert (await service.append(JOURNAL, b"content")).end == 7
        assert appended(server) == b"content"

    with_server(test)


def test_a_lost_answer_may_write_twice_and_never_not_at_all() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        server.faults["Append"].append(Fault(code=grpc.StatusCode.UNAVAILABLE, after_commit=True))
        async with AppendService(client) as service:
            assert (await service.append(JOURNAL, b"x")).begin == 1
        assert appended(server) == b"xx"

    with_server(test)


@pytest.mark.parametrize(
    "status",
    [
        pb.JOURNAL_NOT_FOUND,
        pb.NOT_ALLOWED,
        pb.WRONG_APPEND_OFFSET,
        pb.INDEX_HAS_GREATER_OFFSET,
        pb.REGISTER_MISMATCH,
        pb.FRAGMENT_STORE_UNHEALTHY,
    ],
)
def test_what_cannot_succeed_is_not_tried_again(status: int) -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        server.faults["Append"].append(Fault(status=status))
        async with AppendService(client) as service:
            failed = await service.enqueue(JOURNAL, b"refused")
            with pytest.raises(Failed):
                await failed
            assert len(server.calls) == 1
            await service.append(JOURNAL, b"next")  # the journal itself is not given up
        assert appended(server) == b"next"

    with_server(test)


def test_all_that_travel_together_fail_together() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        server.faults["Append"].append(Fault(status=pb.REGISTER_MISMATCH))
        async with AppendService(client) as service:
            pending = [await service.enqueue(JOURNAL, b"x") for _ in range(3)]
            for each in pending:
                with pytest.raises(RegisterMismatch):
                    await each
            assert isinstance(pending[0].error, RegisterMismatch)

    with_server(test)


def test_a_turn_that_fails_is_rolled_back_and_the_others_are_not() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        async with AppendService(client) as service:
            event = stalled(server)
            await service.enqueue(JOURNAL, b"sent,")
            await until(lambda: len(server.calls) == 1)
            await service.enqueue(JOURNAL, b"before,")

            async def failing() -> None:
                async with service.writing(JOURNAL) as turn:
                    turn.write(b"half of ")
                    raise KeyError("the other half")

            with pytest.raises(KeyError):
                await failing()
            await service.enqueue(JOURNAL, b"after")
            event.set()
        assert appended(server) == b"sent,before,after"

    with_server(test)


def test_a_turn_that_fails_alone_sends_nothing() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        async with AppendService(client) as service:

            async def failing() -> None:
                async with service.writing(JOURNAL) as turn:
                    turn.write(b"half")
                    raise KeyError("the other half")

            with pytest.raises(KeyError):
                await failing()
            await service.flush()
            assert server.calls == []
            await service.append(JOURNAL, b"whole")
        assert appended(server) == b"whole"

    with_server(test)


def test_turns_of_one_journal_do_not_interleave() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        async with AppendService(client) as service:

            async def slowly(letter: bytes) -> None:
                async with service.writing(JOURNAL) as turn:
                    for _ in range(5):
                        turn.write(letter)
                        await asyncio.sleep(0)

            await asyncio.gather(*(slowly(letter) for letter in (b"a", b"b", b"c")))
        assert appended(server) == b"aaaaabbbbbccccc"

    with_server(test)


def test_an_append_being_written_is_not_sent_by_halves() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        async with AppendService(client) as service:
            await service.enqueue(JOURNAL, b"whole,")
            async with service.writing(JOURNAL) as turn:
                turn.write(b"first half,")
                for _ in range(20):
                    await asyncio.sleep(0)
                assert server.calls == []
                turn.write(b"second half")
        assert server.journals[JOURNAL].commits == [(0, 28)]

    with_server(test)


def test_an_append_waits_for_what_it_depends_on() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        server.create(OTHER)
        event = stalled(server)
        async with AppendService(client) as service:
            first = await service.enqueue(OTHER, b"data")
            second = await service.enqueue(JOURNAL, b"mark", [first])
            await until(lambda: len(server.calls) == 1)
            for _ in range(50):
                await asyncio.sleep(0)
            assert append_calls(server) == [OTHER]
            event.set()
            await second
            assert append_calls(server) == [OTHER, JOURNAL]

    with_server(test)


def test_journals_that_depend_on_each_other_in_turn_do_not_wait_for_ever() -> None:
    """Each append depends on the other journal's last one: a chain, and no cycle."""

    async def test(server: JournalServer, client: JournalClient) -> None:
        server.create(OTHER)
        async with AppendService(client) as service:
            for _ in range(5):
                await service.enqueue(OTHER, b"a", service.pending_except(OTHER))
                await service.enqueue(JOURNAL, b"b", service.pending_except(JOURNAL))
        assert append_calls(server) == [OTHER, JOURNAL] * 5

    with_server(test)


def test_a_cycle_over_three_journals_is_appended_in_the_order_of_its_dependencies() -> None:
    """And what has the same dependencies still travels together."""

    async def test(server: JournalServer, client: JournalClient) -> None:
        order = ["abc/a", "abc/b", "abc/c", "abc/b", "abc/a", "abc/c"]
        for name in set(order):
            server.create(name)
        async with AppendService(client) as service:
            for number, name in enumerate(order):
                depends = service.pending_except(name)
                await service.enqueue(name, b"%d" % number, depends)
                await service.enqueue(name, b"!", depends)
        assert append_calls(server) == order
        assert {name: appended(server, name) for name in set(order)} == {
            "abc/a": b"0!4!",
            "abc/b": b"1!3!",
            "abc/c": b"2!5!",
        }

    with_server(test)


def test_dependencies_that_a_link_already_has_do_not_part_it() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        server.create(OTHER)
        event = stalled(server)
        async with AppendService(client) as service:
            first = await service.enqueue(OTHER, b"data")
            await service.enqueue(JOURNAL, b"1", [first])
            await service.enqueue(JOURNAL, b"2")
            await service.enqueue(JOURNAL, b"3", [first])
            event.set()
        assert server.journals[JOURNAL].commits == [(0, 3)]

    with_server(test)


def test_a_failed_dependency_fails_the_journal_for_good() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        service = AppendService(client)
        event = stalled(server)
        failing = await service.enqueue("no/such/journal", b"data")
        dependent = await service.enqueue(JOURNAL, b"mark", [failing])
        behind = await service.enqueue(JOURNAL, b"behind")
        event.set()
        for pending in (dependent, behind):
            with pytest.raises(DependencyFailed, match="no/such/journal"):
                await pending
        assert isinstance(failing.error, JournalNotFound)
        with pytest.raises(DependencyFailed):
            await service.enqueue(JOURNAL, b"ever after")
        assert appended(server) == b""
        await service.close()

    with_server(test)


def test_a_dependency_that_has_failed_already_is_not_forgotten() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        service = AppendService(client)
        failed = await service.enqueue("no/such/journal", b"data")
        with pytest.raises(JournalNotFound):
            await failed
        with pytest.raises(DependencyFailed):
            await service.append(JOURNAL, b"mark", [failed])
        await service.close()

    with_server(test)


def test_pending_appends_are_known_until_they_are_done() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        server.create(OTHER)
        async with AppendService(client) as service:
            one = await service.enqueue(JOURNAL, b"x")
            two = await service.enqueue(OTHER, b"x")
            assert service.pending_except(JOURNAL) == {two}
            assert service.pending_except() == {one, two}
            await service.flush()
            assert service.pending_except() == frozenset()

    with_server(test)


def test_what_depends_on_an_append_of_a_closed_service_fails_with_it() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        event = stalled(server)
        service = AppendService(client)
        first = await service.enqueue(JOURNAL, b"data")
        await until(lambda: len(server.calls) == 1)
        server.create(OTHER)
        dependent = await service.enqueue(OTHER, b"mark", [first])
        await service.close()
        for pending in (first, dependent):
            with pytest.raises((ServiceClosed, DependencyFailed)):
                await pending
        event.set()
        assert appended(server, OTHER) == b""

    with_server(test)


@pytest.mark.parametrize("status", [pb.OK, pb.NOT_ALLOWED])
def test_the_file_of_content_that_was_spilled_goes_with_its_append(status: int) -> None:
    """Whether it went well or not: one that stays open is a file nobody can see or delete."""

    async def test(server: JournalServer, client: JournalClient) -> None:
        async with AppendService(client, memory=10) as service:
            await service.append(JOURNAL, b"warm up")
            before = spilled_files()
            for n in range(20):
                if status != pb.OK:
                    server.faults["Append"].append(Fault(status=status))
                pending = await service.enqueue(JOURNAL, b"%099d\n" % n)
                assert spilled_files() > before
                with suppress(NotAllowed):
                    await pending
            await service.flush()
            assert spilled_files() == before

    with_server(test)


def spilled_files() -> int:
    """How many open files of this process have no name any more."""
    count = 0
    for descriptor in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            count += os.readlink(f"/proc/self/fd/{descriptor}").endswith(" (deleted)")
    return count


def test_a_caller_that_is_cancelled_does_not_take_the_append_with_it() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        event = stalled(server)
        async with AppendService(client) as service:
            waiting = asyncio.create_task(service.append(JOURNAL, b"x"))
            await until(lambda: len(server.calls) == 1)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            event.set()
        assert appended(server) == b"x"

    with_server(test)


def test_a_closed_service_fails_what_is_pending_and_takes_nothing() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        event = stalled(server)
        service = AppendService(client)
        pending = await service.enqueue(JOURNAL, b"x")
        await until(lambda: len(server.calls) == 1)
        await service.close()
        with pytest.raises(ServiceClosed):
            await pending
        with pytest.raises(ServiceClosed):
            await service.enqueue(JOURNAL, b"y")
        event.set()

    with_server(test)


def test_registers_without_content_are_refused_where_they_are_asked_for() -> None:
    """The broker would refuse each try, and the service try for ever."""

    async def test(server: JournalServer, client: JournalClient) -> None:
        async with AppendService(client) as service:
            request = AppendRequest(JOURNAL, union=LabelSet.of({"owner": "us"}))
            with pytest.raises(RegistersNeedContent):
                await service.enqueue(request, b"")

    with_server(test)


def test_an_append_of_nothing_is_a_barrier() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        async with AppendService(client) as service:
            await service.append(JOURNAL, b"12345")
            assert (await service.append(JOURNAL, b"")).begin == 5

    with_server(test)


def test_a_full_disk_fails_one_append_and_not_its_neighbours() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        async with AppendService(client, memory=0) as service:
            event = stalled(server)
            await service.enqueue(JOURNAL, b"sent,")
            await until(lambda: len(server.calls) == 1)
            await service.enqueue(JOURNAL, b"before,")
            with files_of_at_most(100), pytest.raises(OSError, match="too large"):
                await service.enqueue(JOURNAL, b"x" * 1000)
            await service.enqueue(JOURNAL, b"after")
            event.set()
        assert appended(server) == b"sent,before,after"

    with_server(test)


def test_appends_of_many_tasks_are_all_there_once_and_in_each_ones_order() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        async with AppendService(client) as service:

            async def write(task: int) -> None:
                for n in range(40):
                    pending = await service.enqueue(JOURNAL, b"%d:%d\n" % (task, n))
                    if n % 7 == task % 7:
                        await pending
                    else:
                        await asyncio.sleep(0)

            await asyncio.gather(*(write(task) for task in range(20)))
        lines = appended(server).decode().split()
        assert len(lines) == 800
        for task in range(20):
            own = [line for line in lines if line.startswith(f"{task}:")]
            assert own == [f"{task}:{n}" for n in range(40)]
        assert len(server.calls) < 400

    with_server(test)
