"""Numbered batches: nothing doubled, nothing lost, no gap, whatever is lost on the way."""

from __future__ import annotations

import asyncio
import random

import grpc
import pytest

from tests.fixtures.journal_server import Fault, JournalServer
from tests.integration.journal.client.serving import JOURNAL, until, with_server
from windrow.journal.client.client import JournalClient
from windrow.journal.client.errors import InvalidTail, NotSequenced, WriterFenced
from windrow.journal.client.sequence import Batch, rebuild_registers
from windrow.journal.client.sequenced import OwnedWriter, SequencedWriter
from windrow.journal.errors import JournalNotFound
from windrow.journal.labels import EMPTY
from windrow.journal.message.framing import FixedUnframer
from windrow.journal.message.record import Control, Record, decode_frame, decode_records
from windrow.journal.wire import protocol_pb2 as pb

UNAVAILABLE = grpc.StatusCode.UNAVAILABLE
LOST = Fault(code=UNAVAILABLE, after_commit=True)
FAILED = Fault(code=UNAVAILABLE)
BROKEN = Fault(code=grpc.StatusCode.UNKNOWN, before_content=True)


def records(*values: str) -> list[Record]:
    return [Record(value=value.encode(), topic="t") for value in values]


def written(server: JournalServer) -> list[tuple[int, str]]:
    found = decode_records(bytes(server.journals[JOURNAL].content))
    return [(record.seq, (record.value or b"").decode()) for record in found]


def heads(server: JournalServer) -> list[Control]:
    frames = FixedUnframer().feed(bytes(server.journals[JOURNAL].content))
    return [control for frame in frames if isinstance(control := decode_frame(frame), Control)]


def test_records_are_numbered_without_a_gap() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        writer = SequencedWriter(client, JOURNAL, "w")
        first = await writer.append(records("a", "b"), "batch-1")
        second = await writer.append(records("c"), "batch-2")
        assert (first.batch, second.batch) == (Batch("batch-1", 0, 2), Batch("batch-2", 2, 1))
        assert written(server) == [(0, "a"), (1, "b"), (2, "c")]
        assert len(server.journals[JOURNAL].commits) == 2

    with_server(test)


def test_every_batch_is_headed_by_a_frame_that_names_it_and_its_predecessor() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        writer = SequencedWriter(client, JOURNAL, "w")
        await writer.append(records("a", "b"), "batch-1")
        await writer.append(records("c"), "batch-2")
        assert heads(server) == [
            Control("w", "batch-1", "", 2, 0),
            Control("w", "batch-2", "batch-1", 1, 2),
        ]

    with_server(test)


@pytest.mark.parametrize(
    "faults",
    [
        [BROKEN],
        [BROKEN, LOST],
        [LOST],
        [FAILED],
        [LOST, LOST],
        [FAILED, FAILED, LOST],
        [LOST, FAILED],
        [FAILED, LOST, LOST],
    ],
    ids=str,
)
def test_an_answer_that_is_lost_never_doubles_a_batch(faults: list[Fault]) -> None:
    """The look at the registers may be lost as well as the append."""

    async def test(server: JournalServer, client: JournalClient) -> None:
        writer = SequencedWriter(client, JOURNAL, "w")
        await writer.append(records("a"))
        server.faults["Append"].extend(faults)
        assert (await writer.append(records("b", "c"))).batch.seq == 1
        await writer.append(records("d"))
        assert written(server) == [(0, "a"), (1, "b"), (2, "c"), (3, "d")]

    with_server(test)


def test_the_first_batch_of_a_journal_is_not_doubled_either() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        writer = SequencedWriter(client, JOURNAL, "w")
        await writer.open()
        server.faults["Append"].append(LOST)
        done = await writer.append(records("a"), "batch-1")
        assert done.was_there
        assert written(server) == [(0, "a")]

    with_server(test)


def test_an_append_that_arrives_after_its_repetition_is_refused() -> None:
    """It was looked for and not found, and is sent again; then the first one arrives as well."""

    async def test(server: JournalServer, client: JournalClient) -> None:
        writer = SequencedWriter(client, JOURNAL, "w")
        await writer.append(records("a"))
        late = asyncio.Event()
        server.faults["Append"].append(Fault(code=UNAVAILABLE, late=late))
        await writer.append(records("b"))
        late.set()
        await until(lambda: bool(server.late_answers))
        assert server.late_answers == [pb.REGISTER_MISMATCH]
        assert written(server) == [(0, "a"), (1, "b")]

    with_server(test)


def test_an_append_that_arrives_before_its_repetition_makes_that_needless() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        writer = SequencedWriter(client, JOURNAL, "w")
        await writer.append(records("a"))
        late, repetition = asyncio.Event(), asyncio.Event()
        server.faults["Append"].append(Fault(code=UNAVAILABLE, late=late))
        server.faults["Append"].append(Fault())  # the look
        server.faults["Append"].append(Fault(stall=repetition))
        appending = asyncio.create_task(writer.append(records("b")))
        await until(lambda: not server.faults["Append"])
        late.set()
        await until(lambda: bool(server.late_answers))
        repetition.set()
        assert (await appending).was_there
        assert server.late_answers == [pb.OK]
        assert written(server) == [(0, "a"), (1, "b")]

    with_server(test)


def test_a_batch_that_was_committed_before_a_restart_is_not_repeated() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        await SequencedWriter(client, JOURNAL, "w").append(records("a"), "batch-1")
        restarted = SequencedWriter(client, JOURNAL, "w")
        assert (await restarted.open()).last == Batch("batch-1", 0, 1)
        again = await restarted.append(records("a"), "batch-1")
        assert again.was_there
        assert again.batch == Batch("batch-1", 0, 1)
        await restarted.append(records("b"), "batch-2")
        assert written(server) == [(0, "a"), (1, "b")]

    with_server(test)


def test_a_second_process_under_the_same_name_fences_the_first() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        first, second = (SequencedWriter(client, JOURNAL, "w") for _ in range(2))
        await first.append(records("a"), "batch-1")
        await second.append(records("b"), "batch-2")
        with pytest.raises(WriterFenced, match="batch-2"):
            await first.append(records("c"), "batch-3")
        assert written(server) == [(0, "a"), (1, "b")]

    with_server(test)


def test_two_processes_that_begin_at_once_are_told_apart() -> None:
    """Both saw no batch of theirs: the check by exclusion lets one of them pass."""

    async def test(server: JournalServer, client: JournalClient) -> None:
        first, second = (SequencedWriter(client, JOURNAL, "w") for _ in range(2))
        await first.open()
        await second.open()
        await first.append(records("a"))
        with pytest.raises(WriterFenced):
            await second.append(records("b"))
        assert written(server) == [(0, "a")]

    with_server(test)


def test_a_batch_without_records_is_a_link_of_the_chain_as_well() -> None:
    """It does not move the sequence: only the writer's last batch tells of it."""

    async def test(server: JournalServer, client: JournalClient) -> None:
        first, second = (SequencedWriter(client, JOURNAL, "w") for _ in range(2))
        await first.append([], "batch-1")
        await second.open()
        await first.append([], "batch-2")
        with pytest.raises(WriterFenced, match="batch-2"):
            await second.append(records("b"), "batch-3")
        assert written(server) == []

    with_server(test)


def test_a_batch_given_up_in_doubt_does_not_fence_its_own_writer() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        writer = SequencedWriter(client, JOURNAL, "w")
        await writer.append(records("a"), "batch-1")
        stall = asyncio.Event()
        server.faults["Append"].append(Fault(stall=stall, after_commit=True))
        giving_up = asyncio.create_task(writer.append(records("b"), "batch-2"))
        await until(lambda: len(server.journals[JOURNAL].commits) == 2)
        giving_up.cancel()
        with pytest.raises(asyncio.CancelledError):
            await giving_up
        stall.set()
        await writer.append(records("c"), "batch-3")
        assert written(server) == [(0, "a"), (1, "b"), (2, "c")]
        assert heads(server)[-1].previous == "batch-2"

    with_server(test)


@pytest.mark.parametrize("seed", range(3))
def test_writers_that_share_a_journal_interleave_whole_batches(seed: int) -> None:
    """With answers lost at random, indices stay contiguous and every batch is there once."""

    async def test(server: JournalServer, client: JournalClient) -> None:
        chance = random.Random(seed)

        async def write(name: str) -> None:
            writer = SequencedWriter(client, JOURNAL, name)
            for n in range(8):
                if chance.random() < 0.3:
                    server.faults["Append"].append(chance.choice([LOST, FAILED]))
                count = chance.randint(1, 4)
                await writer.append(records(*(f"{name}/{n}/{k}/{count}" for k in range(count))))

        await asyncio.gather(*(write(f"w{n}") for n in range(4)))
        found = written(server)
        assert [seq for seq, _ in found] == list(range(len(found)))
        batches: dict[tuple[str, str], list[int]] = {}
        for seq, value in found:
            name, n, k, _ = value.split("/")
            batches.setdefault((name, n), []).append(seq)
            assert batches[name, n] == list(range(seq - int(k), seq + 1)), value
        assert len(batches) == 32
        for name in ("w0", "w1", "w2", "w3"):
            own = [n for (writer, n) in batches if writer == name]
            assert own == [str(n) for n in range(8)]

    with_server(test)


def test_batches_of_one_writer_wait_for_each_other() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        writer = SequencedWriter(client, JOURNAL, "w")
        await asyncio.gather(*(writer.append(records(str(n)), f"batch-{n}") for n in range(6)))
        assert written(server) == [(n, str(n)) for n in range(6)]

    with_server(test)


def test_content_without_registers_is_refused() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        await client.append(JOURNAL, b"by somebody else")
        with pytest.raises(NotSequenced, match="holds 16 bytes"):
            await SequencedWriter(client, JOURNAL, "w").append(records("a"))
        assert server.journals[JOURNAL].content == b"by somebody else"

    with_server(test)


def test_a_journal_that_does_not_exist_is_not_waited_for() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        with pytest.raises(JournalNotFound):
            await SequencedWriter(client, "no/such/journal", "w").append(records("a"))

    with_server(test)


def test_registers_can_be_rebuilt_from_the_journal() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        first, second = (SequencedWriter(client, JOURNAL, name) for name in ("v", "w"))
        owned = OwnedWriter(client, JOURNAL, "shard-0")
        for n in range(3):
            await first.append(records(*"abc"), f"v-{n}")
            await second.append(records("d"), f"w-{n}")
            await owned.take_ownership(f"owner-{n}", epoch=n)
            await owned.append_batch(f"s-{n}", records("e", "f"))
        stored = server.journals[JOURNAL]
        lost, stored.registers = stored.registers, EMPTY
        assert rebuild_registers(bytes(stored.content)) == lost
        # The tail needs to hold the last batch of each writer, and no more.
        begin = stored.commits[-4][0]
        assert rebuild_registers(bytes(stored.content[begin:])) == lost

    with_server(test)


@pytest.mark.parametrize("tail", [b"", b"no frames at all"])
def test_a_tail_that_tells_nothing_is_refused(tail: bytes) -> None:
    with pytest.raises(InvalidTail):
        rebuild_registers(tail)


def test_a_tail_that_is_cut_off_is_refused() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        await SequencedWriter(client, JOURNAL, "w").append(records("a"))
        with pytest.raises(InvalidTail, match="inside the frame"):
            rebuild_registers(bytes(server.journals[JOURNAL].content[:-1]))

    with_server(test)


# -- owned writers -----------------------------------------------------------------------------


def test_a_new_owner_learns_what_the_former_one_committed() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        old, new = (OwnedWriter(client, JOURNAL, "shard-0") for _ in range(2))
        assert await old.take_ownership("old", 1) is None
        await old.append_batch("batch-1", records("a", "b"))
        assert await new.take_ownership("new", 2) == Batch("batch-1", 0, 2)
        await new.append_batch("batch-2", records("c"))
        assert written(server) == [(0, "a"), (1, "b"), (2, "c")]

    with_server(test)


def test_a_former_owner_writes_nothing_more() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        old, new = (OwnedWriter(client, JOURNAL, "shard-0") for _ in range(2))
        await old.take_ownership("old", 1)
        await new.take_ownership("new", 2)
        for _ in range(2):
            with pytest.raises(WriterFenced, match="2/new"):
                await old.append_batch("batch-1", records("a"))
        assert written(server) == []

    with_server(test)


def test_an_append_in_flight_lands_before_the_hand_over_or_never() -> None:
    """R6: the new owner's write is the fence; what it then reads is final."""

    async def test(server: JournalServer, client: JournalClient) -> None:
        old, new = (OwnedWriter(client, JOURNAL, "shard-0") for _ in range(2))
        await old.take_ownership("old", 1)
        stall = asyncio.Event()
        server.faults["Append"].append(Fault(stall=stall))
        late = asyncio.create_task(old.append_batch("batch-1", records("a")))
        await until(lambda: not server.faults["Append"])
        assert await new.take_ownership("new", 2) is None
        stall.set()
        with pytest.raises(WriterFenced):
            await late
        await new.append_batch("batch-2", records("b"))
        assert written(server) == [(0, "b")]

    with_server(test)


def test_a_batch_that_lands_between_the_look_and_the_hand_over_is_learned_of() -> None:
    """R6: what was read before the new owner's write may be old; what came with it is final."""

    async def test(server: JournalServer, client: JournalClient) -> None:
        old, new = (OwnedWriter(client, JOURNAL, "shard-0") for _ in range(2))
        await old.take_ownership("old", 1)
        stall = asyncio.Event()
        server.faults["Append"].append(Fault())  # the look
        server.faults["Append"].append(Fault(stall=stall))
        taking = asyncio.create_task(new.take_ownership("new", 2))
        await until(lambda: not server.faults["Append"])
        await old.append_batch("batch-1", records("a"))
        stall.set()
        assert await taking == Batch("batch-1", 0, 1)
        await new.append_batch("batch-2", records("b"))
        assert written(server) == [(0, "a"), (1, "b")]

    with_server(test)


def test_a_former_owner_whose_batch_did_land_learns_so_and_is_fenced_after() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        old, new = (OwnedWriter(client, JOURNAL, "shard-0") for _ in range(2))
        await old.take_ownership("old", 1)
        stall = asyncio.Event()
        fault = Fault(code=UNAVAILABLE, stall=stall, after_commit=True)
        server.faults["Append"].append(fault)
        late = asyncio.create_task(old.append_batch("batch-1", records("a")))
        await until(lambda: len(server.journals[JOURNAL].commits) == 2)
        assert await new.take_ownership("new", 2) == Batch("batch-1", 0, 1)
        stall.set()
        assert (await late).was_there
        with pytest.raises(WriterFenced, match="2/new"):
            await old.append_batch("batch-2", records("b"))
        assert written(server) == [(0, "a")]

    with_server(test)


def test_an_earlier_epoch_does_not_take_over_a_later_one() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        old, new = (OwnedWriter(client, JOURNAL, "shard-0") for _ in range(2))
        await new.take_ownership("new", 2)
        with pytest.raises(WriterFenced, match="2/new"):
            await old.take_ownership("old", 1)
        await new.append_batch("batch-1", records("a"))

    with_server(test)


@pytest.mark.parametrize("fault", [LOST, FAILED], ids=str)
def test_a_hand_over_whose_answer_is_lost_is_found_out(fault: Fault) -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        writer = OwnedWriter(client, JOURNAL, "shard-0")
        await client.append(JOURNAL)  # so that the fault meets the hand-over and not the look
        server.faults["Append"].append(Fault())
        server.faults["Append"].append(fault)
        await writer.take_ownership("us", 1)
        await writer.append_batch("batch-1", records("a"))
        assert len([head for head in heads(server) if head.owner]) == 1

    with_server(test)


def test_shards_own_their_names_apart_from_each_other() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        shards = [OwnedWriter(client, JOURNAL, f"shard-{n}") for n in range(3)]
        for n, shard in enumerate(shards):
            await shard.take_ownership(f"owner-{n}", 1)
        await asyncio.gather(*(shard.append_batch("b", records("x")) for shard in shards))
        assert [seq for seq, _ in written(server)] == [0, 1, 2]

    with_server(test)


def test_a_former_owner_that_looks_again_is_fenced_all_the_same() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        old, new = (OwnedWriter(client, JOURNAL, "shard-0") for _ in range(2))
        await old.take_ownership("old", 1)
        await new.take_ownership("new", 2)
        await old.open()
        with pytest.raises(WriterFenced, match="2/new"):
            await old.append_batch("batch-1", records("a"))
        assert written(server) == []

    with_server(test)


def test_who_does_not_own_does_not_write() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        owner, other = (OwnedWriter(client, JOURNAL, "shard-0") for _ in range(2))
        await owner.take_ownership("us", 1)
        await other.open()
        with pytest.raises(WriterFenced, match="take_ownership"):
            await other.append_batch("batch-1", records("a"))

    with_server(test)
