"""Journals as a target: rows, their numbers and the high-water in one append.

The registers of a journal hold the marks of every processor that writes to it, and the index of
its next record. An append checks that both are what was read and moves them, so it is made once or
refused. If only the index has moved, another processor has appended meanwhile: the same rows go
behind its rows. The record of what was delivered lies in the registers of the first partition.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from windrow.graph.delivery_steps import DeliveredMismatched, DeliveredMoved, Unknown
from windrow.graph.high_water import Delivered, HighWaters
from windrow.graph.packing import pack_delivered, pack_marks, unpack_delivered, unpack_marks
from windrow.graph.sink_rows import SinkRow
from windrow.graph.sink_task import Mismatched, WriterFenced, WriteUnknown, Written
from windrow.graph.snapshot import ProcessorUid
from windrow.journal.client.errors import CallFailed, NotSequenced
from windrow.journal.client.retrying import is_service_append_retried
from windrow.journal.errors import AppendUnknown, RegisterMismatch
from windrow.journal.labels import LabelSet
from windrow.spark.places import Place
from windrow.spark.queues.clients import journal_client
from windrow.spark.queues.find import find_journals
from windrow.spark.targets.journal_records import encode_rows
from windrow.spark.targets.journal_registers import (
    Move,
    by_name,
    delivered_family,
    marks_family,
    seq_of,
)

if TYPE_CHECKING:
    from windrow.journal.client.requests import Committed
    from windrow.journal.client.sync import SyncJournalClient

APPEND_TIMEOUT = 30.0
"""How long one append may take before its outcome is looked up instead of waited for."""


class JournalTarget:
    """Writes rows as records of one journal per partition.

    Args:
        place: The journals, which exist.
        client: What calls the brokers; by default the one that all of this process share.
    """

    def __init__(self, place: Place, client: SyncJournalClient | None = None) -> None:
        self._place = place
        self._given = client
        self._found: tuple[str, ...] = ()
        self._seqs: dict[str, int | None] = {}

    @property
    def _client(self) -> SyncJournalClient:
        # Asked for each time: others may have closed it, and there is a new one then.
        return self._given or journal_client(self._place.connections.journal)

    def targets(self) -> int:
        """How many partitions it has."""
        return len(self._journals())

    # -- the high-water --------------------------------------------------------------------------

    def read_high_water(self, uid: ProcessorUid, target: int) -> HighWaters:
        """The marks of a partition, read behind every append that was answered."""
        registers = self._read(self._journal(target))
        return unpack_marks(uid, target, by_name(registers))

    def write(
        self, rows: Sequence[SinkRow], expected: HighWaters, marks: HighWaters
    ) -> Written | Mismatched | WriteUnknown | WriterFenced:
        """Append the rows and move the marks, if they are the expected ones."""
        journal = self._journal(expected.target)
        move = Move(marks_family(expected.uid), pack_marks(expected), pack_marks(marks))
        while True:
            try:
                self._append(journal, expected.uid, move, rows)
                return Written()
            except RegisterMismatch as error:
                registers = self._after_mismatch(journal, error)
            except (AppendUnknown, CallFailed) as error:
                self._on_lost(journal, error)
                return WriteUnknown()
            found = unpack_marks(expected.uid, expected.target, by_name(registers))
            if found.epoch > marks.epoch:
                return WriterFenced(marks.epoch, found.epoch)
            if not move.is_possible(by_name(registers)):
                return Mismatched()

    def fence(self, uid: ProcessorUid, epoch: int) -> Sequence[HighWaters]:
        """Write the epoch into the marks of every partition; returns them.

        Reading would not do: what an earlier owner has on its way lands before this write, or is
        refused because of it.
        """
        return [self._fence(uid, target, epoch) for target in range(self.targets())]

    def _fence(self, uid: ProcessorUid, target: int, epoch: int) -> HighWaters:
        while True:
            found = self.read_high_water(uid, target)
            owned = found.owned_by(epoch)
            if owned == found or isinstance(self.write((), found, owned), Written):
                return owned

    # -- the record of what was delivered --------------------------------------------------------

    def read_delivered(self, uid: ProcessorUid) -> Delivered | None:
        """The record in the registers of the first partition."""
        return unpack_delivered(uid, by_name(self._read(self._journal(0))))

    def commit_delivered(
        self, expected: Delivered | None, delivered: Delivered
    ) -> DeliveredMoved | DeliveredMismatched | Unknown:
        """Move the record, if it is the expected one."""
        journal, uid = self._journal(0), delivered.uid
        old = pack_delivered(expected) if expected else {}
        move = Move(delivered_family(uid), old, pack_delivered(delivered))
        while True:
            try:
                self._append(journal, uid, move, ())
                return DeliveredMoved()
            except RegisterMismatch as error:
                registers = self._after_mismatch(journal, error)
            except (AppendUnknown, CallFailed) as error:
                self._on_lost(journal, error)
                return Unknown(str(error))
            found = unpack_delivered(uid, by_name(registers))
            if found == delivered:
                return DeliveredMoved()
            if not move.is_possible(by_name(registers)):
                return DeliveredMismatched(found)

    def close(self) -> None:
        """End all connections; does nothing the second time."""
        self._seqs.clear()  # the client is not ours alone

    # -- calls -----------------------------------------------------------------------------------

    def _append(self, journal: str, uid: ProcessorUid, move: Move, rows: Sequence[SinkRow]) -> None:
        if journal not in self._seqs:
            self._read(journal)
        seq, count = self._seqs[journal], len(rows)
        committed = self._client.append(
            journal,
            encode_rows(rows, str(uid), seq or 0),
            check=move.check(seq, count),
            union=move.union(seq, count),
            subtract=move.subtract,
            attempt_timeout=APPEND_TIMEOUT,
        )
        self._seqs[journal] = seq_of(committed.registers)

    def _read(self, journal: str) -> LabelSet:
        """The registers, by an append of nothing: it comes behind all that was answered."""
        try:
            found = self._client.append(journal, attempt_timeout=APPEND_TIMEOUT)
        except RegisterMismatch as error:
            raise NotSequenced(journal) from error  # nothing was checked but that
        except AppendUnknown:
            found = self._client.append(journal, attempt_timeout=APPEND_TIMEOUT)
        self._note(journal, found)
        return found.registers

    def _note(self, journal: str, found: Committed) -> None:
        seq = seq_of(found.registers)
        if seq is None and found.end > 0:
            raise NotSequenced(journal, found.end)
        self._seqs[journal] = seq

    def _after_mismatch(self, journal: str, error: RegisterMismatch) -> LabelSet:
        if not error.registers:  # a journal that lost them says so by a mismatch, too
            return self._read(journal)
        self._seqs[journal] = seq_of(error.registers)
        return error.registers

    def _on_lost(self, journal: str, error: AppendUnknown | CallFailed) -> None:
        self._seqs.pop(journal, None)
        if isinstance(error, CallFailed) and not is_service_append_retried(error):
            raise error

    # -- which journals --------------------------------------------------------------------------

    def _journal(self, target: int) -> str:
        return self._journals()[target]

    def _journals(self) -> tuple[str, ...]:
        if not self._found:
            found = find_journals(self._client, self._place)
            self._found = tuple(each.journal for each in found)
        return self._found
