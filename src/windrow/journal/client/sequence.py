"""The registers by which writers number their records, and what they prove. Pure.

- ``windrow.dev/seq`` is the index of the next record of the journal.
- ``windrow.dev/last/<writer>`` names the last batch of a writer, and where it went.
- ``windrow.dev/owner/<writer>`` names the process that may write under that name.

An append of a batch checks that the sequence is where the writer believes it is and that the
writer's last batch is the one it remembers, and moves both. So a batch is in the journal if and
only if it is the writer's last, or the writer's last was built upon it: a chain, in which an answer
that was lost can always be found again. An empty set of registers matches every check, so a journal
that has content and no registers is refused: its sequence is lost, not new.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Container
from dataclasses import dataclass, replace

from windrow.journal.client.errors import (
    InvalidBatch,
    InvalidTail,
    NotSequenced,
    WriterFenced,
)
from windrow.journal.labels import Label, LabelSelector, LabelSet
from windrow.journal.message.errors import InvalidRecord
from windrow.journal.message.framing import FixedUnframer
from windrow.journal.message.record import Control, decode_frame

SEQ = "windrow.dev/seq"
LAST_PREFIX = "windrow.dev/last/"
OWNER_PREFIX = "windrow.dev/owner/"

_ID = re.compile(r"[A-Za-z0-9._+-]{1,128}")


def last_register(writer: str) -> str:
    """The register of a writer's last batch. A name has 64 bytes at most, so it is hashed."""
    return LAST_PREFIX + _digest(writer)


def owner_register(writer: str) -> str:
    """The register of who may write under a name."""
    return OWNER_PREFIX + _digest(writer)


def _digest(writer: str) -> str:
    return hashlib.sha256(writer.encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch that is in the journal: its id, the index of its first record, and their number."""

    id: str
    seq: int
    count: int

    def pack(self) -> str:
        """As the value of a register."""
        return f"{self.id}/{self.seq}/{self.count}"

    @classmethod
    def unpack(cls, value: str) -> Batch:
        """From the value of a register."""
        name, seq, count = value.rsplit("/", 2)
        return cls(name, int(seq), int(count))


@dataclass(frozen=True, slots=True)
class Owner:
    """Who may write: a later epoch is not given up to an earlier one."""

    name: str
    epoch: int = 0

    def pack(self) -> str:
        """As the value of a register."""
        return f"{self.epoch}/{self.name}"

    @classmethod
    def unpack(cls, value: str) -> Owner:
        """From the value of a register."""
        epoch, _, name = value.partition("/")
        return cls(name, int(epoch))


def check_id(what: str, text: str) -> str:
    """The text, if it can be a part of a register's value.

    Raises:
        InvalidBatch: It cannot.
    """
    if not _ID.fullmatch(text):
        raise InvalidBatch(what, text)
    return text


@dataclass(frozen=True, slots=True)
class WriterState:
    """What a writer believes of the registers."""

    journal: str
    writer: str
    seq: int | None = None
    """None before the first record of the journal."""
    last: Batch | None = None
    owner: Owner | None = None
    """None where writers are not owned."""

    @classmethod
    def read(cls, journal: str, writer: str, registers: LabelSet, end: int) -> WriterState:
        """The state that registers tell of.

        Raises:
            NotSequenced: There is content, and no sequence.
        """
        seq = registers.value(SEQ)
        if seq is None and end > 0:
            raise NotSequenced(journal, end)
        last = registers.value(last_register(writer))
        owner = registers.value(owner_register(writer))
        return cls(
            journal,
            writer,
            None if seq is None else int(seq),
            None if last is None else Batch.unpack(last),
            None if owner is None else Owner.unpack(owner),
        )

    @property
    def next_seq(self) -> int:
        """The index of the next record."""
        return self.seq or 0

    def check(self) -> LabelSelector:
        """What the registers must match for an append by this state."""
        include, exclude = [], []
        for name, value in self._registers():
            if value is None:
                # Nothing else tells "there is none": an empty value would match every one.
                exclude.append(Label(name))
            else:
                include.append(Label(name, value))
        return LabelSelector(LabelSet.of(include), LabelSet.of(exclude))

    def _registers(self) -> list[tuple[str, str | None]]:
        return [
            (SEQ, None if self.seq is None else str(self.seq)),
            (last_register(self.writer), self.last.pack() if self.last else None),
            (owner_register(self.writer), self.owner.pack() if self.owner else None),
        ]

    def after(self, batch: Batch) -> WriterState:
        """The state once a batch is in the journal."""
        return replace(self, seq=batch.seq + batch.count, last=batch)

    def moved(self, batch: Batch) -> LabelSet:
        """The registers that the append of a batch sets."""
        after = self.after(batch)
        return LabelSet.of({SEQ: str(after.next_seq), last_register(self.writer): batch.pack()})

    def hand_over(self, owner: Owner) -> tuple[LabelSelector, LabelSet]:
        """What a hand-over checks and sets; it begins the sequence where there is none.

        The sequence itself is not checked: other writers may move it meanwhile.
        """
        name = owner_register(self.writer)
        include = [Label(name, self.owner.pack())] if self.owner else []
        exclude = [] if self.owner else [Label(name)]
        union = {name: owner.pack()}
        if self.seq is None:
            exclude.append(Label(SEQ))
            union[SEQ] = "0"
        return LabelSelector(LabelSet.of(include), LabelSet.of(exclude)), LabelSet.of(union)

    def judge(self, batch_id: str, now: WriterState, in_doubt: Container[str] = ()) -> WriterState:
        """The state to go on from after a batch was sent from this one, and the answer was lost.

        Its last batch is the one sent, if that is in the journal. If not, it can be sent again:
        the journal will take at most one of the two.

        Args:
            batch_id: The batch.
            now: What the registers tell now.
            in_doubt: Earlier batches of this writer whose outcome it never learned.

        Raises:
            WriterFenced: Another process writes under this name, or owns it.
        """
        mine = replace(now, owner=self.owner)
        if now.last is not None and now.last.id == batch_id:
            return mine
        if now.owner != self.owner:
            raise WriterFenced(self.journal, self.writer, _shown(self.owner), _shown(now.owner))
        if now.last != self.last and (now.last is None or now.last.id not in in_doubt):
            raise WriterFenced(self.journal, self.writer, _shown(self.last), _shown(now.last))
        return mine


def _shown(held: Batch | Owner | None) -> str:
    return held.pack() if held is not None else "nothing"


def rebuild_registers(tail: bytes) -> LabelSet:
    """The registers of a sequenced journal, from the frames at its end.

    The tail has to begin at the begin of an append, and early enough to hold the last batch of
    every writer that will go on: one that is not in it would start anew.

    Raises:
        InvalidTail: No append of the tail tells its sequence, or it ends inside one.
    """
    rebuild = RegisterRebuild()
    rebuild.feed(tail)
    return rebuild.finish()


class RegisterRebuild:
    """``rebuild_registers`` for a tail that comes in pieces."""

    def __init__(self, offset: int = 0) -> None:
        self._begin = self._end = offset
        self._registers: dict[str, str] = {}
        self._unframer = FixedUnframer(offset)

    def feed(self, content: bytes) -> None:
        """Take the next piece."""
        self._end += len(content)
        for frame in self._unframer.feed(content):
            try:
                control = decode_frame(frame)
            except InvalidRecord:
                continue  # bytes of a message that look like a frame
            if isinstance(control, Control):
                self._registers |= _registers_of(control, int(self._registers.get(SEQ, "0")))

    def jump(self, offset: int) -> None:
        """The tail goes on at another offset: what lies between is not there any more."""
        self._unframer.jump(offset)
        self._end = offset

    def finish(self) -> LabelSet:
        """The registers, once the whole tail was fed.

        Raises:
            InvalidTail: No append of the tail tells its sequence, or it ends inside one.
        """
        if self._unframer.offset != self._end:
            raise InvalidTail(f"it ends inside the frame that begins at {self._unframer.offset}")
        if SEQ not in self._registers:
            length = self._end - self._begin
            raise InvalidTail(f"none of its {length} bytes belong to a sequenced append's head")
        return LabelSet.of(self._registers)


def _registers_of(control: Control, seq: int) -> dict[str, str]:
    # A hand-over does not check the sequence, so what it says of it may be old.
    registers = {SEQ: str(max(seq, control.seq + control.count))}
    if control.batch:
        batch = Batch(control.batch, control.seq, control.count)
        registers[last_register(control.writer)] = batch.pack()
    if control.owner:
        registers[owner_register(control.writer)] = control.owner
    return registers
