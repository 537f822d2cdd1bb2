"""From publishers over journals to sequencers: each committed message once."""

from __future__ import annotations

import grpc

from tests.fixtures.journal_server import Fault, JournalServer
from tests.integration.journal.client.serving import JOURNAL, with_server
from windrow.journal.client.append_service import AppendService
from windrow.journal.client.client import JournalClient
from windrow.journal.message.framing import FixedUnframer
from windrow.journal.message.publisher import Publisher
from windrow.journal.message.record import Record, unframe_records
from windrow.journal.message.sequencer import Message, Replay, Sequencer
from windrow.journal.message.uuids import Flags, flags_of, producer_id

OTHER = "another/journal"
NOW = 1_700_000_000.0


def publisher(service: AppendService, name: bytes = b"abcdef") -> Publisher:
    return Publisher(service, producer_id(name), lambda: NOW)


def committed(server: JournalServer, journal: str = JOURNAL) -> list[str]:
    """What a reader of the journal is given, through a ring too small for most spans."""
    content = bytes(server.journals[journal].content)
    messages = [
        Message(journal, frame.begin, frame.end, record.uuid, record.value)
        for frame, record in unframe_records(FixedUnframer(), content)
    ]
    sequencer, found = Sequencer(ring=2), list[str]()
    for message in messages:
        sequencer.queue(message)
        while (step := sequencer.step()) is not None:
            if isinstance(step, Replay):
                sequencer.on_replayed(m for m in messages if step.begin <= m.begin < step.end)
            elif flags_of(step.uuid) != Flags.ACK_TXN:
                found.append(step.payload.decode())
    return found


def record(value: str) -> Record:
    return Record(value=value.encode())


def test_records_published_alone_are_committed_at_once() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        async with AppendService(client) as service:
            publishing = publisher(service)
            for n in range(5):
                await publishing.publish(JOURNAL, record(str(n)))
        assert committed(server) == ["0", "1", "2", "3", "4"]

    with_server(test)


def test_a_batch_appended_twice_is_read_once() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        server.faults["Append"].append(Fault(code=grpc.StatusCode.UNAVAILABLE, after_commit=True))
        async with AppendService(client) as service:
            publishing = publisher(service)
            for n in range(5):
                await publishing.publish(JOURNAL, record(str(n)))
        assert len(server.journals[JOURNAL].commits) == 2
        assert committed(server) == ["0", "1", "2", "3", "4"]

    with_server(test)


def test_uncommitted_records_stay_invisible_until_their_acknowledgement() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        server.create(OTHER)
        async with AppendService(client) as service:
            publishing = publisher(service)
            for n in range(4):
                await publishing.publish_uncommitted(JOURNAL, record(f"a{n}"))
                await publishing.publish_uncommitted(OTHER, record(f"b{n}"))
            await service.flush()
            assert committed(server) == committed(server, OTHER) == []
            intents = publishing.ack_intents()
            assert [intent.journal for intent in intents] == [JOURNAL, OTHER]
            await publishing.append_intents(intents)
            await service.flush()
            assert committed(server) == ["a0", "a1", "a2", "a3"]
            assert committed(server, OTHER) == ["b0", "b1", "b2", "b3"]
            assert publishing.ack_intents() == []

    with_server(test)


def test_stored_intents_are_appended_again_without_harm() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        async with AppendService(client) as service:
            first = publisher(service)
            await first.publish_uncommitted(JOURNAL, record("kept"))
            intents = first.ack_intents()
            # It crashes here. Whoever recovers appends what was stored, and maybe once more.
            second = publisher(service, b"ghijkl")
            await second.append_intents(intents)
            await second.append_intents(intents)
            await second.publish(JOURNAL, record("next"))
        assert committed(server) == ["kept", "next"]

    with_server(test)


def test_what_was_never_acknowledged_is_never_read() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        async with AppendService(client) as service:
            lost, going = publisher(service), publisher(service, b"ghijkl")
            await lost.publish_uncommitted(JOURNAL, record("lost"))
            await going.publish_uncommitted(JOURNAL, record("kept"))
            await going.append_intents(going.ack_intents())
        assert committed(server) == ["kept"]

    with_server(test)


def test_an_acknowledgement_never_shares_an_append_with_the_next_commit() -> None:
    """Repeated together they would look like a producer that lost its clock."""

    async def test(server: JournalServer, client: JournalClient) -> None:
        lost = Fault(code=grpc.StatusCode.UNAVAILABLE, after_commit=True)
        async with AppendService(client) as service:
            publishing = publisher(service)
            for n in range(4):
                server.faults["Append"].append(lost)
                await publishing.publish_uncommitted(JOURNAL, record(f"t{n}"))
                await publishing.append_intents(publishing.ack_intents())
                await publishing.publish(JOURNAL, record(f"o{n}"))
        assert committed(server) == ["t0", "o0", "t1", "o1", "t2", "o2", "t3", "o3"]

    with_server(test)
