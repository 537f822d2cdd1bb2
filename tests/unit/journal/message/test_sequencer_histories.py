"""Whatever producers and readers do, committed messages are delivered exactly once, in order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from windrow.journal.message.sequencer import Checkpoint, Message, Replay, Sequencer
from windrow.journal.message.uuids import Flags, build_uuid, flags_of

JOURNAL = "a/journal"


@dataclass
class Producer:
    """Writes at least once: any chunk it appended may be appended again right behind itself."""

    id: bytes
    clock: int = 0
    last_ack: Message | None = None
    pending: list[str] = field(default_factory=list)
    """Texts of the transaction that is open."""
    chunk: list[Message] = field(default_factory=list)


class World:
    """A journal, its producers, and what a reader may be given of it."""

    def __init__(self, count: int) -> None:
        self.journal: list[Message] = []
        self.producers = [Producer(bytes((1, 0, 0, 0, 0, n))) for n in range(count)]
        self.committed: list[str] = []
        self._names = 0

    def write(self, producer: Producer, flags: Flags) -> None:
        # The rule for producers: an acknowledgement is answered before the next commit is written.
        # Two in one append, repeated, would look like a producer that lost its clock.
        if flags != Flags.CONTINUE_TXN and any(_is_ack(message) for message in producer.chunk):
            self.answered(producer)
        producer.clock += 1
        self._names += 1
        text = f"{producer.id[-1]}:{self._names}"
        identity = build_uuid(producer.id, producer.clock, flags)
        producer.chunk.append(self._append(identity, text))
        match flags:
            case Flags.OUTSIDE_TXN:
                producer.pending.clear()
                self.committed.append(text)
            case Flags.CONTINUE_TXN:
                producer.pending.append(text)
            case Flags.ACK_TXN:
                self.committed += producer.pending
                producer.pending.clear()
                producer.last_ack = producer.chunk[-1]

    def repeat(self, producer: Producer) -> None:
        """The answer to its last append was lost: the whole of it is there again."""
        for message in producer.chunk:
            self._append(message.uuid, str(message.payload))

    def answered(self, producer: Producer) -> None:
        producer.chunk = []

    def restart(self, producer: Producer) -> None:
        """It crashes and recovers: its last acknowledgement is appended again, then new ones."""
        if producer.last_ack is None:
            return
        self.answered(producer)
        self._append(producer.last_ack.uuid, "ack")
        producer.pending.clear()

    def _append(self, identity: bytes, text: str) -> Message:
        begin = len(self.journal)
        message = Message(JOURNAL, begin, begin + 1, identity, text)
        self.journal.append(message)
        return message


def _is_ack(message: Message) -> bool:
    return flags_of(message.uuid) == Flags.ACK_TXN


ACTIONS = {
    "outside": lambda world, producer: world.write(producer, Flags.OUTSIDE_TXN),
    "continue": lambda world, producer: world.write(producer, Flags.CONTINUE_TXN),
    "ack": lambda world, producer: world.write(producer, Flags.ACK_TXN),
    "repeat": lambda world, producer: world.repeat(producer),
    "answered": lambda world, producer: world.answered(producer),
    "restart": lambda world, producer: world.restart(producer),
}


def delivered(world: World, ring: int, moves: Iterator[str]) -> list[str]:
    """What a reader gives out that keeps its output with its checkpoint, and sometimes dies."""
    checkpoint, kept = Checkpoint(), list[str]()
    while True:
        sequencer, given_out = Sequencer(checkpoint, ring), list(kept)
        for message in world.journal[sequencer.offsets.get(JOURNAL, 0) :]:
            sequencer.queue(message)
            while (step := sequencer.step()) is not None:
                if isinstance(step, Replay):
                    sequencer.on_replayed(world.journal[step.begin : step.end])
                elif flags_of(step.uuid) != Flags.ACK_TXN:
                    given_out.append(str(step.payload))
                if (move := next(moves, "")) == "die":
                    break
            else:
                move = next(moves, "")
            if move == "die":
                break
            if move == "keep":
                checkpoint, kept = sequencer.checkpoint(), list(given_out)
        else:
            return given_out


@given(
    script=st.lists(st.tuples(st.sampled_from(sorted(ACTIONS)), st.integers(0, 2)), max_size=60),
    ring=st.integers(1, 6),
    moves=st.lists(st.sampled_from(["go", "go", "keep", "die"]), max_size=120),
)
def test_committed_messages_are_delivered_exactly_once_in_order(
    script: list[tuple[str, int]], ring: int, moves: list[str]
) -> None:
    """For any interleaving of producers, repetitions, restarts of either side, and a tiny ring."""
    world = World(3)
    for action, producer in script:
        ACTIONS[action](world, world.producers[producer])
    assert delivered(world, ring, iter(moves)) == world.committed
