"""Whatever is delayed, lost, repeated or taken over: every batch once, indices without a gap."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from windrow.journal.client.errors import WriterFenced
from windrow.journal.client.sequence import Batch, Owner, WriterState
from windrow.journal.labels import EMPTY, LabelSelector, LabelSet

JOURNAL = "a/journal"


@dataclass
class Sent:
    """An append on its way; it may arrive at any later time, or never."""

    check: LabelSelector
    union: LabelSet
    batch: Batch
    owner: Owner | None
    has_arrived: bool = False
    is_committed: bool = False


@dataclass
class Process:
    """A writer as ``SequencedWriter`` drives it, one step at a time."""

    state: WriterState
    name: str = ""
    """The batch it wants in the journal."""
    sent: Sent | None = None
    in_doubt: set[str] = field(default_factory=set)
    is_fenced: bool = False
    owner: Owner | None = None
    """What it took the shard as, whatever it believes by now."""


class World:
    """A journal's registers and log, and the processes that write to it."""

    def __init__(self) -> None:
        self.registers = EMPTY
        self.end = 0
        self.log: list[tuple[Batch, Owner | None]] = []
        self.flying: list[Sent] = []
        self.told: list[str] = []
        """Batches that a process was told are committed."""
        self.batches = self.epoch = 0
        self.handed_over_at: dict[Owner, int] = {}
        """For a former owner, how long the log was when it was replaced."""
        self.processes = [Process(self.read(name)) for name in ("v", "w", "shard", "shard")]
        self.take_over(2)
        self.processes[3].is_fenced = True  # until it takes over

    def read(self, writer: str) -> WriterState:
        return WriterState.read(JOURNAL, writer, self.registers, self.end)

    def now(self, process: Process) -> WriterState:
        return self.read(process.state.writer)

    def send(self, process: Process, count: int) -> None:
        if not process.name:
            self.batches += 1
            process.name = f"batch-{self.batches}"
        batch = Batch(process.name, process.state.next_seq, count)
        process.in_doubt.add(batch.id)
        state = process.state
        process.sent = Sent(state.check(), state.moved(batch), batch, process.owner)
        self.flying.append(process.sent)

    def arrive(self, sent: Sent) -> None:
        self.flying.remove(sent)
        sent.has_arrived = True
        if self.registers and not sent.check.matches(self.registers):
            return
        sent.is_committed = True
        self.registers = sent.union.union(self.registers)
        self.end += 1
        self.log.append((sent.batch, sent.owner))

    def hear(self, process: Process) -> None:
        """The answer to what it sent last, if that has arrived."""
        if process.sent is None or not process.sent.has_arrived:
            return
        if process.sent.is_committed:
            self.settle(process, process.state.after(process.sent.batch))
        else:
            self.look(process)

    def look(self, process: Process) -> None:
        """It gives up waiting and reads the registers."""
        if process.sent is None:
            return
        judged = process.state.judge(process.name, self.now(process), process.in_doubt)
        process.sent = None
        if judged.last is not None and judged.last.id == process.name:
            self.settle(process, judged)
        else:
            process.state = judged

    def settle(self, process: Process, state: WriterState) -> None:
        self.told.append(process.name)
        process.state, process.name, process.sent = state, "", None
        process.in_doubt.clear()

    def give_up(self, process: Process) -> None:
        """It was cancelled: it will never ask for this batch again."""
        process.name, process.sent = "", None

    def take_over(self, which: int) -> None:
        """One of the two processes of the shard becomes its owner; the other does not know."""
        self.epoch += 1
        owner, before = Owner(f"leader-{which}", self.epoch), self.read("shard")
        check, union = before.hand_over(owner)
        assert not self.registers or check.matches(self.registers)
        self.registers = union.union(self.registers)
        self.end += 1
        if before.owner is not None:
            self.handed_over_at[before.owner] = len(self.log)
        self.processes[which] = Process(self.read("shard"), owner=owner)


ACTIONS = ["send"] * 3 + ["arrive"] * 4 + ["hear"] * 2 + ["look", "give up", "take over"]


def play(script: list[tuple[str, int, int]]) -> World:
    world = World()
    for action, which, count in script:
        process = world.processes[which]
        try:
            match action:
                case "arrive" if world.flying:
                    world.arrive(world.flying[(which * 5 + count) % len(world.flying)])
                case "take over" if which >= 2:
                    world.take_over(which)
                case _ if process.is_fenced:
                    continue
                case "send" if process.sent is None:
                    world.send(process, count)
                case "hear":
                    world.hear(process)
                case "look":
                    world.look(process)
                case "give up":
                    world.give_up(process)
        except WriterFenced:
            process.is_fenced = True
    return world


STEPS = st.tuples(st.sampled_from(ACTIONS), st.integers(0, 3), st.integers(0, 3))


@given(st.lists(STEPS, min_size=60, max_size=150))
def test_every_batch_is_there_once_and_indices_have_no_gap(
    script: list[tuple[str, int, int]],
) -> None:
    world = play(script)
    ids = [batch.id for batch, _ in world.log]
    assert len(set(ids)) == len(ids), "doubled"
    assert set(world.told) <= set(ids), "lost"
    seq = 0
    for batch, _ in world.log:
        assert batch.seq == seq, "gap"
        seq += batch.count
    for former, length in world.handed_over_at.items():
        assert all(owner != former for _, owner in world.log[length:]), "not fenced"
    plain = [process for process in world.processes[:2] if process.is_fenced]
    assert plain == [], "a writer that is alone under its name is never fenced"
