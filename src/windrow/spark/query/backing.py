"""The records of a processor's deliveries, in a journal that only its owner can append to.

The journal ``_backing/<graph>/<processor>`` holds one record of the journal's envelope for each
record of ``windrow.graph.backing``. Its registers say what an append has to check:

- ``windrow.dev/seq``, the index of the next record: two processes of one owner, the one that plans
  and the one that completes, can never append at the same place;
- ``windrow.dev/owner/…``, who owns the processor under which epoch: one that was taken over can
  append no more;
- ``windrow.dev/last/…``, the id of the last append: one whose answer was lost is found by it;
- ``windrow.dev/anchor``, the offset of the last snapshot: reading begins there and not at zero.
  An append that passes the check of ``seq`` begins where the journal ended when ``seq`` was read,
  so the offset of a snapshot is known before it is appended, and moves with it.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from windrow.errors import OutcomeUnknown, WindrowError
from windrow.graph.backing import BackingState, Owned, Record, SnapshotTaken, decode, encode, fold
from windrow.graph.delivery_steps import BackingAppended, BackingRefused, Unknown
from windrow.graph.recovery_machine import Taken, TakenByOther
from windrow.graph.snapshot import ProcessorUid
from windrow.journal.client.sequence import SEQ, Batch, Owner, last_register, owner_register
from windrow.journal.errors import RegisterMismatch
from windrow.journal.labels import Label, LabelSelector, LabelSet
from windrow.journal.message.record import Control, decode_records, encode_control, encode_records
from windrow.journal.message.record import Record as Envelope

if TYPE_CHECKING:
    from windrow.journal.client.sync import SyncJournalClient

ANCHOR: Final = "windrow.dev/anchor"
ATTEMPT_TIMEOUT: Final = 30.0
_TRIES: Final = 5


@dataclass(frozen=True, slots=True)
class _Head:
    """What the journal was like when it was last looked at."""

    registers: LabelSet
    end: int

    @property
    def seq(self) -> int:
        return int(self.registers.value(SEQ) or 0)

    def owner(self, writer: str) -> Owner | None:
        packed = self.registers.value(owner_register(writer))
        return None if packed is None else Owner.unpack(packed)

    def last(self, writer: str) -> str:
        packed = self.registers.value(last_register(writer))
        return "" if packed is None else Batch.unpack(packed).id


class JournalBacking:
    """A ``BackingStore`` on a journal.

    Args:
        client: Who to ask; it is left open.
        journal: The journal, which is there and is sequenced.
        uid: The processor.
    """

    def __init__(self, client: SyncJournalClient, journal: str, uid: ProcessorUid) -> None:
        self.client = client
        self._journal = journal
        self._writer = str(uid)
        self._head: _Head | None = None

    def take(self, owner: str) -> Taken | TakenByOther:
        """Become the owner, under the next epoch."""
        for _ in range(_TRIES):
            head = self._look()
            before = head.owner(self._writer)
            after = Owner(owner, before.epoch + 1 if before else 1)
            record = Owned(owner, after.epoch)
            try:
                if self._append_once(head, record, before, after) is None:
                    return Taken(after.epoch)
            except OutcomeUnknown:
                continue  # if it was made, the next one takes it over from ourselves
        found = self._look().owner(self._writer)
        return TakenByOther(found.epoch if found else 0)

    def read(self) -> BackingState:
        """What the journal adds up to, back to the last snapshot."""
        head = self._look()
        anchor = int(head.registers.value(ANCHOR) or 0)
        owner = head.owner(self._writer)
        state = BackingState(owner.name, owner.epoch) if owner else BackingState()
        if anchor >= head.end:
            return state
        content = self.client.read(self._journal, anchor, head.end)
        records = decode_records(content, anchor)
        return fold((decode(each.value or b"") for each in records), state)

    def append(self, record: Record, epoch: int) -> BackingAppended | BackingRefused | Unknown:
        """Append a record, if the owner of that epoch still has it."""
        # A look serves one append: by the next one, the other process of this owner has appended.
        head = self._head or self._look()
        name = uuid.uuid4().hex
        for _ in range(_TRIES):
            owner = head.owner(self._writer)
            if owner is None or owner.epoch != epoch:
                return BackingRefused(owner.epoch if owner else 0)
            try:
                error = self._append_once(head, record, owner, name=name)
            except OutcomeUnknown as unknown:
                error = unknown
            except WindrowError as failed:
                return Unknown(str(failed))
            if error is None:
                return BackingAppended()
            try:
                head = self._look()
            except WindrowError as failed:
                return Unknown(f"{error}; then {failed}")
            if head.last(self._writer) == name:
                return BackingAppended()
        return Unknown(f"the journal {self._journal!r} is being appended to by others all the time")

    def close(self) -> None:
        """Forget what is known; the client is closed by whoever made it."""
        self._head = None

    # -- one append ------------------------------------------------------------------------------

    def _append_once(
        self,
        head: _Head,
        record: Record,
        before: Owner | None,
        after: Owner | None = None,
        name: str | None = None,
    ) -> WindrowError | None:
        """Append if nothing has changed since the look; the mismatch if something has."""
        batch = Batch(name or uuid.uuid4().hex, head.seq, 1)
        owner = after or before
        frame = Control(
            writer=self._writer,
            batch=batch.id,
            previous=head.last(self._writer),
            count=1,
            seq=batch.seq,
            owner=owner.pack() if after and owner else "",
        )
        content = encode_control(frame) + encode_records([Envelope(value=encode(record))], head.seq)
        moved = {SEQ: str(head.seq + 1), last_register(self._writer): batch.pack()}
        if after is not None:
            moved[owner_register(self._writer)] = after.pack()
        if isinstance(record, SnapshotTaken):
            moved[ANCHOR] = str(head.end)
        self._head = None
        try:
            self.client.append(
                self._journal,
                content,
                check=self._check(head, before),
                union=LabelSet.of(moved),
                attempt_timeout=ATTEMPT_TIMEOUT,
            )
        except RegisterMismatch as error:
            return error
        return None

    def _check(self, head: _Head, owner: Owner | None) -> LabelSelector:
        wanted = {
            SEQ: head.registers.value(SEQ),
            owner_register(self._writer): owner.pack() if owner else None,
            last_register(self._writer): head.registers.value(last_register(self._writer)),
        }
        include = [Label(name, value) for name, value in wanted.items() if value is not None]
        exclude = [Label(name) for name, value in wanted.items() if value is None]
        return LabelSelector(LabelSet.of(include), LabelSet.of(exclude))

    def _look(self) -> _Head:
        """The registers and the end, by an append of nothing: after all that was answered."""
        done = self.client.append(self._journal, attempt_timeout=ATTEMPT_TIMEOUT)
        self._head = _Head(done.registers, done.end)
        return self._head
